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

// A step for four registers each: d = a op s, or d = s op a for those that Go writes so.
#define WITH(OP, s, a0, a1, a2, a3, d0, d1, d2, d3) \
	OP s, a0, d0 \
	OP s, a1, d1 \
	OP s, a2, d2 \
	OP s, a3, d3

#define BOTH(OP, s0, s1, s2, s3, a0, a1, a2, a3) \
	OP s0, a0, a0 \
	OP s1, a1, a1 \
	OP s2, a2, a2 \
	OP s3, a3, a3

// EXP16 four times, step by step: one chain of steps leaves the units idle most
// of the time. x Z16-Z19, y Z20-Z23, r Z24-Z27, t Z28-Z31, n Z8-Z11.
#define EXP64 \
	WITH(VMULPS.BCST, 0(R8), Z16, Z17, Z18, Z19, Z28, Z29, Z30, Z31) \
	WITH(VADDPS.BCST, 32(R8), Z28, Z29, Z30, Z31, Z28, Z29, Z30, Z31) \
	WITH(VSUBPS.BCST, 32(R8), Z28, Z29, Z30, Z31, Z8, Z9, Z10, Z11) \
	WITH(VMULPS.BCST, 64(R8), Z8, Z9, Z10, Z11, Z20, Z21, Z22, Z23) \
	VSUBPS Z20, Z16, Z24 \
	VSUBPS Z21, Z17, Z25 \
	VSUBPS Z22, Z18, Z26 \
	VSUBPS Z23, Z19, Z27 \
	WITH(VMULPS.BCST, 96(R8), Z8, Z9, Z10, Z11, Z20, Z21, Z22, Z23) \
	BOTH(VSUBPS, Z20, Z21, Z22, Z23, Z24, Z25, Z26, Z27) \
	WITH(VMULPS.BCST, 128(R8), Z24, Z25, Z26, Z27, Z20, Z21, Z22, Z23) \
	WITH(VADDPS.BCST, 160(R8), Z20, Z21, Z22, Z23, Z20, Z21, Z22, Z23) \
	BOTH(VMULPS, Z24, Z25, Z26, Z27, Z20, Z21, Z22, Z23) \
	WITH(VADDPS.BCST, 192(R8), Z20, Z21, Z22, Z23, Z20, Z21, Z22, Z23) \
	BOTH(VMULPS, Z24, Z25, Z26, Z27, Z20, Z21, Z22, Z23) \
	WITH(VADDPS.BCST, 224(R8), Z20, Z21, Z22, Z23, Z20, Z21, Z22, Z23) \
	BOTH(VMULPS, Z24, Z25, Z26, Z27, Z20, Z21, Z22, Z23) \
	WITH(VADDPS.BCST, 256(R8), Z20, Z21, Z22, Z23, Z20, Z21, Z22, Z23) \
	VMULPS Z24, Z24, Z8 \
	VMULPS Z25, Z25, Z9 \
	VMULPS Z26, Z26, Z10 \
	VMULPS Z27, Z27, Z11 \
	BOTH(VMULPS, Z8, Z9, Z10, Z11, Z20, Z21, Z22, Z23) \
	BOTH(VADDPS, Z24, Z25, Z26, Z27, Z20, Z21, Z22, Z23) \
	WITH(VADDPS.BCST, 288(R8), Z20, Z21, Z22, Z23, Z20, Z21, Z22, Z23) \
	WITH(VPADDD.BCST, 320(R8), Z28, Z29, Z30, Z31, Z28, Z29, Z30, Z31) \
	WITH(VPSLLD, $23, Z28, Z29, Z30, Z31, Z28, Z29, Z30, Z31) \
	VCMPPS.BCST $0x15, 352(R8), Z16, K1 \
	VCMPPS.BCST $0x1e, 384(R8), Z16, K2 \
	VMULPS.Z Z28, Z20, K1, Z20 \
	VBROADCASTSS 416(R8), K2, Z20 \
	VCMPPS.BCST $0x15, 352(R8), Z17, K1 \
	VCMPPS.BCST $0x1e, 384(R8), Z17, K2 \
	VMULPS.Z Z29, Z21, K1, Z21 \
	VBROADCASTSS 416(R8), K2, Z21 \
	VCMPPS.BCST $0x15, 352(R8), Z18, K1 \
	VCMPPS.BCST $0x1e, 384(R8), Z18, K2 \
	VMULPS.Z Z30, Z22, K1, Z22 \
	VBROADCASTSS 416(R8), K2, Z22 \
	VCMPPS.BCST $0x15, 352(R8), Z19, K1 \
	VCMPPS.BCST $0x1e, 384(R8), Z19, K2 \
	VMULPS.Z Z31, Z23, K1, Z23 \
	VBROADCASTSS 416(R8), K2, Z23

// func attnWeightsAVX512(x *float32, groups int) (m, l float32)
//
// As attnWeightsAVX2.
//
// SI x   CX groups left   R8 ·expTable   Z0 lanes   Z12 m   K1, K2, Z2-Z31 scratch
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

	SUBQ   $4, CX
	JLT    rest

expLoop4:
	VMOVUPS (SI), Z16
	VMOVUPS 64(SI), Z17
	VMOVUPS 128(SI), Z18
	VMOVUPS 192(SI), Z19
	VSUBPS  Z12, Z16, Z16
	VSUBPS  Z12, Z17, Z17
	VSUBPS  Z12, Z18, Z18
	VSUBPS  Z12, Z19, Z19
	EXP64
	VMOVUPS Z20, (SI)
	VMOVUPS Z21, 64(SI)
	VMOVUPS Z22, 128(SI)
	VMOVUPS Z23, 192(SI)
	VADDPS  Z20, Z0, Z0
	VADDPS  Z21, Z0, Z0
	VADDPS  Z22, Z0, Z0
	VADDPS  Z23, Z0, Z0
	ADDQ    $256, SI
	SUBQ    $4, CX
	JGE     expLoop4

rest:
	ADDQ $4, CX
	JZ   done

expLoop:
	VMOVUPS (SI), Z2
	VSUBPS  Z12, Z2, Z2
	EXP16(Z2, Z4, Z5, Z6, Z7, K1, K2, R8)
	VMOVUPS Z4, (SI)
	VADDPS  Z4, Z0, Z0
	ADDQ    $64, SI
	DECQ    CX
	JNZ     expLoop

done:
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

// func attnScaleAVX2(dst, src *float32, blocks int, c float32)
//
// dst[i] = src[i]*c over blocks*8 > 0 values.
//
// DI dst   SI src   CX blocks left   Y1 c
TEXT ·attnScaleAVX2(SB), NOSPLIT, $0-28
	MOVQ         dst+0(FP), DI
	MOVQ         src+8(FP), SI
	MOVQ         blocks+16(FP), CX
	VBROADCASTSS c+24(FP), Y1

loop:
	VMULPS  (SI), Y1, Y0
	VMOVUPS Y0, (DI)
	ADDQ    $32, SI
	ADDQ    $32, DI
	DECQ    CX
	JNZ     loop
	VZEROUPPER
	RET
