// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"
#include "neon_arm64.h"

// func maxBlocksNEON(dst, x *float32, blocks int)
//
// dst[i] = the largest of x[64*i:64*i+64], NaN if there is one, blocks >= 1:
// FMAX and FMAXV keep NaN.
//
// R0 dst  R1 x  R2 blocks  V0-V15 values
TEXT ·maxBlocksNEON(SB), NOSPLIT, $0-24
	MOVD dst+0(FP), R0
	MOVD x+8(FP), R1
	MOVD blocks+16(FP), R2

block:
	VLD1.P  64(R1), [V0.S4, V1.S4, V2.S4, V3.S4]
	VLD1.P  64(R1), [V4.S4, V5.S4, V6.S4, V7.S4]
	VLD1.P  64(R1), [V8.S4, V9.S4, V10.S4, V11.S4]
	VLD1.P  64(R1), [V12.S4, V13.S4, V14.S4, V15.S4]
	SUBS    $1, R2
	FMAXV(0, 0, 4)
	FMAXV(1, 1, 5)
	FMAXV(2, 2, 6)
	FMAXV(3, 3, 7)
	FMAXV(8, 8, 12)
	FMAXV(9, 9, 13)
	FMAXV(10, 10, 14)
	FMAXV(11, 11, 15)
	FMAXV(0, 0, 8)
	FMAXV(1, 1, 9)
	FMAXV(2, 2, 10)
	FMAXV(3, 3, 11)
	FMAXV(0, 0, 1)
	FMAXV(2, 2, 3)
	FMAXV(0, 0, 2)
	FMAXVS(0, 0)
	FMOVS.P F0, 4(R0)
	BNE     block
	RET
