// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"
#include "matmul_amd64.h"

// Four row groups at a time (matmul_amd64.h): what bounds a group alone is the
// work on the activations.
//
//	func gemvQ4x4Quad…(dst *float32, w *byte, groups, nb int, q *int8, d *float32, bias *int32, ahead int)
//
// As gemvQ4x4VNNI (matmul_q4x4_amd64.s) for groups a multiple of 4.

// Z26 0x08 bytes   Z27 0x0f bytes   Z28, Z29 spread of columns 0-15 and 16-31
#define CONSTANTS \
	MOVL         $0x08080808, AX     \
	VPBROADCASTD AX, Z26             \
	MOVL         $0x0f0f0f0f, AX     \
	VPBROADCASTD AX, Z27             \
	VMOVDQU32    ·spread+0(SB), Z28  \
	VMOVDQU32    ·spread+64(SB), Z29

#define VNNI(w, acc, lo, hi) \
	NIBBLES(w, lo, hi)    \
	VPDPBUSD Z7, lo, acc \
	VPDPBUSD Z8, hi, acc

// func gemvQ4x4QuadVNNI(dst *float32, w *byte, groups, nb int, q *int8, d *float32, bias *int32, ahead int)
//
// Z2-Z5 integer sums; Z9-Z12 codes; Z7, Z8 activations; Y13, Y14 scales.
TEXT ·gemvQ4x4QuadVNNI(SB), NOSPLIT, $0-64
	QUAD_ARGS(72)
	CONSTANTS

group:
	GEMV_ACTS
	LEAQ   (R9)(DX*4), R9
	LEAQ   (R10)(DX*4), R10
	NEGQ   CX
	VXORPS Y0, Y0, Y0
	VXORPS Y1, Y1, Y1

block:
	QUAD_AHEAD72
	VMOVDQU     (R8), Y6
	VPERMD      Z6, Z28, Z7
	VPERMD      Z6, Z29, Z8
	VPSRAD.BCST $4, (R10)(CX*4), X2
	VMOVDQA     X2, X3
	VMOVDQA     X2, X4
	VMOVDQA     X2, X5
	VNNI(8(SI), Z2, Z9, Z10)
	VNNI(8(SI)(R12*1), Z3, Z11, Z12)
	VNNI(8(SI)(R12*2), Z4, Z9, Z10)
	VNNI(8(SI)(R13*1), Z5, Z11, Z12)
	QUAD_SUMS((R9)(CX*4))
	ADDQ        $32, R8
	ADDQ        $72, SI
	INCQ        CX
	JNZ         block

	QUAD_STORE
	DECQ BX
	JNZ  group
	VZEROUPPER
	RET

// Two steps, one a lane, of the low and two of the high nibbles at w, in 16-bit
// pairs in s.
#define AVX2(w, s, hi) \
	VPXOR      w, Y11, s   \
	VPSRLW     $4, s, hi   \
	VPAND      Y12, s, s   \
	VPAND      Y12, hi, hi \
	VPMADDUBSW Y6, s, s    \
	VPMADDUBSW Y7, hi, hi  \
	VPADDW     hi, s, s

#define AVX2_ADD(w, s) \
	AVX2(w, Y8, Y9) \
	VPADDW Y8, s, s

#define AVX2_ACTS(p) \
	VPBROADCASTQ (8*p)(R8), Y6    \
	VPBROADCASTQ (16+8*p)(R8), Y7 \
	VPSHUFB      Y13, Y6, Y6      \
	VPSHUFB      Y13, Y7, Y7

// func gemvQ4x4QuadAVX2(dst *float32, w *byte, groups, nb int, q *int8, d *float32, bias *int32, ahead int)
//
// Y2-Y5 pair sums, then integer sums; Y6, Y7 activations; Y11 0x88 bytes; Y12
// 0x0f bytes; Y13 repeats dword 0 in the low lane, dword 1 in the high one;
// Y14 ones. Bounds as in gemvQ4x4AVX2.
TEXT ·gemvQ4x4QuadAVX2(SB), NOSPLIT, $0-64
	QUAD_ARGS(72)
	MOVL         $0x88888888, AX
	VMOVD        AX, X11
	VPBROADCASTD X11, Y11
	MOVL         $0x0f0f0f0f, AX
	VMOVD        AX, X12
	VPBROADCASTD X12, Y12
	VPCMPEQW     Y14, Y14, Y14
	VPSRLW       $15, Y14, Y14
	VMOVDQU      ·spread2(SB), Y13

group:
	GEMV_ACTS
	VXORPS Y0, Y0, Y0
	VXORPS Y1, Y1, Y1

block:
	QUAD_AHEAD72
	AVX2_ACTS(0)
	AVX2(8(SI), Y2, Y8)
	AVX2(8(SI)(R12*1), Y3, Y9)
	AVX2(8(SI)(R12*2), Y4, Y8)
	AVX2(8(SI)(R13*1), Y5, Y9)
	AVX2_ACTS(1)
	AVX2_ADD(40(SI), Y2)
	AVX2_ADD(40(SI)(R12*1), Y3)
	AVX2_ADD(40(SI)(R12*2), Y4)
	AVX2_ADD(40(SI)(R13*1), Y5)
	VPMADDWD     Y14, Y2, Y2
	VPMADDWD     Y14, Y3, Y3
	VPMADDWD     Y14, Y4, Y4
	VPMADDWD     Y14, Y5, Y5
	SUM2(Y2, Y3, Y8)
	SUM2(Y4, Y5, Y9)
	VPBROADCASTD (R10), Y3
	VPSRAD       $4, Y3, Y3
	VPADDD       Y3, Y2, Y2
	VPADDD       Y3, Y4, Y4
	SCALES((SI), (SI)(R12*1), X6, Y6)
	SCALES((SI)(R12*2), (SI)(R13*1), X7, Y7)
	VBROADCASTSS (R9), Y5
	VMULPS       Y5, Y6, Y6
	VMULPS       Y5, Y7, Y7
	VCVTDQ2PS    Y2, Y2
	VCVTDQ2PS    Y4, Y4
	VMULPS       Y6, Y2, Y2
	VMULPS       Y7, Y4, Y4
	VADDPS       Y2, Y0, Y0
	VADDPS       Y4, Y1, Y1
	GEMV_NEXT(72)
	DECQ         CX
	JNZ          block

	QUAD_STORE
	DECQ BX
	JNZ  group
	VZEROUPPER
	RET
