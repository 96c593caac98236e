// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"
#include "neon_arm64.h"

// func f32ToF16NEON(dst *uint16, src *float32, blocks int)
//
// F32ToF16 of blocks*8 > 0 values. FCVTN rounds to nearest even, with
// subnormals; only a NaN, whose payload it would keep, is replaced before.
//
// R0 dst  R1 src  R2 blocks  R3 tmp
// V0,V1 src   V2,V3 sign with quiet NaN   V4,V5 masks   V16 sign bit
// V17 0x7FC00000
TEXT ·f32ToF16NEON(SB), NOSPLIT, $0-24
	MOVD dst+0(FP), R0
	MOVD src+8(FP), R1
	MOVD blocks+16(FP), R2
	MOVW $0x80000000, R3
	VDUP R3, V16.S4
	MOVW $0x7FC00000, R3
	VDUP R3, V17.S4

block:
	FLDPQ.P 32(R1), (F0, F1)
	SUBS    $1, R2
	VAND    V16.B16, V0.B16, V2.B16
	VAND    V16.B16, V1.B16, V3.B16
	VORR    V17.B16, V2.B16, V2.B16
	VORR    V17.B16, V3.B16, V3.B16
	FCMEQV(4, 0, 0)
	FCMEQV(5, 1, 1)
	VBIF    V4.B16, V2.B16, V0.B16
	VBIF    V5.B16, V3.B16, V1.B16
	FCVTN(0, 0)
	FCVTN2(0, 1)
	FMOVQ.P F0, 16(R0)
	BNE     block
	RET

// func f16ToF32NEON(dst *float32, src *uint16, blocks int)
//
// F16ToF32 of blocks*8 > 0 values.
//
// R0 dst  R1 src  R2 blocks   V0 src   V1,V2 dst
TEXT ·f16ToF32NEON(SB), NOSPLIT, $0-24
	MOVD dst+0(FP), R0
	MOVD src+8(FP), R1
	MOVD blocks+16(FP), R2

block:
	FMOVQ.P 16(R1), F0
	SUBS    $1, R2
	FCVTL(1, 0)
	FCVTL2(2, 0)
	FSTPQ.P (F1, F2), 32(R0)
	BNE     block
	RET
