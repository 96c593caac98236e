// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"
#include "neon_arm64.h"

// func rmsScaleNEON(dst, x, w *float32, r float32, vectors int)
//
// dst[i] = (x[i]*r) * w[i] over vectors*4 > 0 values; dst may be x.
//
// R0 dst  R1 x  R2 w  R3 vectors   V0 x   V1 w   V4 r
TEXT ·rmsScaleNEON(SB), NOSPLIT, $0-40
	MOVD  dst+0(FP), R0
	MOVD  x+8(FP), R1
	MOVD  w+16(FP), R2
	FMOVS r+24(FP), F4
	MOVD  vectors+32(FP), R3

vector:
	FMOVQ.P 16(R1), F0
	FMOVQ.P 16(R2), F1
	SUBS    $1, R3
	FMULE(0, 0, 4, 0)
	FMULV(0, 0, 1)
	FMOVQ.P F0, 16(R0)
	BNE     vector
	RET
