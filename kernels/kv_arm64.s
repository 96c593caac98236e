// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"
#include "neon_arm64.h"

// Sixteen codes at R2 to R0, which go on by R5 and R7, by SCALE16. The code plus 128, as the low
// byte of the bits of 2^23, is 2^23+128 more than the code as a float: exact, and
// cheaper than widening and converting.
#define READ16 \
	FMOVQ (R2), F16; \
	ADD   R5, R2; \
	VEOR    V24.B16, V16.B16, V16.B16; \
	VZIP1   V25.B16, V16.B16, V17.B16; \
	VZIP2   V25.B16, V16.B16, V18.B16; \
	VZIP1   V26.H8, V17.H8, V20.H8; \
	VZIP2   V26.H8, V17.H8, V21.H8; \
	VZIP1   V26.H8, V18.H8, V22.H8; \
	VZIP2   V26.H8, V18.H8, V23.H8; \
	FSUBV(20, 20, 27); \
	FSUBV(21, 21, 27); \
	FSUBV(22, 22, 27); \
	FSUBV(23, 23, 27); \
	SCALE16; \
	FSTPQ (F20, F21), (R0); \
	FSTPQ (F22, F23), 32(R0); \
	ADD   R7, R0

// V24 sign bits of bytes, V25 zero, V26 the upper half and V27 all of 2^23, and
// 128 more in V27. Uses tmp.
#define CONSTANTS(tmp) \
	VMOVI $0x80, V24.B16; \
	VEOR  V25.B16, V25.B16, V25.B16; \
	MOVD  $0x4B00, tmp; \
	VDUP  tmp, V26.H8; \
	MOVD  $0x4B000080, tmp; \
	VDUP  tmp, V27.S4

// Each by a scale of its own in V4-V7.
#define SCALE16 \
	FMULV(20, 20, 4); \
	FMULV(21, 21, 5); \
	FMULV(22, 22, 6); \
	FMULV(23, 23, 7)

// func kvInt8KeysNEON(dst *float32, scales *uint16, codes *int8, n, step int)
//
// dst[j*step+i] = codes[j*step+i] * scales[i] for n >= 1 elements j of 16
// positions i.
//
// R0 dst  R1 scales  R2 codes  R3 elements left  R5, R7 steps
// V0,V1 halves   V4-V7 scales   V16-V23 codes   V24-V27 constants
TEXT ·kvInt8KeysNEON(SB), NOSPLIT, $0-40
	MOVD  dst+0(FP), R0
	MOVD  scales+8(FP), R1
	MOVD  codes+16(FP), R2
	MOVD  n+24(FP), R3
	MOVD  step+32(FP), R5
	LSL   $2, R5, R7
	CONSTANTS(R6)
	FLDPQ (R1), (F0, F1)
	FCVTL(4, 0)
	FCVTL2(5, 0)
	FCVTL(6, 1)
	FCVTL2(7, 1)

element:
	READ16
	SUBS $1, R3
	BNE  element
	RET

// All by the one in V4.
#undef SCALE16
#define SCALE16 \
	FMULE(20, 20, 4, 0); \
	FMULE(21, 21, 4, 0); \
	FMULE(22, 22, 4, 0); \
	FMULE(23, 23, 4, 0)

// func kvInt8ValuesNEON(dst *float32, scales *uint16, codes *int8, groups, n int)
//
// dst[i][j] = codes[i][j] * scales[i][j/32] for n >= 1 positions i of groups*16 > 0
// elements j.
//
// R0 dst  R1 scales  R2 codes  R3 groups left  R4 positions left  R5, R7 steps
// V0 halves   V4 scale   V16-V23 codes   V24-V27 constants
TEXT ·kvInt8ValuesNEON(SB), NOSPLIT, $0-40
	MOVD dst+0(FP), R0
	MOVD scales+8(FP), R1
	MOVD codes+16(FP), R2
	MOVD n+32(FP), R4
	MOVD $16, R5
	MOVD $64, R7
	CONSTANTS(R6)

position:
	MOVD groups+24(FP), R3

pair:
	VLD1R.P 2(R1), [V0.H8]
	FCVTL(4, 0)
	READ16
	SUBS    $1, R3
	BEQ     next
	READ16
	SUBS    $1, R3
	BNE     pair

next:
	SUBS $1, R4
	BNE  position
	RET
