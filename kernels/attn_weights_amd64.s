// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"
#include "float_amd64.h"

// func attnWeightsAVX2(x *float32, groups int) (m, l float32)
//
// x[i] = Exp(x[i]-m), m the largest, l their sum in the 16 lanes of Dot, over
// groups*16 > 0 values. Where a NaN decides the maximum, l is NaN anyway.
//
// SI x   CX groups left   R8 ·expTable   Y0, Y1 lanes   Y12 m
TEXT ·attnWeightsAVX2(SB), NOSPLIT, $0-24
	LEAQ    ·expTable(SB), R8
	MOVQ    x+0(FP), SI
	MOVQ    groups+8(FP), CX
	VMOVUPS (SI), Y0
	VMOVUPS 32(SI), Y1

maxLoop:
	VMAXPS (SI), Y0, Y0
	VMAXPS 32(SI), Y1, Y1
	ADDQ   $64, SI
	DECQ   CX
	JNZ    maxLoop

	VMAXPS       Y1, Y0, Y0
	VEXTRACTF128 $1, Y0, X1
	VMAXPS       X1, X0, X0
	VPERMILPD    $1, X0, X1
	VMAXPS       X1, X0, X0
	VMOVSHDUP    X0, X1
	VMAXPS       X1, X0, X0
	VMOVSS       X0, m+16(FP)
	VBROADCASTSS X0, Y12

	MOVQ   x+0(FP), SI
	MOVQ   groups+8(FP), CX
	VXORPS Y0, Y0, Y0
	VXORPS Y1, Y1, Y1

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
	DECQ    CX
	JNZ     expLoop

	FOLD(Y0, Y1, X0, X1)
	VMOVSS X0, l+20(FP)
	VZEROUPPER
	RET

// func attnWeightsAVX512(x *float32, groups int) (m, l float32)
//
// As attnWeightsAVX2.
//
// SI x   CX groups left   R8 ·expTable   Z0 lanes   Z12 m   K1, K2 scratch
TEXT ·attnWeightsAVX512(SB), NOSPLIT, $0-24
	LEAQ    ·expTable(SB), R8
	MOVQ    x+0(FP), SI
	MOVQ    groups+8(FP), CX
	VMOVUPS (SI), Z0

maxLoop:
	VMAXPS (SI), Z0, Z0
	ADDQ   $64, SI
	DECQ   CX
	JNZ    maxLoop

	VEXTRACTF64X4 $1, Z0, Y1
	VMAXPS        Y1, Y0, Y0
	VEXTRACTF128  $1, Y0, X1
	VMAXPS        X1, X0, X0
	VPERMILPD     $1, X0, X1
	VMAXPS        X1, X0, X0
	VMOVSHDUP     X0, X1
	VMAXPS        X1, X0, X0
	VMOVSS        X0, m+16(FP)
	VBROADCASTSS  X0, Z12

	MOVQ   x+0(FP), SI
	MOVQ   groups+8(FP), CX
	VPXORD Z0, Z0, Z0

expLoop:
	VMOVUPS (SI), Z2
	VSUBPS  Z12, Z2, Z2
	EXP16(Z2, Z4, Z5, Z6, Z7, K1, K2, R8)
	VMOVUPS Z4, (SI)
	VADDPS  Z4, Z0, Z0
	ADDQ    $64, SI
	DECQ    CX
	JNZ     expLoop

	VEXTRACTF64X4 $1, Z0, Y1
	FOLD(Y0, Y1, X0, X1)
	VMOVSS        X0, l+20(FP)
	VZEROUPPER
	RET

// func attnMergeAVX2(o, block *float32, groups int, c, d float32)
//
// o[j] = o[j]*c + block[j]*d over groups*16 > 0 values.
//
// DI o   SI block   CX groups left   Y4 c   Y5 d
TEXT ·attnMergeAVX2(SB), NOSPLIT, $0-32
	MOVQ         o+0(FP), DI
	MOVQ         block+8(FP), SI
	MOVQ         groups+16(FP), CX
	VBROADCASTSS c+24(FP), Y4
	VBROADCASTSS d+28(FP), Y5

loop:
	VMULPS  (DI), Y4, Y0
	VMULPS  32(DI), Y4, Y1
	VMULPS  (SI), Y5, Y2
	VMULPS  32(SI), Y5, Y3
	VADDPS  Y2, Y0, Y0
	VADDPS  Y3, Y1, Y1
	VMOVUPS Y0, (DI)
	VMOVUPS Y1, 32(DI)
	ADDQ    $64, SI
	ADDQ    $64, DI
	DECQ    CX
	JNZ     loop
	VZEROUPPER
	RET
