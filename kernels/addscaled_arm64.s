// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"
#include "neon_arm64.h"

// func addScaledNEON(dst, x *float32, w float32, vectors int)
//
// dst[i] += w*x[i], the product rounded, over vectors*4 > 0 values.
//
// R0 dst  R1 x  R2 vectors  R3 dst to store   V0 dst   V1 x   V4 w
TEXT ·addScaledNEON(SB), NOSPLIT, $0-32
	MOVD  dst+0(FP), R0
	MOVD  x+8(FP), R1
	FMOVS w+16(FP), F4
	MOVD  vectors+24(FP), R2
	MOVD  R0, R3

vector:
	FMOVQ.P 16(R0), F0
	FMOVQ.P 16(R1), F1
	SUBS    $1, R2
	FMULE(1, 1, 4, 0)
	FADDV(0, 0, 1)
	FMOVQ   F0, (R3)
	ADD     $16, R3
	BNE     vector
	RET
