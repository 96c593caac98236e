// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"
#include "neon_arm64.h"
#include "quantise_arm64.h"

// HALF stores the float32 in lane 0 of V25 as a half at R0, and goes on behind it.
#define HALF \
	FCVTN(26, 25);   \
	FMOVS  F26, R6;  \
	MOVH.P R6, 2(R0)

// func quantizeQ8NEON(dst *byte, src *float32, blocks int)
//
// blocks > 0 blocks as docs/FORMAT.md section 7.2 says, of finite values. The
// scale s is at least max/127, so that |x/s| < 127.5 and the narrowing cannot
// overflow.
//
// R0 dst  R1 src  R2 blocks  R5 bits of the largest magnitude  R6 tmp
// V0-V7 x, then codes   V16-V23 tmp   V24 1/s   V25 s   V26 half   V27 1.0
// V28 0x7FFFFFFF   V29 0x80000000   V30 0.5   V31 127.0   V15 1e-10
TEXT ·quantizeQ8NEON(SB), NOSPLIT, $0-24
	MOVD  dst+0(FP), R0
	MOVD  src+8(FP), R1
	MOVD  blocks+16(FP), R2
	MOVW  $0x7FFFFFFF, R6
	VDUP  R6, V28.S4
	MOVW  $0x80000000, R6
	VDUP  R6, V29.S4
	MOVW  $0x3F000000, R6
	VDUP  R6, V30.S4
	MOVW  $0x42FE0000, R6
	FMOVS R6, F31
	MOVW  $0x2EDBE6FF, R6
	FMOVS R6, F15
	FMOVS $1.0, F27

block:
	FLDPQ.P 32(R1), (F0, F1)
	FLDPQ.P 32(R1), (F2, F3)
	FLDPQ.P 32(R1), (F4, F5)
	FLDPQ.P 32(R1), (F6, F7)
	LARGEST
	FMAXS   F15, F16, F16
	FDIVS   F31, F16, F25
	FMAXS   F15, F25, F25
	FDIVS   F25, F27, F24
	HALF
	CODES
	SQXTNB(22, 16)
	SQXTNB2(22, 17)
	SQXTNB(23, 18)
	SQXTNB2(23, 19)
	FSTPQ.P (F22, F23), 32(R0)
	SUBS    $1, R2
	BNE     block
	RET

// NIBBLE makes codes 0 to 15 of four values in v: v*id + 8.5, not below 0,
// truncated, at most 15. A NaN stays one until it is converted to 0.
#define NIBBLE(n, v) \
	FMULE(n, n, 24, 0);      \
	FADDV(n, n, 30);         \
	FMAXV(n, n, 29);         \
	FCVTZSV(n, n);           \
	VUMIN V31.S4, v.S4, v.S4

// func quantizeQ4NEON(dst *byte, src *float32, blocks int)
//
// blocks > 0 blocks as docs/FORMAT.md section 7.4 says, of finite values.
//
// R0 dst  R1 src  R2 blocks  R5 bits of the largest magnitude  R6,R7 tmp
// R8 address of a value  R9 sign bit
// V0-V7 x, then codes   V16-V23 tmp   V24 1/d   V25 d   V26 half   V27 1.0
// V28 0x7FFFFFFF   V29 0   V30 8.5   V31 15   V15 -0.125
TEXT ·quantizeQ4NEON(SB), NOSPLIT, $0-24
	MOVD  dst+0(FP), R0
	MOVD  src+8(FP), R1
	MOVD  blocks+16(FP), R2
	MOVW  $0x7FFFFFFF, R6
	VDUP  R6, V28.S4
	VEOR  V29.B16, V29.B16, V29.B16
	MOVW  $0x41080000, R6
	VDUP  R6, V30.S4
	MOVW  $15, R6
	VDUP  R6, V31.S4
	MOVW  $0xBE000000, R6
	FMOVS R6, F15
	FMOVS $1.0, F27
	MOVD  $0x80000000, R9

block:
	FLDPQ.P 32(R1), (F0, F1)
	FLDPQ.P 32(R1), (F2, F3)
	FLDPQ.P 32(R1), (F4, F5)
	FLDPQ.P 32(R1), (F6, F7)
	LARGEST

	// As unsigned integers negative values are the largest. If the largest of
	// them is not of that magnitude, the one that is has no sign.
	VUMAX V1.S4, V0.S4, V17.S4
	VUMAX V3.S4, V2.S4, V18.S4
	VUMAX V5.S4, V4.S4, V19.S4
	VUMAX V7.S4, V6.S4, V20.S4
	VUMAX V18.S4, V17.S4, V17.S4
	VUMAX V20.S4, V19.S4, V19.S4
	VUMAX V19.S4, V17.S4, V17.S4
	UMAXVS(17, 17)
	FMOVS F17, R6
	ORR   R9, R5, R7
	CMPW  R7, R6
	BNE   scale

	// It may be there with either sign: the first decides.
	SUB   $128, R1, R8

search:
	MOVWU.P 4(R8), R6
	ANDW    $0x7FFFFFFF, R6, R7
	CMPW    R5, R7
	BNE     search
	FMOVS   R6, F16

scale:
	FMULS  F15, F16, F25
	FMOVS  F25, R6
	ANDSW  $0x7FFFFFFF, R6, R6
	BEQ    zero

scaled:
	FDIVS   F25, F27, F24
	HALF
	NIBBLE(0, V0)
	NIBBLE(1, V1)
	NIBBLE(2, V2)
	NIBBLE(3, V3)
	NIBBLE(4, V4)
	NIBBLE(5, V5)
	NIBBLE(6, V6)
	NIBBLE(7, V7)
	VSHL    $4, V4.S4, V4.S4
	VSHL    $4, V5.S4, V5.S4
	VSHL    $4, V6.S4, V6.S4
	VSHL    $4, V7.S4, V7.S4
	VORR    V4.B16, V0.B16, V0.B16
	VORR    V5.B16, V1.B16, V1.B16
	VORR    V6.B16, V2.B16, V2.B16
	VORR    V7.B16, V3.B16, V3.B16
	VUZP1   V1.H8, V0.H8, V0.H8
	VUZP1   V3.H8, V2.H8, V2.H8
	VUZP1   V2.B16, V0.B16, V0.B16
	FMOVQ.P F0, 16(R0)
	SUBS    $1, R2
	BNE     block
	RET

zero:
	FMOVS F27, F25
	B     scaled
