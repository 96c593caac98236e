// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"
#include "neon_arm64.h"
#include "quantise_arm64.h"

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
	LARGEST
	CMPW    R6, R5
	BLO     zero
	CMPW    R7, R5
	BHS     notFinite
	FDIVS   F31, F16, F25
	FDIVS   F25, F27, F24
	FMOVS.P F25, 4(R1)
	CODES
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
