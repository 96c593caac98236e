// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"
#include "neon_arm64.h"

// Q4 for cores without the dot product instructions. The codes are -8..7, so all
// products of a block's 32 columns fit on top of each other in int16: a lane
// takes at most 8 of them (4x4) or 4 (row), 8*8*127 = 8128 < 2^15.

// acc += (dw*dx) * float32(s), each step rounded.
#define SCALEADD(acc, s, dw, dx, tmp) \
	FMULE(tmp, dw, dx, 0); \
	SCVTFV(s, s); \
	FMULV(tmp, tmp, s); \
	FADDV(acc, acc, tmp)

// func q4x4GemvNEON(dst *float32, w *byte, x *int8, d *float32, groups, nb int)
//
// As q4x4GemvSDOT. |s| <= 32*8*127 = 32512, exact in float32.
//
// R0 dst  R1 w  R2 x  R3 d  R4 groups  R5 nb  R7 x'  R8 d'  R9 nb'
// V0 acc   V2,V3 int16 of rows 0,1 and 2,3, then int32   V4,V5 x   V6 dx
// V7 scales   V16-V19 nibbles, then high codes   V20 low codes
// V21,V22 x repeated
TEXT ·q4x4GemvNEON(SB), NOSPLIT, $0-48
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
	FLDPQ.P 32(R1), (F16, F17)
	FLDPQ.P 32(R1), (F18, F19)
	FMOVS.P 4(R8), F6
	VSHL    $4, V16.B16, V20.B16
	VDUP    V4.S[0], V21.S4
	VDUP    V5.S[0], V22.S4
	SSHRB(20, 20, 4)
	SSHRB(16, 16, 4)
	SMULL(2, 20, 21)
	SMULL2(3, 20, 21)
	SMLAL(2, 16, 22)
	SMLAL2(3, 16, 22)
	VSHL    $4, V17.B16, V20.B16
	VDUP    V4.S[1], V21.S4
	VDUP    V5.S[1], V22.S4
	SSHRB(20, 20, 4)
	SSHRB(17, 17, 4)
	SMLAL(2, 20, 21)
	SMLAL2(3, 20, 21)
	SMLAL(2, 17, 22)
	SMLAL2(3, 17, 22)
	VSHL    $4, V18.B16, V20.B16
	VDUP    V4.S[2], V21.S4
	VDUP    V5.S[2], V22.S4
	SSHRB(20, 20, 4)
	SSHRB(18, 18, 4)
	SMLAL(2, 20, 21)
	SMLAL2(3, 20, 21)
	SMLAL(2, 18, 22)
	SMLAL2(3, 18, 22)
	VSHL    $4, V19.B16, V20.B16
	VDUP    V4.S[3], V21.S4
	VDUP    V5.S[3], V22.S4
	SSHRB(20, 20, 4)
	SSHRB(19, 19, 4)
	SMLAL(2, 20, 21)
	SMLAL2(3, 20, 21)
	SMLAL(2, 19, 22)
	SMLAL2(3, 19, 22)
	SADDLP(2, 2)
	SADDLP(3, 3)
	FCVTL(7, 7)
	VADDP   V3.S4, V2.S4, V2.S4
	SUBS    $1, R9
	SCALEADD(0, 2, 7, 6, 3)
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

// XOR 0x88 makes nibbles signed; lo gets the low ones at the top of the bytes.
#define SIGNED(n, lo) \
	VEOR V30.B16, n.B16, n.B16; \
	VSHL $4, n.B16, lo.B16

// One row: low and high nibbles times x into 4 int32 lanes of s.
#define ROWDOT(s, n, lo, t) \
	SSHRB(lo, lo, 4); \
	SSHRB(n, n, 4); \
	SMULL(t, lo, 4); \
	SMLAL2(t, lo, 4); \
	SMLAL(t, n, 5); \
	SMLAL2(t, n, 5); \
	SADDLP(s, t)

// func q4rowGemvNEON(dst *float32, w *byte, stride int, x *int8, d *float32, groups, nb int)
//
// As q4rowGemvSDOT; bounds as q4x4GemvNEON.
//
// R0 dst  R1 w  R2 x  R3 d  R4 groups  R5 nb  R7 x'  R8 d'  R9 stride
// R10-R13 rows  R14 nb'  R15-R17 scales
// V0 acc   V2,V3,V20,V21 int32 sums by row   V4,V5 x   V6 dx   V7 scales
// V16-V19 nibbles, then high codes   V22-V25 low codes   V26-V29 int16 sums
// V30 0x88
TEXT ·q4rowGemvNEON(SB), NOSPLIT, $0-56
	MOVD dst+0(FP), R0
	MOVD w+8(FP), R1
	MOVD stride+16(FP), R9
	MOVD x+24(FP), R2
	MOVD d+32(FP), R3
	MOVD groups+40(FP), R4
	MOVD nb+48(FP), R5
	VMOVI $0x88, V30.B16

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
	FMOVQ.P 16(R10), F16
	FMOVQ.P 16(R11), F17
	FMOVQ.P 16(R12), F18
	FMOVQ.P 16(R13), F19
	FMOVS.P 4(R8), F6
	FMOVD   R15, F7
	SIGNED(V16, V22)
	SIGNED(V17, V23)
	SIGNED(V18, V24)
	SIGNED(V19, V25)
	ROWDOT(2, 16, 22, 26)
	ROWDOT(3, 17, 23, 27)
	ROWDOT(20, 18, 24, 28)
	ROWDOT(21, 19, 25, 29)
	FCVTL(7, 7)
	SUBS    $1, R14
	FOLD4(V2, V3, V20, V21)
	SCALEADD(0, 2, 7, 6, 3)
	BNE     block

	FMOVQ.P F0, 16(R0)
	SUBS    $1, R4
	BNE     group
	RET
