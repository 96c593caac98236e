// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"
#include "neon_arm64.h"

// func maxAbsNEON(x *float32, blocks int) float32
//
// The largest of the bits without sign of blocks*16 > 0 values.
//
// R0 x  R1 blocks  R2 tmp   V0,V1 largest   V2-V5 x   V28 0x7FFFFFFF
TEXT ·maxAbsNEON(SB), NOSPLIT, $0-20
	MOVD x+0(FP), R0
	MOVD blocks+8(FP), R1
	MOVW $0x7FFFFFFF, R2
	VDUP R2, V28.S4
	VEOR V0.B16, V0.B16, V0.B16
	VEOR V1.B16, V1.B16, V1.B16

block:
	FLDPQ.P 32(R0), (F2, F3)
	FLDPQ.P 32(R0), (F4, F5)
	SUBS    $1, R1
	VAND    V28.B16, V2.B16, V2.B16
	VAND    V28.B16, V3.B16, V3.B16
	VAND    V28.B16, V4.B16, V4.B16
	VAND    V28.B16, V5.B16, V5.B16
	VUMAX   V3.S4, V2.S4, V2.S4
	VUMAX   V5.S4, V4.S4, V4.S4
	VUMAX   V2.S4, V0.S4, V0.S4
	VUMAX   V4.S4, V1.S4, V1.S4
	BNE     block
	VUMAX   V1.S4, V0.S4, V0.S4
	UMAXVS(0, 0)
	FMOVS   F0, ret+16(FP)
	RET

// SCALE puts the half at R1 into lane 0 of V24 as float32, and goes on behind it.
#define SCALE \
	MOVHU.P 2(R1), R4; \
	FMOVS   R4, F24;   \
	FCVTL(24, 24)

// GONE adds to the sums in V(lost) and V(all) what four values lost: codes are
// int32 in V(q), which is v, the values in V(x), which is y. V28 is 0x7FFFFFFF,
// V12 the largest so far, as bits.
#define GONE(q, v, x, y, lost, all) \
	SCVTFV(q, q);                  \
	FMULE(q, q, 24, 0);            \
	FSUBV(q, x, q);                \
	FMULV(x, x, x);                \
	FADDV(all, all, x);            \
	VAND  V28.B16, v.B16, y.B16;   \
	VUMAX y.S4, V12.S4, V12.S4;    \
	FMULV(q, q, q);                \
	FADDV(lost, lost, q)

// HALVES does GONE for the first or second sixteen values of a block, which have
// the lanes 0 to 15: codes in V16-V19, values at R2.
#define HALVES \
	FLDPQ.P 32(R2), (F20, F21);    \
	FLDPQ.P 32(R2), (F22, F23);    \
	GONE(16, V16, 20, V20, 0, 4);  \
	GONE(17, V17, 21, V21, 1, 5);  \
	GONE(18, V18, 22, V22, 2, 6);  \
	GONE(19, V19, 23, V23, 3, 7)

// WIDEN makes int32 in V16-V19 of the sixteen signed bytes in V(n).
#define WIDEN(n) \
	SXTLH(17, n);   \
	SXTLH2(19, n);  \
	SXTLS(16, 17);  \
	SXTLS2(17, 17); \
	SXTLS(18, 19);  \
	SXTLS2(19, 19)

// SUM adds the lanes of four registers, 8, 4, 2, 1 apart, into lane 0 of the first.
#define SUM(a, va, b, vb, c, d) \
	FADDV(a, a, c);                     \
	FADDV(b, b, d);                     \
	FADDV(a, a, b);                     \
	VEXT $8, va.B16, va.B16, vb.B16;    \
	FADDV(a, a, b);                     \
	FADDPS(a, a)

// CLEAR sets all sums to 0, and V28.
#define CLEAR \
	MOVW $0x7FFFFFFF, R4;          \
	VDUP R4, V28.S4;               \
	VEOR V0.B16, V0.B16, V0.B16;   \
	VEOR V1.B16, V1.B16, V1.B16;   \
	VEOR V2.B16, V2.B16, V2.B16;   \
	VEOR V3.B16, V3.B16, V3.B16;   \
	VEOR V4.B16, V4.B16, V4.B16;   \
	VEOR V5.B16, V5.B16, V5.B16;   \
	VEOR V6.B16, V6.B16, V6.B16;   \
	VEOR V7.B16, V7.B16, V7.B16;   \
	VEOR V12.B16, V12.B16, V12.B16

// ERRORS stores the three sums at R0.
#define ERRORS \
	SUM(0, V0, 1, V1, 2, 3);  \
	SUM(4, V4, 5, V5, 6, 7);  \
	UMAXVS(12, 12);           \
	FMOVS F0, (R0);           \
	FMOVS F4, 4(R0);          \
	FMOVS F12, 8(R0)

// func blockLossQ8NEON(out *[3]float32, blocks *byte, x *float32, nb int)
//
// BlockError of nb > 0 blocks of Q8Row.
//
// R0 out  R1 blocks  R2 x  R3 nb  R4 tmp
// V0-V3 lost, lanes 0-15   V4-V7 all   V12 largest   V16-V19 codes, lost
// V20-V23 x   V24 scale   V26,V27 codes of the block   V28 0x7FFFFFFF
TEXT ·blockLossQ8NEON(SB), NOSPLIT, $0-32
	MOVD out+0(FP), R0
	MOVD blocks+8(FP), R1
	MOVD x+16(FP), R2
	MOVD nb+24(FP), R3
	CLEAR

block:
	SCALE
	FLDPQ.P 32(R1), (F26, F27)
	WIDEN(26)
	HALVES
	WIDEN(27)
	HALVES
	SUBS    $1, R3
	BNE     block
	ERRORS
	RET

// func blockLossQ4NEON(out *[3]float32, blocks *byte, x *float32, nb int)
//
// BlockError of nb > 0 blocks of Q4Row. Registers as above; V30 is 15, V31 8.
TEXT ·blockLossQ4NEON(SB), NOSPLIT, $0-32
	MOVD out+0(FP), R0
	MOVD blocks+8(FP), R1
	MOVD x+16(FP), R2
	MOVD nb+24(FP), R3
	CLEAR
	MOVD $15, R4
	VDUP R4, V30.B16
	MOVD $8, R4
	VDUP R4, V31.B16

block:
	SCALE
	FMOVQ.P 16(R1), F26
	VUSHR   $4, V26.B16, V27.B16
	VAND    V30.B16, V26.B16, V26.B16
	VSUB    V31.B16, V26.B16, V26.B16
	VSUB    V31.B16, V27.B16, V27.B16
	WIDEN(26)
	HALVES
	WIDEN(27)
	HALVES
	SUBS    $1, R3
	BNE     block
	ERRORS
	RET
