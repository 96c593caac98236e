// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"
#include "neon_arm64.h"

// Start of the integer sums: the bias of matmul_q8x8_arm64.s in one lane only,
// because the four lanes of a row are added.
DATA magicRow8<>+0(SB)/8, $0x000000004B400000
DATA magicRow8<>+8(SB)/8, $0x0000000000000000
DATA magicRow8<>+16(SB)/8, $0x000000004B400000
DATA magicRow8<>+24(SB)/8, $0x0000000000000000
GLOBL magicRow8<>(SB), RODATA|NOPTR, $32

// acc += (dw*dx) * (s - magic), each step rounded. V31 is the magic float.
#define SCALEADD(acc, s, dw, dx, tmp) \
	FMULE(tmp, dw, dx, 0); \
	FSUBV(s, s, 31); \
	FMULV(tmp, tmp, s); \
	FADDV(acc, acc, tmp)

// a = the lane sums of a, b, c and d.
#define FOLD4(a, b, c, d) \
	VADDP b.S4, a.S4, a.S4; \
	VADDP d.S4, c.S4, c.S4; \
	VADDP c.S4, a.S4, a.S4

// The scales of four rows, f16, gathered in the scalar pipes: out = r0 | r1<<16
// | r2<<32 | r3<<48. The row pointers move on to the codes.
#define SCALES(out, a, b) \
	MOVHU.P 2(R10), out; \
	MOVHU.P 2(R11), a; \
	MOVHU.P 2(R12), b; \
	ORR     a<<16, out; \
	MOVHU.P 2(R13), a; \
	ORR     b<<32, out; \
	ORR     a<<48, out

// func q8rowGemvSDOT(dst *float32, w *byte, stride int, x *int8, d *float32, groups, nb int)
//
// One token times groups of 4 rows that lie stride bytes apart, each row nb
// blocks of 34 bytes: f16 scale, 32 codes. dst[4g+r] is the row at
// w+(4g+r)*stride; x is [nb*32], d is [nb]. A stride of 0 does one row 4 times.
//
// |s| <= 32*128*127 = 520192 < 2^22.
//
// R0 dst  R1 w  R2 x  R3 d  R4 groups  R5 nb  R6 magicRow8  R7 x'  R8 d'
// R9 stride  R10-R13 rows  R14 nb'  R15-R17 scales
// V0 acc   V2,V3,V20,V21 integer sums by row   V4,V5 x   V6 dx   V7 scales
// V16-V19,V22-V25 codes
TEXT ·q8rowGemvSDOT(SB), NOSPLIT, $0-56
	MOVD  dst+0(FP), R0
	MOVD  w+8(FP), R1
	MOVD  stride+16(FP), R9
	MOVD  x+24(FP), R2
	MOVD  d+32(FP), R3
	MOVD  groups+40(FP), R4
	MOVD  nb+48(FP), R5
	MOVD  $magicRow8<>(SB), R6
	MOVW  $0x4B400000, R15
	VDUP  R15, V31.S4

group:
	MOVD R1, R10
	ADD  R9, R10, R11
	ADD  R9, R11, R12
	ADD  R9, R12, R13
	ADD  R9<<2, R1, R1
	MOVD R2, R7
	MOVD R3, R8
	MOVD R5, R14
	VEOR V0.B16, V0.B16, V0.B16

block:
	FLDPQ   (R6), (F2, F3)
	FLDPQ   (R6), (F20, F21)
	FLDPQ.P 32(R7), (F4, F5)
	SCALES(R15, R16, R17)
	FLDPQ.P 32(R10), (F16, F17)
	FLDPQ.P 32(R11), (F18, F19)
	FLDPQ.P 32(R12), (F22, F23)
	FLDPQ.P 32(R13), (F24, F25)
	FMOVS.P 4(R8), F6
	FMOVD   R15, F7
	SDOTV(2, 16, 4)
	SDOTV(3, 18, 4)
	SDOTV(20, 22, 4)
	SDOTV(21, 24, 4)
	SDOTV(2, 17, 5)
	SDOTV(3, 19, 5)
	SDOTV(20, 23, 5)
	SDOTV(21, 25, 5)
	FCVTL(7, 7)
	SUBS    $1, R14
	FOLD4(V2, V3, V20, V21)
	SCALEADD(0, 2, 7, 6, 3)
	BNE     block

	FMOVQ.P F0, 16(R0)
	SUBS    $1, R4
	BNE     group
	RET

// func q8rowGemm4SDOT(dst *float32, ldd int, w *byte, stride int, x *int8, d *float32, groups, nb int)
//
// Four tokens times groups of 4 rows: dst[t*ldd+4g+r], x is [4][nb*32], d is
// [4][nb]. Rows, sums and bounds as above.
//
// R0 dst  R1 w  R2 x  R3 d  R4 groups  R5 nb  R6 magicRow8  R7 nb'  R8 d'
// R9 stride  R10-R13 rows  R14-R17 x'  R19 nb*32  R20-R22 nb*4*{1,2,3}
// R23 ldd*4  R24 scales  R25,R26 tmp
// V0-V3 acc by token   V4-V19 integer sums [token][row]   V20-V23 half of the
// rows' codes, then products   V24-V27 half of x, then dx   V28 scales
TEXT ·q8rowGemm4SDOT(SB), NOSPLIT, $0-64
	MOVD  dst+0(FP), R0
	MOVD  ldd+8(FP), R23
	MOVD  w+16(FP), R1
	MOVD  stride+24(FP), R9
	MOVD  x+32(FP), R2
	MOVD  d+40(FP), R3
	MOVD  groups+48(FP), R4
	MOVD  nb+56(FP), R5
	MOVD  $magicRow8<>(SB), R6
	MOVW  $0x4B400000, R24
	VDUP  R24, V31.S4
	LSL   $5, R5, R19
	LSL   $2, R5, R20
	LSL   $1, R20, R21
	ADD   R20, R21, R22
	LSL   $2, R23

group:
	MOVD R1, R10
	ADD  R9, R10, R11
	ADD  R9, R11, R12
	ADD  R9, R12, R13
	ADD  R9<<2, R1, R1
	MOVD R2, R14
	ADD  R19, R14, R15
	ADD  R19, R15, R16
	ADD  R19, R16, R17
	MOVD R3, R8
	MOVD R5, R7
	VEOR V0.B16, V0.B16, V0.B16
	VEOR V1.B16, V1.B16, V1.B16
	VEOR V2.B16, V2.B16, V2.B16
	VEOR V3.B16, V3.B16, V3.B16

// Sixteen columns of each token.
#define LOADX \
	FMOVQ.P 16(R14), F24; \
	FMOVQ.P 16(R15), F25; \
	FMOVQ.P 16(R16), F26; \
	FMOVQ.P 16(R17), F27

// Sixteen columns of each row with those of each token.
#define DOTS \
	SDOTV(4, 20, 24); \
	SDOTV(5, 21, 24); \
	SDOTV(6, 22, 24); \
	SDOTV(7, 23, 24); \
	SDOTV(8, 20, 25); \
	SDOTV(9, 21, 25); \
	SDOTV(10, 22, 25); \
	SDOTV(11, 23, 25); \
	SDOTV(12, 20, 26); \
	SDOTV(13, 21, 26); \
	SDOTV(14, 22, 26); \
	SDOTV(15, 23, 26); \
	SDOTV(16, 20, 27); \
	SDOTV(17, 21, 27); \
	SDOTV(18, 22, 27); \
	SDOTV(19, 23, 27)

block:
	FLDPQ   (R6), (F4, F5)
	FLDPQ   (R6), (F6, F7)
	FLDPQ   (R6), (F8, F9)
	FLDPQ   (R6), (F10, F11)
	FLDPQ   (R6), (F12, F13)
	FLDPQ   (R6), (F14, F15)
	FLDPQ   (R6), (F16, F17)
	FLDPQ   (R6), (F18, F19)
	SCALES(R24, R25, R26)
	FMOVQ.P 16(R10), F20
	FMOVQ.P 16(R11), F21
	FMOVQ.P 16(R12), F22
	FMOVQ.P 16(R13), F23
	LOADX
	DOTS
	FMOVQ.P 16(R10), F20
	FMOVQ.P 16(R11), F21
	FMOVQ.P 16(R12), F22
	FMOVQ.P 16(R13), F23
	LOADX
	DOTS
	FMOVD   R24, F28
	FMOVS   (R8), F24
	FMOVS   (R8)(R20), F25
	FMOVS   (R8)(R21), F26
	FMOVS   (R8)(R22), F27
	FCVTL(28, 28)
	ADD     $4, R8
	SUBS    $1, R7
	FOLD4(V4, V5, V6, V7)
	FOLD4(V8, V9, V10, V11)
	FOLD4(V12, V13, V14, V15)
	FOLD4(V16, V17, V18, V19)
	SCALEADD(0, 4, 28, 24, 20)
	SCALEADD(1, 8, 28, 25, 21)
	SCALEADD(2, 12, 28, 26, 22)
	SCALEADD(3, 16, 28, 27, 23)
	BNE     block

	MOVD  R0, R24
	FMOVQ F0, (R24)
	ADD   R23, R24
	FMOVQ F1, (R24)
	ADD   R23, R24
	FMOVQ F2, (R24)
	ADD   R23, R24
	FMOVQ F3, (R24)
	ADD   $16, R0
	SUBS  $1, R4
	BNE   group
	RET
