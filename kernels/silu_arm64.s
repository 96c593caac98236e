// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"
#include "neon_arm64.h"
#include "exp_arm64.h"

// func siluMulNEON(dst, gate, up *float32, vectors int)
//
// dst[i] = (g / (1 + Exp(-g))) * up[i], g = gate[i], over vectors*4 > 0 values;
// dst may be gate or up.
//
// R0 dst  R1 gate  R2 up  R3 vectors  R4 tmp
// V0 -g, t, r, Exp in V1-V3   V8 scratch   V9 g   V10 up   V20-V30 constants
TEXT ·siluMulNEON(SB), NOSPLIT, $0-32
	MOVD dst+0(FP), R0
	MOVD gate+8(FP), R1
	MOVD up+16(FP), R2
	MOVD vectors+24(FP), R3
	EXPLOAD(R4)

vector:
	FMOVQ.P 16(R1), F9
	FMOVQ.P 16(R2), F10
	SUBS    $1, R3
	FNEGV(0, 9)
	EXP(0, 1, 2, 3, 8, V1, V3, V8)
	FADDV(3, 3, 26)
	FDIVV(3, 9, 3)
	FMULV(3, 3, 10)
	FMOVQ.P F3, 16(R0)
	BNE     vector
	RET
