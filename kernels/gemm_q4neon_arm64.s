// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"
#include "neon_arm64.h"
#include "gemm_neon_arm64.h"

// Q4 times several tokens for cores without the dot product instructions, in an
// order as in gemm_q8neon_arm64.s; products and bounds are those of
// matmul_q4neon_arm64.s. The nibbles are split once for all tokens.

// Signed nibbles in V24-V27 to their low codes in V20-V23 and high ones in place.
#define SPLIT4 \
	VSHL $4, V24.B16, V20.B16; \
	VSHL $4, V25.B16, V21.B16; \
	VSHL $4, V26.B16, V22.B16; \
	VSHL $4, V27.B16, V23.B16; \
	SSHRB(24, 24, 4); \
	SSHRB(25, 25, 4); \
	SSHRB(26, 26, 4); \
	SSHRB(27, 27, 4); \
	SSHRB(20, 20, 4); \
	SSHRB(21, 21, 4); \
	SSHRB(22, 22, 4); \
	SSHRB(23, 23, 4)

// A step of four tokens, whose x is in V12-V15, by the codes w. Spreads the x of
// the next, dword i of V16-V19.
#define STEP14(OP, OP2, w, i) \
	OP(4, w, 12); \
	OP2(5, w, 12); \
	OP(6, w, 13); \
	OP2(7, w, 13); \
	VDUP V16.S[i], V12.S4; \
	VDUP V17.S[i], V13.S4; \
	OP(8, w, 14); \
	OP2(9, w, 14); \
	OP(10, w, 15); \
	OP2(11, w, 15); \
	VDUP V18.S[i], V14.S4; \
	VDUP V19.S[i], V15.S4

// The same where the next step begins another half of x, at off.
#define STEP14X(w, off) \
	SMLAL(4, w, 12); \
	FMOVQ off(R10), F16; \
	SMLAL2(5, w, 12); \
	FMOVQ off(R11), F17; \
	SMLAL(6, w, 13); \
	FMOVQ off(R12), F18; \
	SMLAL2(7, w, 13); \
	FMOVQ off(R13), F19; \
	SMLAL(8, w, 14); \
	VDUP  V16.S[0], V12.S4; \
	VDUP  V17.S[0], V13.S4; \
	SMLAL2(9, w, 14); \
	SMLAL(10, w, 15); \
	SMLAL2(11, w, 15); \
	VDUP  V18.S[0], V14.S4; \
	VDUP  V19.S[0], V15.S4

// Neighbours of the eight int16 sums, in pairs, to int32.
#define SUM8 \
	SADDLP(4, 4); \
	SADDLP(5, 5); \
	SADDLP(6, 6); \
	SADDLP(7, 7); \
	SADDLP(8, 8); \
	SADDLP(9, 9); \
	SADDLP(10, 10); \
	SADDLP(11, 11)

// func q4x4Gemm4NEON(dst *float32, ldd int, w *byte, x *int8, d *float32, groups, nb int)
//
// Four tokens times groups of 4 rows: dst[t*ldd+4g+r], x is [4][nb*32], d is
// [4][nb]; group-blocks as for q4x4GemvSDOT. |s| <= 32*8*127 = 32512.
//
// R0 dst  R1 w  R2,R3 x,d  R4 groups  R5 nb  R9 nb'  R10-R13 x'  R14-R17 d'
// R19 nb*32  R20 nb*4  R21 ldd*4  R22 tmp
// V0-V3 acc by token   V4-V11 int16 sums [token][rows 0,1 and 2,3], then int32
// V12-V15 x of a step   V16-V19 half of x   V20-V23 low codes by step, then dx
// V24-V27 nibbles, then high codes, then products of scales   V28 scales
TEXT ·q4x4Gemm4NEON(SB), NOSPLIT, $0-56
	GEMM_ARGS
	GEMM4_X(F16, F17, F18, F19, V16, V17, V18, V19, V12, V13, V14, V15)

group:
	GEMM4_GROUP

block:
	FMOVQ 8(R1), F24
	FMOVQ 24(R1), F25
	FMOVQ 40(R1), F26
	FMOVQ 56(R1), F27
	FMOVD (R1), F28
	ADD   $72, R1
	SPLIT4
	STEP14(SMULL, SMULL2, 20, 1)
	STEP14(SMLAL, SMLAL2, 21, 2)
	STEP14(SMLAL, SMLAL2, 22, 3)
	STEP14X(23, 16)
	FMOVS.P 4(R14), F20
	STEP14(SMLAL, SMLAL2, 24, 1)
	FMOVS.P 4(R15), F21
	ADD   $32, R10
	SUBS  $1, R9
	FCVTL(28, 28)
	STEP14(SMLAL, SMLAL2, 25, 2)
	CSEL  EQ, R2, R10, R10
	FMOVS.P 4(R16), F22
	ADD   R19, R10, R11
	STEP14(SMLAL, SMLAL2, 26, 3)
	ADD   R19, R11, R12
	FMOVS.P 4(R17), F23
	ADD   R19, R12, R13
	STEP14X(27, 0)
	SUM8
	VADDP V5.S4, V4.S4, V4.S4
	VADDP V7.S4, V6.S4, V6.S4
	VADDP V9.S4, V8.S4, V8.S4
	VADDP V11.S4, V10.S4, V10.S4
	FMULE(24, 28, 20, 0)
	FMULE(25, 28, 21, 0)
	FMULE(26, 28, 22, 0)
	FMULE(27, 28, 23, 0)
	SCVTFV(4, 4)
	SCVTFV(6, 6)
	SCVTFV(8, 8)
	SCVTFV(10, 10)
	FMULV(24, 24, 4)
	FMULV(25, 25, 6)
	FMULV(26, 26, 8)
	FMULV(27, 27, 10)
	FADDV(0, 0, 24)
	FADDV(1, 1, 25)
	FADDV(2, 2, 26)
	FADDV(3, 3, 27)
	BNE   block

	GEMM4_STORE
	BNE   group
	RET

// Eight int16 sums V4-V11 OP= the codes of four rows times two tokens' x.
#define MUL42(OP, w0, w1, w2, w3, x0, x1) \
	OP(4, w0, x0); \
	OP(5, w1, x0); \
	OP(6, w2, x0); \
	OP(7, w3, x0); \
	OP(8, w0, x1); \
	OP(9, w1, x1); \
	OP(10, w2, x1); \
	OP(11, w3, x1)

// func q4rowGemm2NEON(dst *float32, ldd int, w *byte, stride int, x *int8, d *float32, groups, nb int)
//
// Two tokens times groups of 4 rows, stride bytes apart: dst[t*ldd+4g+r], x is
// [2][nb*32], d is [2][nb]. Bounds as above.
//
// R0 dst  R1 w  R2,R3 x,d  R4 groups  R5 nb  R6 stride  R7,R8 x'  R9 nb'
// R10-R13 rows  R14,R15 d'  R16,R17,R22,R23 scales  R19 nb*32  R20 nb*4  R21 ldd*4
// V0,V1 acc   V4-V11 int16 sums [token][row], then int32   V12-V15 x [token][half]
// V16,V17 dx   V20-V23 low codes by row   V24-V27 nibbles, then high codes
// V28 scales   V30 0x88
TEXT ·q4rowGemm2NEON(SB), NOSPLIT, $0-64
	GEMM_ROWS_ARGS
	VMOVI $0x88, V30.B16

group:
	GEMM_ROWS_NEXT
	MOVD R2, R7
	ADD  R19, R7, R8
	GEMM2_GROUP

block:
	FMOVQ 2(R10), F24
	FMOVQ 2(R11), F25
	FMOVQ 2(R12), F26
	FMOVQ 2(R13), F27
	VEOR  V30.B16, V24.B16, V24.B16
	MOVHU.P 18(R10), R16
	VEOR  V30.B16, V25.B16, V25.B16
	MOVHU.P 18(R11), R17
	VEOR  V30.B16, V26.B16, V26.B16
	MOVHU.P 18(R12), R22
	VEOR  V30.B16, V27.B16, V27.B16
	MOVHU.P 18(R13), R23
	SPLIT4
	FMOVQ (R7), F12
	FMOVQ (R8), F14
	SMULL(4, 20, 12)
	FMOVQ 16(R7), F13
	SMULL(5, 21, 12)
	FMOVQ 16(R8), F15
	SMULL(6, 22, 12)
	FMOVS.P 4(R14), F16
	SMULL(7, 23, 12)
	FMOVS.P 4(R15), F17
	SMULL(8, 20, 14)
	ORR   R17<<16, R16
	SMULL(9, 21, 14)
	ORR   R22<<32, R16
	SMULL(10, 22, 14)
	ORR   R23<<48, R16
	SMULL(11, 23, 14)
	ADD   $32, R7
	MUL42(SMLAL2, 20, 21, 22, 23, 12, 14)
	FMOVD R16, F28
	ADD   $32, R8
	MUL42(SMLAL, 24, 25, 26, 27, 13, 15)
	FCVTL(28, 28)
	MUL42(SMLAL2, 24, 25, 26, 27, 13, 15)
	SUM8
	VADDP V5.S4, V4.S4, V4.S4
	VADDP V7.S4, V6.S4, V6.S4
	VADDP V9.S4, V8.S4, V8.S4
	VADDP V11.S4, V10.S4, V10.S4
	FMULE(16, 28, 16, 0)
	FMULE(17, 28, 17, 0)
	VADDP V6.S4, V4.S4, V4.S4
	VADDP V10.S4, V8.S4, V8.S4
	SCVTFV(4, 4)
	SCVTFV(8, 8)
	FMULV(16, 16, 4)
	FMULV(17, 17, 8)
	SUBS  $1, R9
	FADDV(0, 0, 16)
	FADDV(1, 1, 17)
	BNE   block

	GEMM2_STORE
	BNE   group
	RET
