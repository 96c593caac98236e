// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"
#include "neon_arm64.h"

// Bias of the integer sums, see matmul_q8x8_arm64.s.
DATA magic8<>+0(SB)/8, $0x4B4000004B400000
DATA magic8<>+8(SB)/8, $0x4B4000004B400000
DATA magic8<>+16(SB)/8, $0x4B4000004B400000
DATA magic8<>+24(SB)/8, $0x4B4000004B400000
GLOBL magic8<>(SB), RODATA|NOPTR, $32

// acc += (dw*dx) * (s - magic), each step rounded. V31 is the magic float.
#define SCALEADD(acc, s, dw, dx, tmp) \
	FMULE(tmp, dw, dx, 0); \
	FSUBV(s, s, 31); \
	FMULV(tmp, tmp, s); \
	FADDV(acc, acc, tmp)

// func q8x4GemvSDOT(dst *float32, w *byte, x *int8, d *float32, groups, nb int)
//
// One token times groups of 4 rows, weights in 136-byte groups (docs/FORMAT.md,
// Q8 4x4): 4 f16 scales, then 16 bytes a step k with code 4k..4k+3 of row
// 0..3. dst[4g+r] is row 4g+r; x is [nb*32], d is [nb].
//
// |s| <= 32*128*127 = 520192 < 2^22.
//
// R0 dst  R1 w  R2 x  R3 d  R4 groups  R5 nb  R6 magic8  R7 x'  R8 d'  R9 nb'
// V0 acc   V2 integer sum   V4,V5 x   V6 dx   V7 scales   V16-V23 weights
TEXT ·q8x4GemvSDOT(SB), NOSPLIT, $0-48
	MOVD  dst+0(FP), R0
	MOVD  w+8(FP), R1
	MOVD  x+16(FP), R2
	MOVD  d+24(FP), R3
	MOVD  groups+32(FP), R4
	MOVD  nb+40(FP), R5
	MOVD  $magic8<>(SB), R6
	FMOVQ (R6), F31

group:
	MOVD R2, R7
	MOVD R3, R8
	MOVD R5, R9
	VEOR V0.B16, V0.B16, V0.B16

block:
	FMOVQ   (R6), F2
	FLDPQ.P 32(R7), (F4, F5)
	FMOVD.P 8(R1), F7
	FLDPQ   (R1), (F16, F17)
	FLDPQ   32(R1), (F18, F19)
	FLDPQ   64(R1), (F20, F21)
	FLDPQ   96(R1), (F22, F23)
	FMOVS.P 4(R8), F6
	ADD     $128, R1
	SDOTE(2, 16, 4, 0)
	SDOTE(2, 17, 4, 1)
	SDOTE(2, 18, 4, 2)
	SDOTE(2, 19, 4, 3)
	FCVTL(7, 7)
	SDOTE(2, 20, 5, 0)
	SDOTE(2, 21, 5, 1)
	SDOTE(2, 22, 5, 2)
	SDOTE(2, 23, 5, 3)
	SUBS    $1, R9
	SCALEADD(0, 2, 7, 6, 3)
	BNE     block

	FMOVQ.P F0, 16(R0)
	SUBS    $1, R4
	BNE     group
	RET

// func q8x4Gemm8SDOT(dst *float32, ldd int, w *byte, x *int8, d *float32, groups, nb int)
//
// Eight tokens times groups of 4 rows: dst[t*ldd+4g+r], x is [8][nb*32], d is
// [8][nb]. Groups, sums and bounds as above.
//
// R0 dst  R1 w  R2 x  R3 d  R4 groups  R5 nb  R6 magic8  R7 nb'  R8,R9 d' of
// tokens 0 and 4  R10-R17 x'  R19 nb*32  R20-R22 nb*4*{1,2,3}  R23 ldd*4  R24 tmp
// V0-V7 acc by token   V8-V15 integer sums   V16-V23 half of x, then dx
// V24-V27 weights, then scales and products
TEXT ·q8x4Gemm8SDOT(SB), NOSPLIT, $0-56
	MOVD  dst+0(FP), R0
	MOVD  ldd+8(FP), R23
	MOVD  w+16(FP), R1
	MOVD  x+24(FP), R2
	MOVD  d+32(FP), R3
	MOVD  groups+40(FP), R4
	MOVD  nb+48(FP), R5
	MOVD  $magic8<>(SB), R6
	FMOVQ (R6), F31
	LSL   $5, R5, R19
	LSL   $2, R5, R20
	LSL   $1, R20, R21
	ADD   R20, R21, R22
	LSL   $2, R23

group:
	MOVD R2, R10
	ADD  R19, R10, R11
	ADD  R19, R11, R12
	ADD  R19, R12, R13
	ADD  R19, R13, R14
	ADD  R19, R14, R15
	ADD  R19, R15, R16
	ADD  R19, R16, R17
	MOVD R3, R8
	ADD  R20<<2, R3, R9
	MOVD R5, R7
	VEOR V0.B16, V0.B16, V0.B16
	VEOR V1.B16, V1.B16, V1.B16
	VEOR V2.B16, V2.B16, V2.B16
	VEOR V3.B16, V3.B16, V3.B16
	VEOR V4.B16, V4.B16, V4.B16
	VEOR V5.B16, V5.B16, V5.B16
	VEOR V6.B16, V6.B16, V6.B16
	VEOR V7.B16, V7.B16, V7.B16

// Sixteen columns of each token.
#define LOADX \
	FMOVQ.P 16(R10), F16; \
	FMOVQ.P 16(R11), F17; \
	FMOVQ.P 16(R12), F18; \
	FMOVQ.P 16(R13), F19; \
	FMOVQ.P 16(R14), F20; \
	FMOVQ.P 16(R15), F21; \
	FMOVQ.P 16(R16), F22; \
	FMOVQ.P 16(R17), F23

// One step k: four rows against element i of each token's x.
#define STEP(w, i) \
	SDOTE(8, w, 16, i); \
	SDOTE(9, w, 17, i); \
	SDOTE(10, w, 18, i); \
	SDOTE(11, w, 19, i); \
	SDOTE(12, w, 20, i); \
	SDOTE(13, w, 21, i); \
	SDOTE(14, w, 22, i); \
	SDOTE(15, w, 23, i)

block:
	FLDPQ   (R6), (F8, F9)
	FLDPQ   (R6), (F10, F11)
	FLDPQ   (R6), (F12, F13)
	FLDPQ   (R6), (F14, F15)
	FMOVD.P 8(R1), F28
	FLDPQ   (R1), (F24, F25)
	LOADX
	FLDPQ   32(R1), (F26, F27)
	STEP(24, 0)
	STEP(25, 1)
	FLDPQ   64(R1), (F24, F25)
	STEP(26, 2)
	STEP(27, 3)
	LOADX
	FLDPQ   96(R1), (F26, F27)
	ADD     $128, R1
	STEP(24, 0)
	STEP(25, 1)
	FCVTL(28, 28)
	STEP(26, 2)
	STEP(27, 3)
	FMOVS   (R8), F16
	FMOVS   (R8)(R20), F17
	FMOVS   (R8)(R21), F18
	FMOVS   (R8)(R22), F19
	FMOVS   (R9), F20
	FMOVS   (R9)(R20), F21
	FMOVS   (R9)(R21), F22
	FMOVS   (R9)(R22), F23
	ADD     $4, R8
	ADD     $4, R9
	SUBS    $1, R7
	SCALEADD(0, 8, 28, 16, 24)
	SCALEADD(1, 9, 28, 17, 25)
	SCALEADD(2, 10, 28, 18, 26)
	SCALEADD(3, 11, 28, 19, 27)
	SCALEADD(4, 12, 28, 20, 24)
	SCALEADD(5, 13, 28, 21, 25)
	SCALEADD(6, 14, 28, 22, 26)
	SCALEADD(7, 15, 28, 23, 27)
	BNE     block

	MOVD  R0, R24
	FMOVQ F0, (R24)
	ADD   R23, R24
	FMOVQ F1, (R24)
	ADD   R23, R24
	FMOVQ F2, (R24)
	ADD   R23, R24
	FMOVQ F3, (R24)
	ADD   R23, R24
	FMOVQ F4, (R24)
	ADD   R23, R24
	FMOVQ F5, (R24)
	ADD   R23, R24
	FMOVQ F6, (R24)
	ADD   R23, R24
	FMOVQ F7, (R24)
	ADD   $16, R0
	SUBS  $1, R4
	BNE   group
	RET
