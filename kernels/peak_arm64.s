// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"
#include "neon_arm64.h"

// As peak_amd64.s: nothing is read from memory, and no sum waits for another.

#define SEVEN(op, o, p, q, r, s, t, u) op(o); op(p); op(q); op(r); op(s); op(t); op(u)
#define EIGHT(op, o, p, q, r, s, t, u, v) SEVEN(op, o, p, q, r, s, t, u); op(v)

#define SIXTEEN(op) \
	EIGHT(op, V0, V1, V2, V3, V4, V5, V6, V7); \
	EIGHT(op, V8, V9, V10, V11, V12, V13, V14, V15)

#define CLEAR(acc) VEOR acc.B16, acc.B16, acc.B16
#define FMA(acc) VFMLA V17.S4, V16.S4, acc.S4
#define ADDS(acc) VADD acc.S4, V0.S4, V0.S4
#define DOT(acc) SDOTV(acc, 16, 17)
#define ADDF(acc) FADDV(0, 0, acc)

// func peakInt8SDOT(steps int) int32
//
// One lane of 16 sums, to which each of steps >= 1 steps adds four products each;
// 64 * steps <= 2^26.
//
// R0 steps left   V0-V15 sums   V16, V17 ones
TEXT ·peakInt8SDOT(SB), NOSPLIT, $0-12
	MOVD  steps+0(FP), R0
	VMOVI $1, V16.B16
	VMOVI $1, V17.B16
	SIXTEEN(CLEAR)

step:
	EIGHT(DOT, 0, 1, 2, 3, 4, 5, 6, 7)
	EIGHT(DOT, 8, 9, 10, 11, 12, 13, 14, 15)
	SUBS $1, R0
	BNE  step

	SEVEN(ADDS, V1, V2, V3, V4, V5, V6, V7)
	EIGHT(ADDS, V8, V9, V10, V11, V12, V13, V14, V15)
	VMOV V0.S[0], R0
	MOVW R0, ret+8(FP)
	RET

// Two steps of 16 codes, as the products without dot product do them.
#define PAIR(lo, hi, t, u) \
	SMULL(t, 16, 17);  \
	SMULL2(u, 16, 17); \
	SMLAL(t, 16, 17);  \
	SMLAL2(u, 16, 17); \
	SADALP(lo, t);     \
	SADALP(hi, u)

// func peakInt8NEON(steps int) int32
//
// One lane of 8 sums, to which each step adds four products each; 32 * steps <= 2^25.
//
// R0 steps left   V0-V7 sums   V16, V17 ones   V20-V27 products in 16 bits
TEXT ·peakInt8NEON(SB), NOSPLIT, $0-12
	MOVD  steps+0(FP), R0
	VMOVI $1, V16.B16
	VMOVI $1, V17.B16
	EIGHT(CLEAR, V0, V1, V2, V3, V4, V5, V6, V7)

step:
	PAIR(0, 1, 20, 21)
	PAIR(2, 3, 22, 23)
	PAIR(4, 5, 24, 25)
	PAIR(6, 7, 26, 27)
	SUBS $1, R0
	BNE  step

	SEVEN(ADDS, V1, V2, V3, V4, V5, V6, V7)
	VMOV V0.S[0], R0
	MOVW R0, ret+8(FP)
	RET

// func peakF32NEON(steps int) float32
//
// One lane of 16 sums, to which each step adds a product each; 16 * steps <= 2^24
// is exact.
//
// R0 steps left   V0-V15 sums   V16, V17 ones
TEXT ·peakF32NEON(SB), NOSPLIT, $0-12
	MOVD $0x3F800000, R1
	VDUP R1, V16.S4
	VDUP R1, V17.S4
	MOVD steps+0(FP), R0
	SIXTEEN(CLEAR)

step:
	SIXTEEN(FMA)
	SUBS $1, R0
	BNE  step

	SEVEN(ADDF, 1, 2, 3, 4, 5, 6, 7)
	EIGHT(ADDF, 8, 9, 10, 11, 12, 13, 14, 15)
	FMOVS F0, ret+8(FP)
	RET
