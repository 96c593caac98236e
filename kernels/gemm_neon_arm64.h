// SPDX-License-Identifier: Apache-2.0

// What the products of several tokens without dot product instructions share:
// those of Q8 (gemm_q8neon_arm64.s) and of Q4 (gemm_q4neon_arm64.s).
//
// R0 dst  R1 w  R2,R3 x,d  R4 groups  R5 nb  R19 nb*32  R20 nb*4  R21 ldd*4

#define GEMM_STRIDES \
	LSL $5, R5, R19; \
	LSL $2, R5, R20; \
	LSL $2, R21

// Arguments (dst *float32, ldd int, w *byte, x *int8, d *float32, groups, nb int).
#define GEMM_ARGS \
	MOVD dst+0(FP), R0; \
	MOVD ldd+8(FP), R21; \
	MOVD w+16(FP), R1; \
	MOVD x+24(FP), R2; \
	MOVD d+32(FP), R3; \
	MOVD groups+40(FP), R4; \
	MOVD nb+48(FP), R5; \
	GEMM_STRIDES

// The same with the stride of rows after w, in R6.
#define GEMM_ROWS_ARGS \
	MOVD dst+0(FP), R0; \
	MOVD ldd+8(FP), R21; \
	MOVD w+16(FP), R1; \
	MOVD stride+24(FP), R6; \
	MOVD x+32(FP), R2; \
	MOVD d+40(FP), R3; \
	MOVD groups+48(FP), R4; \
	MOVD nb+56(FP), R5; \
	GEMM_STRIDES

// x of four tokens, R10-R13: the first half of each, and its first dword spread.
#define GEMM4_X(f0, f1, f2, f3, h0, h1, h2, h3, x0, x1, x2, x3) \
	MOVD  R2, R10; \
	ADD   R19, R10, R11; \
	ADD   R19, R11, R12; \
	ADD   R19, R12, R13; \
	FMOVQ (R10), f0; \
	FMOVQ (R11), f1; \
	FMOVQ (R12), f2; \
	FMOVQ (R13), f3; \
	VDUP  h0.S[0], x0.S4; \
	VDUP  h1.S[0], x1.S4; \
	VDUP  h2.S[0], x2.S4; \
	VDUP  h3.S[0], x3.S4

// The begin of a group of four tokens: d' in R14-R17, nb' in R9, sums V0-V3.
#define GEMM4_GROUP \
	MOVD R3, R14; \
	ADD  R20, R14, R15; \
	ADD  R20, R15, R16; \
	ADD  R20, R16, R17; \
	MOVD R5, R9; \
	VEOR V0.B16, V0.B16, V0.B16; \
	VEOR V1.B16, V1.B16, V1.B16; \
	VEOR V2.B16, V2.B16, V2.B16; \
	VEOR V3.B16, V3.B16, V3.B16

// Its end: four rows of each token.
#define GEMM4_STORE \
	ADD   R21, R0, R22; \
	FMOVQ F0, (R0); \
	FMOVQ F1, (R22); \
	ADD   R21, R22; \
	FMOVQ F2, (R22); \
	ADD   R21, R22; \
	FMOVQ F3, (R22); \
	ADD   $16, R0; \
	SUBS  $1, R4

// Four rows R10-R13 of the next group.
#define GEMM_ROWS_NEXT \
	MOVD R1, R10; \
	ADD  R6, R10, R11; \
	ADD  R6, R11, R12; \
	ADD  R6, R12, R13; \
	ADD  R6<<2, R1, R1

// d' of two tokens in R14, R15, nb' in R9, sums V0, V1.
#define GEMM2_GROUP \
	MOVD R3, R14; \
	ADD  R20, R14, R15; \
	MOVD R5, R9; \
	VEOR V0.B16, V0.B16, V0.B16; \
	VEOR V1.B16, V1.B16, V1.B16

// Four rows of two tokens.
#define GEMM2_STORE \
	ADD   R21, R0, R22; \
	FMOVQ F0, (R0); \
	FMOVQ F1, (R22); \
	ADD   $16, R0; \
	SUBS  $1, R4
