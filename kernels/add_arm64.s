// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"
#include "neon_arm64.h"

// func addNEON(dst, x *float32, vectors int)
//
// dst[i] += x[i] over vectors*4 > 0 values.
//
// R0 dst  R1 x  R2 vectors  R3 dst to store   V0 dst   V1 x
TEXT ·addNEON(SB), NOSPLIT, $0-24
	MOVD dst+0(FP), R0
	MOVD x+8(FP), R1
	MOVD vectors+16(FP), R2
	MOVD R0, R3

vector:
	FMOVQ.P 16(R0), F0
	FMOVQ.P 16(R1), F1
	SUBS    $1, R2
	FADDV(0, 0, 1)
	FMOVQ   F0, (R3)
	ADD     $16, R3
	BNE     vector
	RET
