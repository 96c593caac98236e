// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"
#include "neon_arm64.h"

// The integer sums start at 0x4B400000, which is the float 1.5*2^23: read as a
// float the sum is then 1.5*2^23 + s, and one subtraction turns it into s,
// exact for |s| < 2^22. That costs less than SCVTF. The start value comes from
// memory because the load pipes have time and the vector pipes have none.
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

// func q8x8GemvSDOT(dst *float32, w *byte, x *int8, d *float32, groups, nb int)
//
// One token times groups of 8 rows, weights in 272-byte tiles (docs/FORMAT.md,
// Q8 8x8): 8 f16 scales, then 32 bytes a step k with code 4k..4k+3 of row
// 0..7. dst[8g+r] is row 8g+r; x is [nb*32], d is [nb].
//
// |s| <= 32*128*127 = 520192 < 2^22.
//
// R0 dst  R1 w  R2 x  R3 d  R4 groups  R5 nb  R6 magic8  R7 x'  R8 d'  R9 nb'
// V0,V1 acc of rows 0-3, 4-7   V2,V3 integer sums   V4,V5 x   V6 dx
// V7 scales f16   V20,V21 scales f32   V22,V23 tmp   V16-V19,V24-V29 weights
TEXT ·q8x8GemvSDOT(SB), NOSPLIT, $0-48
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
	VEOR V1.B16, V1.B16, V1.B16

block:
	FLDPQ   (R6), (F2, F3)
	FLDPQ.P 32(R7), (F4, F5)
	FLDPQ   (R1), (F7, F16)
	FLDPQ   32(R1), (F17, F18)
	FLDPQ   64(R1), (F19, F24)
	FLDPQ   96(R1), (F25, F26)
	SDOTE(2, 16, 4, 0)
	SDOTE(3, 17, 4, 0)
	SDOTE(2, 18, 4, 1)
	SDOTE(3, 19, 4, 1)
	FLDPQ   128(R1), (F27, F28)
	FLDPQ   160(R1), (F29, F16)
	SDOTE(2, 24, 4, 2)
	SDOTE(3, 25, 4, 2)
	SDOTE(2, 26, 4, 3)
	SDOTE(3, 27, 4, 3)
	FLDPQ   192(R1), (F17, F18)
	FLDPQ   224(R1), (F19, F24)
	FMOVQ   256(R1), F25
	FMOVS.P 4(R8), F6
	ADD     $272, R1
	SDOTE(2, 28, 5, 0)
	SDOTE(3, 29, 5, 0)
	SDOTE(2, 16, 5, 1)
	SDOTE(3, 17, 5, 1)
	FCVTL(20, 7)
	FCVTL2(21, 7)
	SDOTE(2, 18, 5, 2)
	SDOTE(3, 19, 5, 2)
	SDOTE(2, 24, 5, 3)
	SDOTE(3, 25, 5, 3)
	SUBS    $1, R9
	SCALEADD(0, 2, 20, 6, 22)
	SCALEADD(1, 3, 21, 6, 23)
	BNE     block

	FSTPQ.P (F0, F1), 32(R0)
	SUBS    $1, R4
	BNE     group
	RET

// func q8x8Gemm4SDOT(dst *float32, ldd int, w *byte, x *int8, d *float32, groups, nb int)
//
// Four tokens times groups of 8 rows: dst[t*ldd+8g+r], x is [4][nb*32], d is
// [4][nb]. Tiles, sums and bounds as above.
//
// R0 dst  R1 w  R4 groups  R5 nb  R6 magic8  R9 nb'  R10-R13 x'  R14-R17 d'
// R2,R3 x,d  R19 nb*32  R20 nb*4  R21 ldd*4  R22 tmp
// V0-V7 acc [token][rows 0-3, 4-7]   V8-V15 integer sums   V16-V19 half of x,
// then dx   V20-V27 weights, then products   V28 scales f16, V28,V29 f32
TEXT ·q8x8Gemm4SDOT(SB), NOSPLIT, $0-56
	MOVD  dst+0(FP), R0
	MOVD  ldd+8(FP), R21
	MOVD  w+16(FP), R1
	MOVD  x+24(FP), R2
	MOVD  d+32(FP), R3
	MOVD  groups+40(FP), R4
	MOVD  nb+48(FP), R5
	MOVD  $magic8<>(SB), R6
	FMOVQ (R6), F31
	LSL   $5, R5, R19
	LSL   $2, R5, R20
	LSL   $2, R21

group:
	MOVD R2, R10
	ADD  R19, R10, R11
	ADD  R19, R11, R12
	ADD  R19, R12, R13
	MOVD R3, R14
	ADD  R20, R14, R15
	ADD  R20, R15, R16
	ADD  R20, R16, R17
	MOVD R5, R9
	VEOR V0.B16, V0.B16, V0.B16
	VEOR V1.B16, V1.B16, V1.B16
	VEOR V2.B16, V2.B16, V2.B16
	VEOR V3.B16, V3.B16, V3.B16
	VEOR V4.B16, V4.B16, V4.B16
	VEOR V5.B16, V5.B16, V5.B16
	VEOR V6.B16, V6.B16, V6.B16
	VEOR V7.B16, V7.B16, V7.B16

// One step k: two weight registers against element i of each token's x.
#define STEP(a, b, i) \
	SDOTE(8, a, 16, i); \
	SDOTE(9, b, 16, i); \
	SDOTE(10, a, 17, i); \
	SDOTE(11, b, 17, i); \
	SDOTE(12, a, 18, i); \
	SDOTE(13, b, 18, i); \
	SDOTE(14, a, 19, i); \
	SDOTE(15, b, 19, i)

block:
	FLDPQ   (R6), (F8, F9)
	FLDPQ   (R6), (F10, F11)
	FLDPQ   (R6), (F12, F13)
	FLDPQ   (R6), (F14, F15)
	FMOVQ.P 16(R10), F16
	FMOVQ.P 16(R11), F17
	FMOVQ.P 16(R12), F18
	FMOVQ.P 16(R13), F19
	FLDPQ   (R1), (F28, F20)
	FLDPQ   32(R1), (F21, F22)
	FLDPQ   64(R1), (F23, F24)
	FLDPQ   96(R1), (F25, F26)
	STEP(20, 21, 0)
	STEP(22, 23, 1)
	FLDPQ   128(R1), (F27, F20)
	FLDPQ   160(R1), (F21, F22)
	STEP(24, 25, 2)
	STEP(26, 27, 3)
	FMOVQ.P 16(R10), F16
	FMOVQ.P 16(R11), F17
	FMOVQ.P 16(R12), F18
	FMOVQ.P 16(R13), F19
	FLDPQ   192(R1), (F23, F24)
	FLDPQ   224(R1), (F25, F26)
	FMOVQ   256(R1), F27
	ADD     $272, R1
	STEP(20, 21, 0)
	STEP(22, 23, 1)
	FCVTL2(29, 28)
	FCVTL(28, 28)
	STEP(24, 25, 2)
	STEP(26, 27, 3)
	FMOVS.P 4(R14), F16
	FMOVS.P 4(R15), F17
	FMOVS.P 4(R16), F18
	FMOVS.P 4(R17), F19
	SUBS    $1, R9
	SCALEADD(0, 8, 28, 16, 20)
	SCALEADD(1, 9, 29, 16, 21)
	SCALEADD(2, 10, 28, 17, 22)
	SCALEADD(3, 11, 29, 17, 23)
	SCALEADD(4, 12, 28, 18, 24)
	SCALEADD(5, 13, 29, 18, 25)
	SCALEADD(6, 14, 28, 19, 26)
	SCALEADD(7, 15, 29, 19, 27)
	BNE     block

	ADD   R21, R0, R22
	FSTPQ (F0, F1), (R0)
	FSTPQ (F2, F3), (R22)
	ADD   R21, R22
	FSTPQ (F4, F5), (R22)
	ADD   R21, R22
	FSTPQ (F6, F7), (R22)
	ADD   $32, R0
	SUBS  $1, R4
	BNE   group
	RET
