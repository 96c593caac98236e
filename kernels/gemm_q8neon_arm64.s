// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"
#include "neon_arm64.h"
#include "gemm_neon_arm64.h"

// Q8 times several tokens for cores without the dot product instructions. The
// products are those of matmul_q8neon_arm64.s, with its bounds; the order is made
// for cores that issue two instructions a cycle and never out of order
// (Cortex-A53): nothing is used within six instructions of the vector pipe after
// it was made, and loads come one by one between such instructions. So that x is
// at hand where a block begins, each block loads that of the next, and the last
// one of a group that of the first again.

// Four int16 sums OP= a token's x times two weight registers.
#define MUL4(OP, OP2, s0, s1, s2, s3, w0, w1, x) \
	OP(s0, w0, x); \
	OP2(s1, w0, x); \
	OP(s2, w1, x); \
	OP2(s3, w1, x)

// Neighbours of V12-V19 in pairs into the int32 sums V4-V11.
#define SUM8(OP) \
	OP(4, 12); \
	OP(5, 13); \
	OP(6, 14); \
	OP(7, 15); \
	OP(8, 16); \
	OP(9, 17); \
	OP(10, 18); \
	OP(11, 19)

// Lanes of V4-V11, two a row, to V4, V6, V8 and V10, one a row.
#define HALVE \
	VADDP V5.S4, V4.S4, V4.S4; \
	VADDP V7.S4, V6.S4, V6.S4; \
	VADDP V9.S4, V8.S4, V8.S4; \
	VADDP V11.S4, V10.S4, V10.S4

// V0-V3 += (dw*dx) * float32(s), each step rounded, for scales of rows dw0-dw3 and
// of tokens dx0-dx3, one of each for a result, and the sums V4, V6, V8 and V10.
#define SCALEADD4(dw0, dw1, dw2, dw3, dx0, dx1, dx2, dx3) \
	FMULE(12, dw0, dx0, 0); \
	FMULE(13, dw1, dx1, 0); \
	FMULE(14, dw2, dx2, 0); \
	FMULE(15, dw3, dx3, 0); \
	SCVTFV(4, 4); \
	SCVTFV(6, 6); \
	SCVTFV(8, 8); \
	SCVTFV(10, 10); \
	FMULV(12, 12, 4); \
	FMULV(13, 13, 6); \
	FMULV(14, 14, 8); \
	FMULV(15, 15, 10); \
	FADDV(0, 0, 12); \
	FADDV(1, 1, 13); \
	FADDV(2, 2, 14); \
	FADDV(3, 3, 15)

// A step of two tokens, whose x is in V26 and V27, by the weights w0, w1. Loads
// the weights of the next into n0, n1 and spreads its x, dword i of x0 and x1.
#define STEP22(OP, OP2, w0, w1, off, n0, n1, x0, x1, i) \
	OP(12, w0, 26); \
	FMOVQ off(R1), n0; \
	OP2(13, w0, 26); \
	FMOVQ (off+16)(R1), n1; \
	OP(14, w1, 26); \
	OP2(15, w1, 26); \
	VDUP  x0.S[i], V26.S4; \
	MUL4(OP, OP2, 16, 17, 18, 19, w0, w1, 27); \
	VDUP  x1.S[i], V27.S4

// func q8x8Gemm2NEON(dst *float32, ldd int, w *byte, x *int8, d *float32, groups, nb int)
//
// Two tokens times groups of 8 rows: dst[t*ldd+8g+r], x is [2][nb*32], d is
// [2][nb]; tiles as for q8x8GemvSDOT. |s| <= 32*128*127 = 520192 < 2^24.
//
// R0 dst  R1 w  R2,R3 x,d  R4 groups  R5 nb  R9 nb'  R10,R11 x'  R14,R15 d'
// R19 nb*32  R20 nb*4  R21 ldd*4  R22 tmp
// V0-V3 acc [token][rows 0-3, 4-7]   V4-V11 int32 sums [token][rows 0,1 … 6,7]
// V12-V19 int16 products   V20-V23 weights of a step and of the next
// V24,V25 x of token 0, V28,V29 of token 1   V26,V27 x of a step   V25,V29 dx
// V30,V31 scales
TEXT ·q8x8Gemm2NEON(SB), NOSPLIT, $0-56
	GEMM_ARGS
	MOVD  R2, R10
	ADD   R19, R10, R11
	FMOVQ (R10), F24
	FMOVQ (R11), F28
	VDUP  V24.S[0], V26.S4
	VDUP  V28.S[0], V27.S4

group:
	GEMM2_GROUP
	VEOR V2.B16, V2.B16, V2.B16
	VEOR V3.B16, V3.B16, V3.B16

block:
	FMOVQ 16(R1), F20
	FMOVQ 32(R1), F21
	STEP22(SMULL, SMULL2, 20, 21, 48, F22, F23, V24, V28, 1)
	FMOVQ 16(R10), F25
	STEP22(SMLAL, SMLAL2, 22, 23, 80, F20, F21, V24, V28, 2)
	FMOVQ 16(R11), F29
	SUM8(SADDLP)
	STEP22(SMULL, SMULL2, 20, 21, 112, F22, F23, V24, V28, 3)
	ADD   $32, R10
	SUBS  $1, R9
	STEP22(SMLAL, SMLAL2, 22, 23, 144, F20, F21, V25, V29, 0)
	CSEL  EQ, R2, R10, R10
	SUM8(SADALP)
	STEP22(SMULL, SMULL2, 20, 21, 176, F22, F23, V25, V29, 1)
	ADD   R19, R10, R11
	FMOVQ (R1), F30
	STEP22(SMLAL, SMLAL2, 22, 23, 208, F20, F21, V25, V29, 2)
	FMOVQ (R10), F24
	SUM8(SADALP)
	FMOVQ (R11), F28
	FCVTL2(31, 30)
	FCVTL(30, 30)
	STEP22(SMULL, SMULL2, 20, 21, 240, F22, F23, V25, V29, 3)
	FMOVS.P 4(R14), F25
	MUL4(SMLAL, SMLAL2, 12, 13, 14, 15, 22, 23, 26)
	FMOVS.P 4(R15), F29
	VDUP  V24.S[0], V26.S4
	MUL4(SMLAL, SMLAL2, 16, 17, 18, 19, 22, 23, 27)
	ADD   $272, R1
	VDUP  V28.S[0], V27.S4
	SUM8(SADALP)
	HALVE
	SCALEADD4(30, 31, 30, 31, 25, 25, 29, 29)
	BNE   block

	ADD   R21, R0, R22
	FSTPQ (F0, F1), (R0)
	FSTPQ (F2, F3), (R22)
	ADD   $32, R0
	SUBS  $1, R4
	BNE   group
	RET

// A step of four tokens, whose x is in V24-V27, by the weights w. Loads the
// weights of the next into n and spreads its x, dword i of V28-V31.
#define STEP14(OP, OP2, w, off, n, i) \
	OP(12, w, 24); \
	FMOVQ off(R1), n; \
	OP2(13, w, 24); \
	OP(14, w, 25); \
	OP2(15, w, 25); \
	VDUP  V28.S[i], V24.S4; \
	VDUP  V29.S[i], V25.S4; \
	OP(16, w, 26); \
	OP2(17, w, 26); \
	OP(18, w, 27); \
	OP2(19, w, 27); \
	VDUP  V30.S[i], V26.S4; \
	VDUP  V31.S[i], V27.S4

// The same where the next step begins another half of x, at xoff.
#define STEP14X(OP, OP2, w, off, n, xoff) \
	OP(12, w, 24); \
	FMOVQ xoff(R10), F28; \
	OP2(13, w, 24); \
	FMOVQ xoff(R11), F29; \
	OP(14, w, 25); \
	FMOVQ xoff(R12), F30; \
	OP2(15, w, 25); \
	FMOVQ xoff(R13), F31; \
	OP(16, w, 26); \
	FMOVQ off(R1), n; \
	VDUP  V28.S[0], V24.S4; \
	VDUP  V29.S[0], V25.S4; \
	OP2(17, w, 26); \
	OP(18, w, 27); \
	OP2(19, w, 27); \
	VDUP  V30.S[0], V26.S4; \
	VDUP  V31.S[0], V27.S4

// func q8x4Gemm4NEON(dst *float32, ldd int, w *byte, x *int8, d *float32, groups, nb int)
//
// Four tokens times groups of 4 rows: dst[t*ldd+4g+r], x is [4][nb*32], d is
// [4][nb]; group-blocks as for q8x4GemvSDOT. Bounds as above.
//
// R0 dst  R1 w  R2,R3 x,d  R4 groups  R5 nb  R9 nb'  R10-R13 x'  R14-R17 d'
// R19 nb*32  R20 nb*4  R21 ldd*4  R22 tmp
// V0-V3 acc by token   V4-V11 int32 sums [token][rows 0,1 and 2,3]
// V12-V19 int16 products   V20,V21 weights of a step and of the next   V21 scales
// V24-V27 x of a step   V28-V31 half of x   V16-V19 dx
TEXT ·q8x4Gemm4NEON(SB), NOSPLIT, $0-56
	GEMM_ARGS
	GEMM4_X(F28, F29, F30, F31, V28, V29, V30, V31, V24, V25, V26, V27)

group:
	GEMM4_GROUP

block:
	FMOVQ 8(R1), F20
	STEP14(SMULL, SMULL2, 20, 24, F21, 1)
	STEP14(SMLAL, SMLAL2, 21, 40, F20, 2)
	SUM8(SADDLP)
	STEP14(SMULL, SMULL2, 20, 56, F21, 3)
	STEP14X(SMLAL, SMLAL2, 21, 72, F20, 16)
	ADD   $32, R10
	SUBS  $1, R9
	SUM8(SADALP)
	STEP14(SMULL, SMULL2, 20, 88, F21, 1)
	CSEL  EQ, R2, R10, R10
	STEP14(SMLAL, SMLAL2, 21, 104, F20, 2)
	ADD   R19, R10, R11
	SUM8(SADALP)
	ADD   R19, R11, R12
	STEP14(SMULL, SMULL2, 20, 120, F21, 3)
	ADD   R19, R12, R13
	STEP14X(SMLAL, SMLAL2, 21, 0, F20, 0)
	FCVTL(20, 20)
	SUM8(SADALP)
	FMOVS.P 4(R14), F16
	HALVE
	FMOVS.P 4(R15), F17
	FMOVS.P 4(R16), F18
	FMOVS.P 4(R17), F19
	ADD   $136, R1
	SCALEADD4(20, 20, 20, 20, 16, 17, 18, 19)
	BNE   block

	GEMM4_STORE
	BNE   group
	RET

// OP on the same half of four rows' codes, all with the same half of x.
#define ROWS4(OP, t0, t1, t2, t3, w0, w1, w2, w3, x) \
	OP(t0, w0, x); \
	OP(t1, w1, x); \
	OP(t2, w2, x); \
	OP(t3, w3, x)

#define ADD4(OP, s0, s1, s2, s3, t0, t1, t2, t3) \
	OP(s0, t0); \
	OP(s1, t1); \
	OP(s2, t2); \
	OP(s3, t3)

// func q8rowGemm2NEON(dst *float32, ldd int, w *byte, stride int, x *int8, d *float32, groups, nb int)
//
// Two tokens times groups of 4 rows, stride bytes apart: dst[t*ldd+4g+r], x is
// [2][nb*32], d is [2][nb]. Bounds as above.
//
// R0 dst  R1 w  R2,R3 x,d  R4 groups  R5 nb  R6 stride  R7,R8 x'  R9 nb'
// R10-R13 rows  R14,R15 d'  R16,R17,R22,R23 scales  R19 nb*32  R20 nb*4  R21 ldd*4
// V0,V1 acc   V2,V3 dx   V4-V11 int32 sums [token][row]
// V12-V19 int16 products [half][row]   V20-V27 codes [half][row]
// V28-V31 x [token][half]   V20 scales
TEXT ·q8rowGemm2NEON(SB), NOSPLIT, $0-64
	GEMM_ROWS_ARGS
	MOVD  R2, R7
	ADD   R19, R7, R8
	FLDPQ (R7), (F28, F29)

group:
	GEMM_ROWS_NEXT
	GEMM2_GROUP

block:
	FMOVQ 2(R10), F20
	FMOVQ 2(R11), F21
	FMOVQ 2(R12), F22
	FMOVQ 2(R13), F23
	SMULL(12, 20, 28)
	FMOVQ 18(R10), F24
	SMULL(13, 21, 28)
	FMOVQ 18(R11), F25
	SMULL(14, 22, 28)
	FMOVQ 18(R12), F26
	SMULL(15, 23, 28)
	FMOVQ 18(R13), F27
	SMULL2(16, 20, 28)
	MOVHU.P 34(R10), R16
	SMULL2(17, 21, 28)
	MOVHU.P 34(R11), R17
	SMULL2(18, 22, 28)
	MOVHU.P 34(R12), R22
	SMULL2(19, 23, 28)
	MOVHU.P 34(R13), R23
	ROWS4(SMLAL, 12, 13, 14, 15, 24, 25, 26, 27, 29)
	FMOVQ (R8), F30
	SMLAL2(16, 24, 29)
	FMOVQ 16(R8), F31
	SMLAL2(17, 25, 29)
	ORR   R17<<16, R16
	SMLAL2(18, 26, 29)
	ORR   R22<<32, R16
	SMLAL2(19, 27, 29)
	ORR   R23<<48, R16
	ADD4(SADDLP, 4, 5, 6, 7, 12, 13, 14, 15)
	FMOVS.P 4(R14), F2
	ROWS4(SMULL, 12, 13, 14, 15, 20, 21, 22, 23, 30)
	FMOVS.P 4(R15), F3
	ADD4(SADALP, 4, 5, 6, 7, 16, 17, 18, 19)
	ADD   $32, R7
	SUBS  $1, R9
	ROWS4(SMULL2, 16, 17, 18, 19, 20, 21, 22, 23, 30)
	CSEL  EQ, R2, R7, R7
	FMOVD R16, F20
	ROWS4(SMLAL, 12, 13, 14, 15, 24, 25, 26, 27, 31)
	VADDP V5.S4, V4.S4, V4.S4
	VADDP V7.S4, V6.S4, V6.S4
	FCVTL(20, 20)
	FMOVQ (R7), F28
	ROWS4(SMLAL2, 16, 17, 18, 19, 24, 25, 26, 27, 31)
	FMOVQ 16(R7), F29
	ADD4(SADDLP, 8, 9, 10, 11, 12, 13, 14, 15)
	VADDP V6.S4, V4.S4, V4.S4
	FMULE(12, 20, 2, 0)
	FMULE(13, 20, 3, 0)
	ADD4(SADALP, 8, 9, 10, 11, 16, 17, 18, 19)
	SCVTFV(4, 4)
	ADD   R19, R7, R8
	VADDP V9.S4, V8.S4, V8.S4
	VADDP V11.S4, V10.S4, V10.S4
	FMULV(12, 12, 4)
	VADDP V10.S4, V8.S4, V8.S4
	FADDV(0, 0, 12)
	SCVTFV(8, 8)
	FMULV(13, 13, 8)
	FADDV(1, 1, 13)
	BNE   block

	GEMM2_STORE
	BNE   group
	RET
