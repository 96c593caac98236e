// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"
#include "matmul_amd64.h"

// One step of four columns: eight rows of codes, made unsigned by the flip of the
// sign bit, with the four activations that all rows share.
#define VNNI(k, acc) \
	VPXORD        (16+32*k)(SI), Y31, Y4 \
	VPDPBUSD.BCST (4*k)(R8), Y4, acc

// func gemvQ8x8VNNI(dst *float32, w *byte, groups, nb int, q *int8, d *float32, bias *int32, ahead int)
//
// dst[8*g+m] = row m of group g times the token, as MatMul defines it, for
// groups >= 1 groups of nb >= 1 tiles of 272 bytes.
//
// Y0 result; Y2, Y3 integer sums of even and odd steps; Y31 0x80 bytes.
// s = sum((w+128)*x) - 128*sum(x): |s| <= 32*255*127 + 128*32*127 < 2^21.
TEXT ·gemvQ8x8VNNI(SB), NOSPLIT, $0-64
	GEMV_ARGS
	MOVL         $0x80808080, AX
	VPBROADCASTD AX, Y31

group:
	GEMV_ACTS
	VXORPS Y0, Y0, Y0

block:
	AHEAD272
	VPBROADCASTD (R10), Y2
	VPXOR        Y3, Y3, Y3
	VNNI(0, Y2)
	VNNI(1, Y3)
	VNNI(2, Y2)
	VNNI(3, Y3)
	VNNI(4, Y2)
	VNNI(5, Y3)
	VNNI(6, Y2)
	VNNI(7, Y3)
	VCVTPH2PS    (SI), Y5
	VMULPS.BCST  (R9), Y5, Y5
	VPADDD       Y3, Y2, Y2
	VCVTDQ2PS    Y2, Y2
	VMULPS       Y5, Y2, Y2
	VADDPS       Y2, Y0, Y0
	GEMV_NEXT(272)
	DECQ         CX
	JNZ          block

	VMOVUPS Y0, (DI)
	ADDQ    $32, DI
	DECQ    BX
	JNZ     group
	VZEROUPPER
	RET

// The same step as |w| times x with the sign of w, in 16-bit pairs.
#define AVX2(k, acc) \
	VMOVDQU      (16+32*k)(SI), Y4 \
	VPBROADCASTD (4*k)(R8), Y5     \
	VPABSB       Y4, Y6            \
	VPSIGNB      Y4, Y5, Y5        \
	VPMADDUBSW   Y5, Y6, Y6        \
	VPMADDWD     Y14, Y6, Y6       \
	VPADDD       Y6, acc, acc

// func gemvQ8x8AVX2(dst *float32, w *byte, groups, nb int, q *int8, d *float32, bias *int32, ahead int)
//
// As gemvQ8x8VNNI; bias is not read.
//
// Y0 result; Y2, Y3 integer sums; Y14 ones.
// A 16-bit pair is at most 2*128*127 = 32512 < 2^15, a sum 32*128*127 < 2^19.
TEXT ·gemvQ8x8AVX2(SB), NOSPLIT, $0-64
	GEMV_ARGS
	VPCMPEQW Y14, Y14, Y14
	VPSRLW   $15, Y14, Y14

group:
	GEMV_ACTS
	VXORPS Y0, Y0, Y0

block:
	AHEAD272
	VPXOR        Y2, Y2, Y2
	VPXOR        Y3, Y3, Y3
	AVX2(0, Y2)
	AVX2(1, Y3)
	AVX2(2, Y2)
	AVX2(3, Y3)
	AVX2(4, Y2)
	AVX2(5, Y3)
	AVX2(6, Y2)
	AVX2(7, Y3)
	VCVTPH2PS    (SI), Y5
	VBROADCASTSS (R9), Y6
	VMULPS       Y6, Y5, Y5
	VPADDD       Y3, Y2, Y2
	VCVTDQ2PS    Y2, Y2
	VMULPS       Y5, Y2, Y2
	VADDPS       Y2, Y0, Y0
	GEMV_NEXT(272)
	DECQ         CX
	JNZ          block

	VMOVUPS Y0, (DI)
	ADDQ    $32, DI
	DECQ    BX
	JNZ     group
	VZEROUPPER
	RET
