// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"
#include "neon_arm64.h"

// Q8 for cores without the dot product instructions. A 16-byte step of weights
// holds 4 codes of 4 rows, so x's 4 codes are repeated 4 times and multiplied
// lane by lane into int16, two steps on top of each other:
// 2*128*127 = 32512 < 2^15. Pairs are then added into int32.

// acc += (dw*dx) * float32(s), each step rounded.
#define SCALEADD(acc, s, dw, dx, tmp) \
	FMULE(tmp, dw, dx, 0); \
	SCVTFV(s, s); \
	FMULV(tmp, tmp, s); \
	FADDV(acc, acc, tmp)

// Two steps of 4 rows, weights a and b, into the int32 halves lo (rows 0,1, two
// lanes each) and hi (rows 2,3). OP adds into them or, the first time, sets them.
#define STEP2(OP, lo, hi, a, b, t, u) \
	SMULL(t, a, 20); \
	SMULL2(u, a, 20); \
	SMLAL(t, b, 21); \
	SMLAL2(u, b, 21); \
	OP(lo, t); \
	OP(hi, u)

// func q8x8GemvNEON(dst *float32, w *byte, x *int8, d *float32, groups, nb int)
//
// As q8x8GemvSDOT. |s| <= 32*128*127 = 520192 < 2^24, exact in float32.
//
// R0 dst  R1 w  R2 x  R3 d  R4 groups  R5 nb  R7 x'  R8 d'  R9 nb'
// V0,V1 acc of rows 0-3, 4-7   V2,V3 int32 of rows 0-3   V22,V23 of rows 4-7
// V4,V5 x   V6 dx   V7 scales   V16-V19 weights   V20,V21 x repeated
// V24-V27 int16 products
TEXT ·q8x8GemvNEON(SB), NOSPLIT, $0-48
	MOVD dst+0(FP), R0
	MOVD w+8(FP), R1
	MOVD x+16(FP), R2
	MOVD d+24(FP), R3
	MOVD groups+32(FP), R4
	MOVD nb+40(FP), R5

group:
	MOVD R2, R7
	MOVD R3, R8
	MOVD R5, R9
	VEOR V0.B16, V0.B16, V0.B16
	VEOR V1.B16, V1.B16, V1.B16

block:
	FLDPQ.P 32(R7), (F4, F5)
	FMOVQ.P 16(R1), F7
	FMOVS.P 4(R8), F6
	FLDPQ.P 32(R1), (F16, F17)
	FLDPQ.P 32(R1), (F18, F19)
	VDUP    V4.S[0], V20.S4
	VDUP    V4.S[1], V21.S4
	STEP2(SADDLP, 2, 3, 16, 18, 24, 25)
	STEP2(SADDLP, 22, 23, 17, 19, 26, 27)
	FLDPQ.P 32(R1), (F16, F17)
	FLDPQ.P 32(R1), (F18, F19)
	VDUP    V4.S[2], V20.S4
	VDUP    V4.S[3], V21.S4
	STEP2(SADALP, 2, 3, 16, 18, 24, 25)
	STEP2(SADALP, 22, 23, 17, 19, 26, 27)
	FLDPQ.P 32(R1), (F16, F17)
	FLDPQ.P 32(R1), (F18, F19)
	VDUP    V5.S[0], V20.S4
	VDUP    V5.S[1], V21.S4
	STEP2(SADALP, 2, 3, 16, 18, 24, 25)
	STEP2(SADALP, 22, 23, 17, 19, 26, 27)
	FLDPQ.P 32(R1), (F16, F17)
	FLDPQ.P 32(R1), (F18, F19)
	VDUP    V5.S[2], V20.S4
	VDUP    V5.S[3], V21.S4
	STEP2(SADALP, 2, 3, 16, 18, 24, 25)
	STEP2(SADALP, 22, 23, 17, 19, 26, 27)
	VADDP   V3.S4, V2.S4, V2.S4
	VADDP   V23.S4, V22.S4, V22.S4
	FCVTL(16, 7)
	FCVTL2(17, 7)
	SUBS    $1, R9
	SCALEADD(0, 2, 16, 6, 18)
	SCALEADD(1, 22, 17, 6, 19)
	BNE     block

	FSTPQ.P (F0, F1), 32(R0)
	SUBS    $1, R4
	BNE     group
	RET

// func q8x4GemvNEON(dst *float32, w *byte, x *int8, d *float32, groups, nb int)
//
// As q8x4GemvSDOT. Registers and bounds as q8x8GemvNEON, rows 0-3 only.
TEXT ·q8x4GemvNEON(SB), NOSPLIT, $0-48
	MOVD dst+0(FP), R0
	MOVD w+8(FP), R1
	MOVD x+16(FP), R2
	MOVD d+24(FP), R3
	MOVD groups+32(FP), R4
	MOVD nb+40(FP), R5

group:
	MOVD R2, R7
	MOVD R3, R8
	MOVD R5, R9
	VEOR V0.B16, V0.B16, V0.B16

block:
	FLDPQ.P 32(R7), (F4, F5)
	FMOVD.P 8(R1), F7
	FMOVS.P 4(R8), F6
	FLDPQ.P 32(R1), (F16, F17)
	VDUP    V4.S[0], V20.S4
	VDUP    V4.S[1], V21.S4
	STEP2(SADDLP, 2, 3, 16, 17, 24, 25)
	FLDPQ.P 32(R1), (F16, F17)
	VDUP    V4.S[2], V20.S4
	VDUP    V4.S[3], V21.S4
	STEP2(SADALP, 2, 3, 16, 17, 24, 25)
	FLDPQ.P 32(R1), (F16, F17)
	VDUP    V5.S[0], V20.S4
	VDUP    V5.S[1], V21.S4
	STEP2(SADALP, 2, 3, 16, 17, 24, 25)
	FLDPQ.P 32(R1), (F16, F17)
	VDUP    V5.S[2], V20.S4
	VDUP    V5.S[3], V21.S4
	STEP2(SADALP, 2, 3, 16, 17, 24, 25)
	VADDP   V3.S4, V2.S4, V2.S4
	FCVTL(7, 7)
	SUBS    $1, R9
	SCALEADD(0, 2, 7, 6, 18)
	BNE     block

	FMOVQ.P F0, 16(R0)
	SUBS    $1, R4
	BNE     group
	RET

// a = the lane sums of a, b, c and d.
#define FOLD4(a, b, c, d) \
	VADDP b.S4, a.S4, a.S4; \
	VADDP d.S4, c.S4, c.S4; \
	VADDP c.S4, a.S4, a.S4

// The scales of four rows, f16: out = r0 | r1<<16 | r2<<32 | r3<<48. The row
// pointers move on to the codes.
#define SCALES(out, a, b) \
	MOVHU.P 2(R10), out; \
	MOVHU.P 2(R11), a; \
	MOVHU.P 2(R12), b; \
	ORR     a<<16, out; \
	MOVHU.P 2(R13), a; \
	ORR     b<<32, out; \
	ORR     a<<48, out

// One row: the 32 products of codes a, b with x into 4 int32 lanes of s.
#define ROWDOT(s, a, b, t, u) \
	SMULL(t, a, 4); \
	SMULL2(u, a, 4); \
	SMLAL(t, b, 5); \
	SMLAL2(u, b, 5); \
	SADDLP(s, t); \
	SADALP(s, u)

// func q8rowGemvNEON(dst *float32, w *byte, stride int, x *int8, d *float32, groups, nb int)
//
// As q8rowGemvSDOT; bounds as q8x8GemvNEON.
//
// R0 dst  R1 w  R2 x  R3 d  R4 groups  R5 nb  R7 x'  R8 d'  R9 stride
// R10-R13 rows  R14 nb'  R15-R17 scales
// V0 acc   V2,V3,V20,V21 int32 sums by row   V4,V5 x   V6 dx   V7 scales
// V16-V19,V22-V25 codes   V26-V29 int16 products
TEXT ·q8rowGemvNEON(SB), NOSPLIT, $0-56
	MOVD dst+0(FP), R0
	MOVD w+8(FP), R1
	MOVD stride+16(FP), R9
	MOVD x+24(FP), R2
	MOVD d+32(FP), R3
	MOVD groups+40(FP), R4
	MOVD nb+48(FP), R5

group:
	MOVD R1, R10
	ADD  R9, R10, R11
	ADD  R9, R11, R12
	ADD  R9, R12, R13
	ADD  R9<<2, R1, R1
	MOVD R2, R7
	MOVD R3, R8
	MOVD R5, R14
	VEOR V0.B16, V0.B16, V0.B16

block:
	FLDPQ.P 32(R7), (F4, F5)
	SCALES(R15, R16, R17)
	FLDPQ.P 32(R10), (F16, F17)
	FLDPQ.P 32(R11), (F18, F19)
	FLDPQ.P 32(R12), (F22, F23)
	FLDPQ.P 32(R13), (F24, F25)
	FMOVS.P 4(R8), F6
	FMOVD   R15, F7
	ROWDOT(2, 16, 17, 26, 27)
	ROWDOT(3, 18, 19, 28, 29)
	ROWDOT(20, 22, 23, 26, 27)
	ROWDOT(21, 24, 25, 28, 29)
	FCVTL(7, 7)
	SUBS    $1, R14
	FOLD4(V2, V3, V20, V21)
	SCALEADD(0, 2, 7, 6, 3)
	BNE     block

	FMOVQ.P F0, 16(R0)
	SUBS    $1, R4
	BNE     group
	RET
