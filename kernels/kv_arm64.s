// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"
#include "neon_arm64.h"

// Sixteen codes at R2 by the scales in V4-V7 to R0.
#define READ16 \
	FMOVQ.P 16(R2), F16; \
	SXTLH(17, 16); \
	SXTLH2(16, 16); \
	SXTLS(20, 17); \
	SXTLS2(21, 17); \
	SXTLS(22, 16); \
	SXTLS2(23, 16); \
	SCVTFV(20, 20); \
	SCVTFV(21, 21); \
	SCVTFV(22, 22); \
	SCVTFV(23, 23); \
	FMULV(20, 20, 4); \
	FMULV(21, 21, 5); \
	FMULV(22, 22, 6); \
	FMULV(23, 23, 7); \
	FSTPQ.P (F20, F21), 32(R0); \
	FSTPQ.P (F22, F23), 32(R0)

// func kvInt8KeysNEON(dst *float32, scales *uint16, codes *int8, hd int)
//
// dst[j][i] = codes[j][i] * scales[j/32][i] for hd >= 1 elements j of 16 positions i.
//
// R0 dst  R1 scales  R2 codes  R3 elements left  R4 of a scale
// V0,V1 halves   V4-V7 scales   V16-V23 codes
TEXT ·kvInt8KeysNEON(SB), NOSPLIT, $0-32
	MOVD dst+0(FP), R0
	MOVD scales+8(FP), R1
	MOVD codes+16(FP), R2
	MOVD hd+24(FP), R3
	MOVD $32, R5

block:
	FLDPQ.P 32(R1), (F0, F1)
	CMP     R5, R3
	CSEL    LT, R3, R5, R4
	SUB     R4, R3
	FCVTL(4, 0)
	FCVTL2(5, 0)
	FCVTL(6, 1)
	FCVTL2(7, 1)

element:
	READ16
	SUBS $1, R4
	BNE  element
	CBNZ R3, block
	RET

// func kvInt8ValuesNEON(dst *float32, scales *uint16, codes *int8, groups int)
//
// dst[i][j] = codes[i][j] * scales[i][j/32] for 16 positions i of groups*16 > 0
// elements j.
//
// R0 dst  R1 scales  R2 codes  R3 groups left  R4 positions left  R5 a scale
// V0 halves   V4-V7 scale   V16-V23 codes
TEXT ·kvInt8ValuesNEON(SB), NOSPLIT, $0-32
	MOVD dst+0(FP), R0
	MOVD scales+8(FP), R1
	MOVD codes+16(FP), R2
	MOVD $16, R4

position:
	MOVD groups+24(FP), R3

pair:
	MOVHU.P 2(R1), R5
	VMOV    R5, V0.H[0]
	FCVTL(0, 0)
	VDUP    V0.S[0], V4.S4
	VORR    V4.B16, V4.B16, V5.B16
	VORR    V4.B16, V4.B16, V6.B16
	VORR    V4.B16, V4.B16, V7.B16
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
