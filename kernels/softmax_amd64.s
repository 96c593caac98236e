// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"
#include "float_amd64.h"

// func softmaxAVX2(x *float32, n int)
//
// x[i] = Exp(x[i]-m) * (1/sum), m the largest, n >= 1: three passes, the sum in
// the 16 lanes of Dot. Where a NaN decides the maximum, the sum is NaN anyway.
//
// SI x   CX left   R8 ·expTable   Y0, Y1 lanes   Y12 m, then 1/sum   Y10, Y11 masks
TEXT ·softmaxAVX2(SB), NOSPLIT, $0-16
	LEAQ         ·expTable(SB), R8
	MOVQ         x+0(FP), SI
	MOVQ         n+8(FP), CX
	MOVQ         CX, BX
	ANDQ         $15, BX
	TAIL_MASK(BX, AX, Y10, Y11)
	VBROADCASTSS (SI), Y0
	VMOVAPS      Y0, Y1
	SUBQ         $16, CX
	JLT          maxRest

maxLoop:
	VMAXPS (SI), Y0, Y0
	VMAXPS 32(SI), Y1, Y1
	ADDQ   $64, SI
	SUBQ   $16, CX
	JGE    maxLoop

maxRest:
	VMASKMOVPS   (SI), Y10, Y2
	VMASKMOVPS   32(SI), Y11, Y3
	VBLENDVPS    Y10, Y2, Y0, Y2
	VBLENDVPS    Y11, Y3, Y1, Y3
	VMAXPS       Y2, Y0, Y0
	VMAXPS       Y3, Y1, Y1
	VMAXPS       Y1, Y0, Y0
	VEXTRACTF128 $1, Y0, X1
	VMAXPS       X1, X0, X0
	VPERMILPD    $1, X0, X1
	VMAXPS       X1, X0, X0
	VMOVSHDUP    X0, X1
	VMAXPS       X1, X0, X0
	VBROADCASTSS X0, Y12

	MOVQ   x+0(FP), SI
	MOVQ   n+8(FP), CX
	VXORPS Y0, Y0, Y0
	VXORPS Y1, Y1, Y1
	SUBQ   $16, CX
	JLT    expRest

expLoop:
	VMOVUPS (SI), Y2
	VMOVUPS 32(SI), Y3
	VSUBPS  Y12, Y2, Y2
	VSUBPS  Y12, Y3, Y3
	EXP(Y2, Y4, Y5, Y6, Y7, R8)
	EXP(Y3, Y8, Y5, Y6, Y7, R8)
	VMOVUPS Y4, (SI)
	VMOVUPS Y8, 32(SI)
	VADDPS  Y4, Y0, Y0
	VADDPS  Y8, Y1, Y1
	ADDQ    $64, SI
	SUBQ    $16, CX
	JGE     expLoop

expRest:
	TESTQ      BX, BX
	JZ         scale
	VMASKMOVPS (SI), Y10, Y2
	VMASKMOVPS 32(SI), Y11, Y3
	VSUBPS     Y12, Y2, Y2
	VSUBPS     Y12, Y3, Y3
	EXP(Y2, Y4, Y5, Y6, Y7, R8)
	EXP(Y3, Y8, Y5, Y6, Y7, R8)
	VANDPS     Y10, Y4, Y4
	VANDPS     Y11, Y8, Y8
	VMASKMOVPS Y4, Y10, (SI)
	VMASKMOVPS Y8, Y11, 32(SI)
	VADDPS     Y4, Y0, Y0
	VADDPS     Y8, Y1, Y1

scale:
	FOLD(Y0, Y1, X0, X1)
	VMOVSS       288(R8), X1
	VDIVSS       X0, X1, X1
	VBROADCASTSS X1, Y12
	MOVQ         x+0(FP), SI
	MOVQ         n+8(FP), CX
	SUBQ         $16, CX
	JLT          scaleRest

scaleLoop:
	VMULPS  (SI), Y12, Y2
	VMULPS  32(SI), Y12, Y3
	VMOVUPS Y2, (SI)
	VMOVUPS Y3, 32(SI)
	ADDQ    $64, SI
	SUBQ    $16, CX
	JGE     scaleLoop

scaleRest:
	VMASKMOVPS (SI), Y10, Y2
	VMASKMOVPS 32(SI), Y11, Y3
	VMULPS     Y12, Y2, Y2
	VMULPS     Y12, Y3, Y3
	VMASKMOVPS Y2, Y10, (SI)
	VMASKMOVPS Y3, Y11, 32(SI)
	VZEROUPPER
	RET
