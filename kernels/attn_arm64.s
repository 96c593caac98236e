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

// func attnScoresNEON(scores, q *float32, k *uint16, n, blocks, rest int, scale float32, tail *attnTail)
//
// scores[i] = fold of q . k[i] times scale for n > 0 positions of blocks*16 + rest
// halves each. If rest > 0, tail.q holds the last rest values of q, then zeros;
// tail.k, zeros, takes the halves that go with them.
//
// R0 scores  R1 q  R2 k  R3 n  R4 blocks  R5 rest  R6 tail  R7 q'  R8 blocks'
// R9 tail.k  R10 half  R11 rest'
// V0-V3 lanes   V4 scale   V16,V17 halves   V20-V23 q   V24-V27 k, products
TEXT ·attnScoresNEON(SB), NOSPLIT, $0-64
	MOVD  scores+0(FP), R0
	MOVD  q+8(FP), R1
	MOVD  k+16(FP), R2
	MOVD  n+24(FP), R3
	MOVD  blocks+32(FP), R4
	MOVD  rest+40(FP), R5
	FMOVS scale+48(FP), F4
	MOVD  tail+56(FP), R6

// Sixteen products into the lanes.
#define ADD16 \
	FCVTL(24, 16); \
	FCVTL2(25, 16); \
	FCVTL(26, 17); \
	FCVTL2(27, 17); \
	FMULV(24, 24, 20); \
	FMULV(25, 25, 21); \
	FMULV(26, 26, 22); \
	FMULV(27, 27, 23); \
	FADDV(0, 0, 24); \
	FADDV(1, 1, 25); \
	FADDV(2, 2, 26); \
	FADDV(3, 3, 27)

position:
	MOVD R1, R7
	MOVD R4, R8
	VEOR V0.B16, V0.B16, V0.B16
	VEOR V1.B16, V1.B16, V1.B16
	VEOR V2.B16, V2.B16, V2.B16
	VEOR V3.B16, V3.B16, V3.B16
	CBZ  R4, last

block:
	FLDPQ.P 32(R2), (F16, F17)
	FLDPQ.P 32(R7), (F20, F21)
	FLDPQ.P 32(R7), (F22, F23)
	SUBS    $1, R8
	ADD16
	BNE     block

last:
	CBZ  R5, fold
	ADD  $64, R6, R9
	MOVD R5, R11

half:
	MOVHU.P 2(R2), R10
	MOVH.P  R10, 2(R9)
	SUBS    $1, R11
	BNE     half
	FLDPQ   (R6), (F20, F21)
	FLDPQ   32(R6), (F22, F23)
	FLDPQ   64(R6), (F16, F17)
	ADD16

fold:
	FOLD
	FMULS   F4, F0, F0
	FMOVS.P F0, 4(R0)
	SUBS    $1, R3
	BNE     position
	RET

// func attnAccumulate64NEON(out, probs *float32, v *uint16, n, stride int)
//
// out[j] += probs[i]*v[i][j] for 64 columns j and n > 0 positions i, which lie
// stride bytes apart.
//
// R0 out  R1 probs  R2 v  R3 n  R4 stride
// V0-V15 out   V16 p   V17,V18 halves   V20-V27 values, products
TEXT ·attnAccumulate64NEON(SB), NOSPLIT, $0-40
	MOVD  out+0(FP), R0
	MOVD  probs+8(FP), R1
	MOVD  v+16(FP), R2
	MOVD  n+24(FP), R3
	MOVD  stride+32(FP), R4
	FLDPQ (R0), (F0, F1)
	FLDPQ 32(R0), (F2, F3)
	FLDPQ 64(R0), (F4, F5)
	FLDPQ 96(R0), (F6, F7)
	FLDPQ 128(R0), (F8, F9)
	FLDPQ 160(R0), (F10, F11)
	FLDPQ 192(R0), (F12, F13)
	FLDPQ 224(R0), (F14, F15)

// Sixteen columns: halves at off into accumulators a to d.
#define ACC16(off, a, b, c, d, t, u, v, w) \
	FLDPQ off(R2), (F17, F18); \
	FCVTL(t, 17); \
	FCVTL2(u, 17); \
	FCVTL(v, 18); \
	FCVTL2(w, 18); \
	FMULE(t, t, 16, 0); \
	FMULE(u, u, 16, 0); \
	FMULE(v, v, 16, 0); \
	FMULE(w, w, 16, 0); \
	FADDV(a, a, t); \
	FADDV(b, b, u); \
	FADDV(c, c, v); \
	FADDV(d, d, w)

position:
	FMOVS.P 4(R1), F16
	ACC16(0, 0, 1, 2, 3, 20, 21, 22, 23)
	ACC16(32, 4, 5, 6, 7, 24, 25, 26, 27)
	ACC16(64, 8, 9, 10, 11, 20, 21, 22, 23)
	ACC16(96, 12, 13, 14, 15, 24, 25, 26, 27)
	ADD     R4, R2
	SUBS    $1, R3
	BNE     position

	FSTPQ (F0, F1), (R0)
	FSTPQ (F2, F3), 32(R0)
	FSTPQ (F4, F5), 64(R0)
	FSTPQ (F6, F7), 96(R0)
	FSTPQ (F8, F9), 128(R0)
	FSTPQ (F10, F11), 160(R0)
	FSTPQ (F12, F13), 192(R0)
	FSTPQ (F14, F15), 224(R0)
	RET

// func attnAccumulate8NEON(out, probs *float32, v *uint16, n, stride int)
//
// out[j] += probs[i]*v[i][j] for 8 columns j and n > 0 positions i, which lie
// stride bytes apart.
//
// R0 out  R1 probs  R2 v  R3 n  R4 stride
// V0,V1 out   V16 p   V17 halves   V20,V21 values, products
TEXT ·attnAccumulate8NEON(SB), NOSPLIT, $0-40
	MOVD  out+0(FP), R0
	MOVD  probs+8(FP), R1
	MOVD  v+16(FP), R2
	MOVD  n+24(FP), R3
	MOVD  stride+32(FP), R4
	FLDPQ (R0), (F0, F1)

position:
	FMOVS.P 4(R1), F16
	FMOVQ   (R2), F17
	ADD     R4, R2
	SUBS    $1, R3
	FCVTL(20, 17)
	FCVTL2(21, 17)
	FMULE(20, 20, 16, 0)
	FMULE(21, 21, 16, 0)
	FADDV(0, 0, 20)
	FADDV(1, 1, 21)
	BNE     position

	FSTPQ (F0, F1), (R0)
	RET
