// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"

// Nothing is read from memory, and no sum waits for another: what bounds these
// loops is how many of the instructions the CPU begins a cycle.

#define EIGHT(op, o, p, q, r, s, t, u, v) op(o) op(p) op(q) op(r) op(s) op(t) op(u) op(v)

#define SIXTEEN512(op) \
	EIGHT(op, Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7) \
	EIGHT(op, Z8, Z9, Z10, Z11, Z12, Z13, Z14, Z15)

#define CLEAR512(acc) VPXORD acc, acc, acc;
#define DOT512(acc) VPDPBUSD Z17, Z16, acc;
#define FMA512(acc) VFMADD231PS Z17, Z16, acc;
#define ADDD512(acc) VPADDD acc, Z18, Z18;
#define ADDPS512(acc) VADDPS acc, Z18, Z18;

// func peakInt8VNNI(steps int) int32
//
// One lane of 16 sums, to which each of steps >= 1 steps adds four products each;
// 64 * steps <= 2^26.
//
//	Z0-Z15 sums   Z16, Z17 ones   Z18 their sum
TEXT ·peakInt8VNNI(SB), NOSPLIT, $0-12
	MOVQ         steps+0(FP), CX
	MOVL         $0x01010101, AX
	VPBROADCASTD AX, Z16
	VPBROADCASTD AX, Z17
	SIXTEEN512(CLEAR512)

step:
	SIXTEEN512(DOT512)
	DECQ CX
	JNZ  step

	VPXORD Z18, Z18, Z18
	SIXTEEN512(ADDD512)
	VMOVD  X18, AX
	MOVL   AX, ret+8(FP)
	VZEROUPPER
	RET

// func peakF32AVX512(steps int) float32
//
// One lane of 16 sums, to which each step adds a product each: 16 * steps <= 2^24
// is exact.
TEXT ·peakF32AVX512(SB), NOSPLIT, $0-12
	MOVQ         steps+0(FP), CX
	MOVL         $0x3F800000, AX
	VPBROADCASTD AX, Z16
	VPBROADCASTD AX, Z17
	SIXTEEN512(CLEAR512)

step:
	SIXTEEN512(FMA512)
	DECQ CX
	JNZ  step

	VPXORD Z18, Z18, Z18
	SIXTEEN512(ADDPS512)
	VMOVD  X18, AX
	MOVL   AX, ret+8(FP)
	VZEROUPPER
	RET

#define CLEAR(acc) VPXOR acc, acc, acc;
#define ADDD(acc) VPADDD acc, Y12, Y12;
#define ADDPS(acc) VADDPS acc, Y12, Y12;

// Products of bytes, added by twos to words and by fours to the sum.
#define DOT(acc) \
	VPMADDUBSW Y15, Y14, Y8; \
	VPMADDWD   Y13, Y8, Y8;  \
	VPADDD     Y8, acc, acc;

// func peakInt8AVX2(steps int) int32
//
// One lane of 8 sums, to which each step adds four products each; 32 * steps <= 2^25.
//
//	Y0-Y7 sums   Y8 products   Y13 ones in words   Y14, Y15 in bytes   Y12 sum of the sums
TEXT ·peakInt8AVX2(SB), NOSPLIT, $0-12
	MOVQ         steps+0(FP), CX
	MOVL         $0x01010101, AX
	VMOVD        AX, X14
	VPBROADCASTD X14, Y14
	VMOVDQA      Y14, Y15
	MOVL         $0x00010001, AX
	VMOVD        AX, X13
	VPBROADCASTD X13, Y13
	EIGHT(CLEAR, Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7)

step:
	EIGHT(DOT, Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7)
	DECQ CX
	JNZ  step

	VPXOR Y12, Y12, Y12
	EIGHT(ADDD, Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7)
	VMOVD X12, AX
	MOVL  AX, ret+8(FP)
	VZEROUPPER
	RET

#define FMA(acc) VFMADD231PS Y15, Y14, acc;

// func peakF32AVX2(steps int) float32
//
// One lane of 12 sums, to which each step adds a product each: 12 * steps < 2^24
// is exact.
//
//	Y0-Y11 sums   Y14, Y15 ones   Y12 sum of the sums
TEXT ·peakF32AVX2(SB), NOSPLIT, $0-12
	MOVQ         steps+0(FP), CX
	MOVL         $0x3F800000, AX
	VMOVD        AX, X14
	VBROADCASTSS X14, Y14
	VMOVAPS      Y14, Y15
	EIGHT(CLEAR, Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7)
	CLEAR(Y8)
	CLEAR(Y9)
	CLEAR(Y10)
	CLEAR(Y11)

step:
	EIGHT(FMA, Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7)
	FMA(Y8)
	FMA(Y9)
	FMA(Y10)
	FMA(Y11)
	DECQ CX
	JNZ  step

	VXORPS Y12, Y12, Y12
	EIGHT(ADDPS, Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7)
	ADDPS(Y8)
	ADDPS(Y9)
	ADDPS(Y10)
	ADDPS(Y11)
	VMOVD  X12, AX
	MOVL   AX, ret+8(FP)
	VZEROUPPER
	RET
