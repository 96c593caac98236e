// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"
#include "neon_arm64.h"
#include "exp_arm64.h"

// func expsNEON(dst, x *float32, vectors int, top, t float32)
//
// dst[i] = Exp((x[i]-top) / t) over vectors*4 > 0 values.
//
// R0 dst  R1 x  R2 vectors  R4 tmp  V0 argument, Exp in V1-V3  V8 scratch
// V9 top  V10 t  V20-V30 constants
TEXT ·expsNEON(SB), NOSPLIT, $0-32
	MOVD  dst+0(FP), R0
	MOVD  x+8(FP), R1
	MOVD  vectors+16(FP), R2
	FMOVS top+24(FP), F9
	FMOVS t+28(FP), F10
	VDUP  V9.S[0], V9.S4
	VDUP  V10.S[0], V10.S4
	EXPLOAD(R4)

vector:
	FMOVQ.P 16(R1), F0
	SUBS    $1, R2
	FSUBV(0, 0, 9)
	FDIVV(0, 0, 10)
	EXP(0, 1, 2, 3, 8, V1, V3, V8)
	FMOVQ.P F3, 16(R0)
	BNE     vector
	RET
