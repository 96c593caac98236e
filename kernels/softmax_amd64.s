// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"
#include "float_amd64.h"

// func softmaxAVX2(x *float32, n int)
//
// x[i] = Exp(x[i]-m) * (1/sum), m the largest, n >= 1: three passes, the sum in
// the 16 lanes of Dot. Where a NaN decides the maximum, the sum is NaN anyway.
//
// An empty tail is passed by: a masked access beyond the end can cost a fault's
// handling though it touches nothing.
//
// SI x   CX left   BX n%16   R8 ·expTable   Y0, Y1 lanes   Y12 m, then 1/sum
// Y10, Y11 masks of the tail
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
	TESTQ      BX, BX
	JZ         maxFold
	VMASKMOVPS (SI), Y10, Y2
	VMASKMOVPS 32(SI), Y11, Y3
	VBLENDVPS  Y10, Y2, Y0, Y2
	VBLENDVPS  Y11, Y3, Y1, Y3
	VMAXPS     Y2, Y0, Y0
	VMAXPS     Y3, Y1, Y1

maxFold:
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
	TESTQ      BX, BX
	JZ         done
	VMASKMOVPS (SI), Y10, Y2
	VMASKMOVPS 32(SI), Y11, Y3
	VMULPS     Y12, Y2, Y2
	VMULPS     Y12, Y3, Y3
	VMASKMOVPS Y2, Y10, (SI)
	VMASKMOVPS Y3, Y11, 32(SI)

done:
	VZEROUPPER
	RET

// func softmaxAVX512(x *float32, n int)
//
// As softmaxAVX2.
//
// SI x   DX n/16   CX of these left   BX, K3 lanes of the tail   R8 ·expTable
// Z0 lanes   Z12 m, then 1/sum
TEXT ·softmaxAVX512(SB), NOSPLIT, $0-16
	LEAQ         ·expTable(SB), R8
	MOVQ         x+0(FP), SI
	MOVQ         n+8(FP), DX
	MOVQ         DX, CX
	ANDQ         $15, CX
	MOVL         $1, BX
	SHLL         CX, BX
	DECL         BX // 0 without a tail
	KMOVW        BX, K3
	SHRQ         $4, DX
	VBROADCASTSS (SI), Z0
	MOVQ         DX, CX
	TESTQ        CX, CX
	JZ           maxRest

maxLoop:
	VMAXPS (SI), Z0, Z0
	ADDQ   $64, SI
	DECQ   CX
	JNZ    maxLoop

maxRest:
	TESTL     BX, BX
	JZ        maxFold
	VMOVUPS.Z (SI), K3, Z1
	VMAXPS    Z1, Z0, K3, Z0

maxFold:
	VEXTRACTF64X4 $1, Z0, Y1
	VMAXPS        Y1, Y0, Y0
	VEXTRACTF128  $1, Y0, X1
	VMAXPS        X1, X0, X0
	VPERMILPD     $1, X0, X1
	VMAXPS        X1, X0, X0
	VMOVSHDUP     X0, X1
	VMAXPS        X1, X0, X0
	VBROADCASTSS  X0, Z12

	MOVQ   x+0(FP), SI
	VPXORD Z0, Z0, Z0
	MOVQ   DX, CX
	TESTQ  CX, CX
	JZ     expRest

expLoop:
	VMOVUPS (SI), Z2
	VSUBPS  Z12, Z2, Z2
	EXP16(Z2, Z4, Z5, Z6, Z7, K1, K2, R8)
	VMOVUPS Z4, (SI)
	VADDPS  Z4, Z0, Z0
	ADDQ    $64, SI
	DECQ    CX
	JNZ     expLoop

expRest:
	TESTL     BX, BX
	JZ        expFold
	VMOVUPS.Z (SI), K3, Z2
	VSUBPS    Z12, Z2, Z2
	EXP16(Z2, Z4, Z5, Z6, Z7, K1, K2, R8)
	VMOVUPS   Z4, K3, (SI)
	VADDPS    Z4, Z0, K3, Z0

expFold:
	VEXTRACTF64X4 $1, Z0, Y1
	FOLD(Y0, Y1, X0, X1)
	VMOVSS        288(R8), X1
	VDIVSS        X0, X1, X1
	VBROADCASTSS  X1, Z12
	MOVQ          x+0(FP), SI
	MOVQ          DX, CX
	TESTQ         CX, CX
	JZ            scaleRest

scaleLoop:
	VMULPS  (SI), Z12, Z2
	VMOVUPS Z2, (SI)
	ADDQ    $64, SI
	DECQ    CX
	JNZ     scaleLoop

scaleRest:
	TESTL     BX, BX
	JZ        done
	VMOVUPS.Z (SI), K3, Z2
	VMULPS    Z12, Z2, Z2
	VMOVUPS   Z2, K3, (SI)

done:
	VZEROUPPER
	RET
