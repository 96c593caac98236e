// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"
#include "float_amd64.h"

// func expsAVX2(dst, x *float32, vectors int, top, t float32)
//
// dst[i] = Exp((x[i]-top) / t) over vectors*8 > 0 values.
//
// DI dst   SI x   R8 ·expTable   CX vectors left   Y6 top   Y7 t
TEXT ·expsAVX2(SB), NOSPLIT, $0-32
	MOVQ         dst+0(FP), DI
	MOVQ         x+8(FP), SI
	MOVQ         vectors+16(FP), CX
	VBROADCASTSS top+24(FP), Y6
	VBROADCASTSS t+28(FP), Y7
	LEAQ         ·expTable(SB), R8

loop:
	VMOVUPS (SI), Y0
	VSUBPS  Y6, Y0, Y0
	VDIVPS  Y7, Y0, Y0
	EXP(Y0, Y1, Y2, Y3, Y4, R8)
	VMOVUPS Y1, (DI)
	ADDQ    $32, SI
	ADDQ    $32, DI
	DECQ    CX
	JNZ     loop
	VZEROUPPER
	RET
