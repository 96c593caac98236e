// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"
#include "neon_arm64.h"

// func quantizeActsNEON(q *int8, d *float32, sum *int32, x *float32, blocks int)
//
// quantizeActsGeneric for blocks blocks: x and q hold 32 values for each, d and
// sum one. Largest magnitude as the largest integer of the bits without sign;
// codes as trunc(x*id + copysign(0.5, x*id)), |x*id| < 127.5, so that neither
// the narrowing nor the sum (|sum| <= 32*127) overflows.
//
// R0 q  R1 d  R2 sum  R3 x  R4 blocks  R5 bits of the largest magnitude
// R6 2^-100  R7 infinity  R8 tmp
// V0-V7 x, then codes   V16-V23 tmp   V24 id   V25 d   V28 0x7FFFFFFF
// V29 0x80000000   V30 0.5   V31 127.0   V27 1.0
TEXT ·quantizeActsNEON(SB), NOSPLIT, $0-40
	MOVD  q+0(FP), R0
	MOVD  d+8(FP), R1
	MOVD  sum+16(FP), R2
	MOVD  x+24(FP), R3
	MOVD  blocks+32(FP), R4
	MOVW  $0x0D800000, R6
	MOVW  $0x7F800000, R7
	MOVW  $0x7FFFFFFF, R8
	VDUP  R8, V28.S4
	MOVW  $0x80000000, R8
	VDUP  R8, V29.S4
	MOVW  $0x3F000000, R8
	VDUP  R8, V30.S4
	MOVW  $0x42FE0000, R8
	FMOVS R8, F31
	FMOVS $1.0, F27

block:
	FLDPQ.P 32(R3), (F0, F1)
	FLDPQ.P 32(R3), (F2, F3)
	FLDPQ.P 32(R3), (F4, F5)
	FLDPQ.P 32(R3), (F6, F7)
	VAND    V28.B16, V0.B16, V16.B16
	VAND    V28.B16, V1.B16, V17.B16
	VAND    V28.B16, V2.B16, V18.B16
	VAND    V28.B16, V3.B16, V19.B16
	VAND    V28.B16, V4.B16, V20.B16
	VAND    V28.B16, V5.B16, V21.B16
	VAND    V28.B16, V6.B16, V22.B16
	VAND    V28.B16, V7.B16, V23.B16
	VUMAX   V17.S4, V16.S4, V16.S4
	VUMAX   V19.S4, V18.S4, V18.S4
	VUMAX   V21.S4, V20.S4, V20.S4
	VUMAX   V23.S4, V22.S4, V22.S4
	VUMAX   V18.S4, V16.S4, V16.S4
	VUMAX   V22.S4, V20.S4, V20.S4
	VUMAX   V20.S4, V16.S4, V16.S4
	UMAXVS(16, 16)
	FMOVS   F16, R5
	CMPW    R6, R5
	BLO     zero
	CMPW    R7, R5
	BHS     notFinite
	FDIVS   F31, F16, F25
	FDIVS   F25, F27, F24
	FMOVS.P F25, 4(R1)
	FMULE(0, 0, 24, 0)
	FMULE(1, 1, 24, 0)
	FMULE(2, 2, 24, 0)
	FMULE(3, 3, 24, 0)
	FMULE(4, 4, 24, 0)
	FMULE(5, 5, 24, 0)
	FMULE(6, 6, 24, 0)
	FMULE(7, 7, 24, 0)
	VAND    V29.B16, V0.B16, V16.B16
	VAND    V29.B16, V1.B16, V17.B16
	VAND    V29.B16, V2.B16, V18.B16
	VAND    V29.B16, V3.B16, V19.B16
	VAND    V29.B16, V4.B16, V20.B16
	VAND    V29.B16, V5.B16, V21.B16
	VAND    V29.B16, V6.B16, V22.B16
	VAND    V29.B16, V7.B16, V23.B16
	VORR    V30.B16, V16.B16, V16.B16
	VORR    V30.B16, V17.B16, V17.B16
	VORR    V30.B16, V18.B16, V18.B16
	VORR    V30.B16, V19.B16, V19.B16
	VORR    V30.B16, V20.B16, V20.B16
	VORR    V30.B16, V21.B16, V21.B16
	VORR    V30.B16, V22.B16, V22.B16
	VORR    V30.B16, V23.B16, V23.B16
	FADDV(0, 0, 16)
	FADDV(1, 1, 17)
	FADDV(2, 2, 18)
	FADDV(3, 3, 19)
	FADDV(4, 4, 20)
	FADDV(5, 5, 21)
	FADDV(6, 6, 22)
	FADDV(7, 7, 23)
	FCVTZSV(0, 0)
	FCVTZSV(1, 1)
	FCVTZSV(2, 2)
	FCVTZSV(3, 3)
	FCVTZSV(4, 4)
	FCVTZSV(5, 5)
	FCVTZSV(6, 6)
	FCVTZSV(7, 7)
	SQXTNH(16, 0)
	SQXTNH2(16, 1)
	SQXTNH(17, 2)
	SQXTNH2(17, 3)
	SQXTNH(18, 4)
	SQXTNH2(18, 5)
	SQXTNH(19, 6)
	SQXTNH2(19, 7)
	SQXTNB(24, 16)
	SQXTNB2(24, 17)
	SQXTNB(25, 18)
	SQXTNB2(25, 19)
	VADD    V17.H8, V16.H8, V16.H8
	VADD    V19.H8, V18.H8, V18.H8
	VADD    V18.H8, V16.H8, V16.H8
	SADDLP(16, 16)
	VADDV   V16.S4, V16
	FSTPQ.P (F24, F25), 32(R0)
	FMOVS.P F16, 4(R2)
	SUBS    $1, R4
	BNE     block
	RET

notFinite:
	MOVW.P R5, 4(R1)
	B      clear

zero:
	MOVW.P ZR, 4(R1)

clear:
	MOVW.P  ZR, 4(R2)
	VEOR    V24.B16, V24.B16, V24.B16
	VEOR    V25.B16, V25.B16, V25.B16
	FSTPQ.P (F24, F25), 32(R0)
	SUBS    $1, R4
	BNE     block
	RET
