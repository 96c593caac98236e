// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"
#include "neon_arm64.h"

// The sum of the lanes V0-V3 into lane 0 of V0: 8, 4, 2, 1 apart.
#define FOLD \
	FADDV(0, 0, 2); \
	FADDV(1, 1, 3); \
	FADDV(0, 0, 1); \
	VEXT $8, V0.B16, V0.B16, V1.B16; \
	FADDV(0, 0, 1); \
	FADDPS(0, 0)

// func dotNEON(a, b *float32, blocks int, tail *float32) float32
//
// The sum of products in 16 lanes over blocks of 16 elements, then, if tail is
// not nil, over 16 elements of a and 16 of b there.
//
// R0 a  R1 b  R2 blocks  R3 tail
// V0-V3 lanes   V16-V19 a, products   V20-V23 b
TEXT ·dotNEON(SB), NOSPLIT, $0-36
	MOVD a+0(FP), R0
	MOVD b+8(FP), R1
	MOVD blocks+16(FP), R2
	MOVD tail+24(FP), R3
	VEOR V0.B16, V0.B16, V0.B16
	VEOR V1.B16, V1.B16, V1.B16
	VEOR V2.B16, V2.B16, V2.B16
	VEOR V3.B16, V3.B16, V3.B16
	CBZ  R2, last

block:
	FLDPQ.P 32(R0), (F16, F17)
	FLDPQ.P 32(R0), (F18, F19)
	FLDPQ.P 32(R1), (F20, F21)
	FLDPQ.P 32(R1), (F22, F23)
	SUBS    $1, R2
	FMULV(16, 16, 20)
	FMULV(17, 17, 21)
	FMULV(18, 18, 22)
	FMULV(19, 19, 23)
	FADDV(0, 0, 16)
	FADDV(1, 1, 17)
	FADDV(2, 2, 18)
	FADDV(3, 3, 19)
	BNE     block

last:
	CBZ   R3, fold
	MOVD  R3, R0
	ADD   $64, R3, R1
	MOVD  $1, R2
	MOVD  $0, R3
	B     block

fold:
	FOLD
	FMOVS F0, ret+32(FP)
	RET
