// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"
#include "neon_arm64.h"

// func ropeHalfNEON(lo, hi, cos, sin *float32, vectors int)
//
// lo' = lo*cos - hi*sin, hi' = hi*cos + lo*sin over vectors*4 > 0 values, every
// product rounded.
//
// R0 lo  R1 hi  R2 cos  R3 sin  R4 vectors  R5,R6 lo, hi to store
// V0 lo   V1 hi   V2 cos   V3 sin   V4-V7 products
TEXT ·ropeHalfNEON(SB), NOSPLIT, $0-40
	MOVD lo+0(FP), R0
	MOVD hi+8(FP), R1
	MOVD cos+16(FP), R2
	MOVD sin+24(FP), R3
	MOVD vectors+32(FP), R4
	MOVD R0, R5
	MOVD R1, R6

vector:
	FMOVQ.P 16(R0), F0
	FMOVQ.P 16(R1), F1
	FMOVQ.P 16(R2), F2
	FMOVQ.P 16(R3), F3
	SUBS    $1, R4
	FMULV(4, 0, 2)
	FMULV(5, 1, 3)
	FMULV(6, 1, 2)
	FMULV(7, 0, 3)
	FSUBV(4, 4, 5)
	FADDV(6, 6, 7)
	FMOVQ   F4, (R5)
	FMOVQ   F6, (R6)
	ADD     $16, R5
	ADD     $16, R6
	BNE     vector
	RET
