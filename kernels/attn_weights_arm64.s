// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"
#include "neon_arm64.h"
#include "exp_arm64.h"

// func maxNEON(x *float32, blocks int) float32
//
// The largest of blocks*16 > 0 values, NaN if there is one.
//
// R0 x  R1 blocks   V0-V3 largest by lane   V4-V7 x
TEXT ·maxNEON(SB), NOSPLIT, $0-20
	MOVD  x+0(FP), R0
	MOVD  blocks+8(FP), R1
	FLDPQ (R0), (F0, F1)
	FLDPQ 32(R0), (F2, F3)

block:
	FLDPQ.P 32(R0), (F4, F5)
	FLDPQ.P 32(R0), (F6, F7)
	SUBS    $1, R1
	FMAXV(0, 0, 4)
	FMAXV(1, 1, 5)
	FMAXV(2, 2, 6)
	FMAXV(3, 3, 7)
	BNE     block
	FMAXV(0, 0, 1)
	FMAXV(2, 2, 3)
	FMAXV(0, 0, 2)
	FMAXVS(0, 0)
	FMOVS   F0, ret+16(FP)
	RET

// func expSumNEON(l *[16]float32, x *float32, blocks int, m float32)
//
// x[i] = Exp(x[i]-m), and l[i%16] += that, over blocks*16 > 0 values.
//
// R0 l  R1 x  R2 blocks  R3 x to store
// V0-V3 and V4-V7 x, t, r, Exp   V8,V9 scratch   V16-V19 lanes
// V20-V30 constants   V31 m
TEXT ·expSumNEON(SB), NOSPLIT, $0-28
	MOVD  l+0(FP), R0
	MOVD  x+8(FP), R1
	MOVD  blocks+16(FP), R2
	EXPLOAD(R3)
	FMOVS m+24(FP), F31
	VDUP  V31.S[0], V31.S4
	MOVD  R1, R3
	FLDPQ (R0), (F16, F17)
	FLDPQ 32(R0), (F18, F19)

block:
	FLDPQ.P 32(R1), (F0, F4)
	FSUBV(0, 0, 31)
	FSUBV(4, 4, 31)
	EXP(0, 1, 2, 3, 8, V1, V3, V8)
	EXP(4, 5, 6, 7, 9, V5, V7, V9)
	FSTPQ   (F3, F7), (R3)
	FADDV(16, 16, 3)
	FADDV(17, 17, 7)
	FLDPQ.P 32(R1), (F0, F4)
	FSUBV(0, 0, 31)
	FSUBV(4, 4, 31)
	EXP(0, 1, 2, 3, 8, V1, V3, V8)
	EXP(4, 5, 6, 7, 9, V5, V7, V9)
	FSTPQ   (F3, F7), 32(R3)
	ADD     $64, R3
	FADDV(18, 18, 3)
	FADDV(19, 19, 7)
	SUBS    $1, R2
	BNE     block
	FSTPQ   (F16, F17), (R0)
	FSTPQ   (F18, F19), 32(R0)
	RET

// func attnMergeNEON(o, block *float32, groups int, c, d float32)
//
// o[j] = o[j]*c + block[j]*d over groups*16 > 0 values.
//
// R0 o  R1 block  R2 groups   V0-V3 o   V4-V7 block   V16 c   V17 d
TEXT ·attnMergeNEON(SB), NOSPLIT, $0-32
	MOVD  o+0(FP), R0
	MOVD  block+8(FP), R1
	MOVD  groups+16(FP), R2
	FMOVS c+24(FP), F16
	FMOVS d+28(FP), F17

group:
	FLDPQ   (R0), (F0, F1)
	FLDPQ   32(R0), (F2, F3)
	FLDPQ.P 32(R1), (F4, F5)
	FLDPQ.P 32(R1), (F6, F7)
	SUBS    $1, R2
	FMULE(0, 0, 16, 0)
	FMULE(1, 1, 16, 0)
	FMULE(2, 2, 16, 0)
	FMULE(3, 3, 16, 0)
	FMULE(4, 4, 17, 0)
	FMULE(5, 5, 17, 0)
	FMULE(6, 6, 17, 0)
	FMULE(7, 7, 17, 0)
	FADDV(0, 0, 4)
	FADDV(1, 1, 5)
	FADDV(2, 2, 6)
	FADDV(3, 3, 7)
	FSTPQ.P (F0, F1), 32(R0)
	FSTPQ.P (F2, F3), 32(R0)
	BNE     group
	RET

// func attnScaleNEON(dst, src *float32, blocks int, c float32)
//
// dst[i] = src[i]*c over blocks*8 > 0 values.
//
// R0 dst  R1 src  R2 blocks left   V2 c
TEXT ·attnScaleNEON(SB), NOSPLIT, $0-28
	MOVD  dst+0(FP), R0
	MOVD  src+8(FP), R1
	MOVD  blocks+16(FP), R2
	FMOVS c+24(FP), F2

loop:
	FLDPQ.P 32(R1), (F0, F1)
	FMULE(0, 0, 2, 0)
	FMULE(1, 1, 2, 0)
	FSTPQ.P (F0, F1), 32(R0)
	SUBS $1, R2
	BNE  loop
	RET
