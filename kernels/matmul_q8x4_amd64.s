// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"
#include "matmul_amd64.h"

// func gemvQ8x4VNNI(dst *float32, w *byte, groups, nb int, q *int8, d *float32, bias *int32, ahead int)
//
// dst[4*g+m] = row m of group g times the token, as MatMul defines it, for
// groups >= 1 groups of nb >= 1 group-blocks of 136 bytes.
//
// A register holds four steps of four columns, a 128-bit lane each; VPERMD
// spreads the activations likewise; the lanes are added after the block.
//
// X0 result; Z2 integer sums; Z28, Z29 spread of columns 0-15 and 16-31; Z31 0x80
// bytes.
// s = sum((w+128)*x) - 128*sum(x): |s| <= 32*255*127 + 128*32*127 < 2^21.
TEXT ·gemvQ8x4VNNI(SB), NOSPLIT, $0-64
	GEMV_ARGS
	MOVL         $0x80808080, AX
	VPBROADCASTD AX, Z31
	VMOVDQU32    ·spread+0(SB), Z28
	VMOVDQU32    ·spread+64(SB), Z29

group:
	GEMV_ACTS
	VXORPS X0, X0, X0

block:
	AHEAD136
	VMOVDQU     (R8), Y6
	VPERMD      Z6, Z28, Z7
	VPERMD      Z6, Z29, Z8
	VPBROADCASTD (R10), X2
	VPXORD      8(SI), Z31, Z4
	VPXORD      72(SI), Z31, Z5
	VPDPBUSD    Z7, Z4, Z2
	VPDPBUSD    Z8, Z5, Z2
	FINISH_VNNI((R9))
	GEMV_NEXT(136)
	DECQ        CX
	JNZ         block

	VMOVUPS X0, (DI)
	ADDQ    $16, DI
	DECQ    BX
	JNZ     group
	VZEROUPPER
	RET

// Two steps, one a lane: |w| times x with the sign of w, in 16-bit pairs.
#define AVX2(p, acc) \
	VMOVDQU      (8+32*p)(SI), Y4 \
	VPBROADCASTQ (8*p)(R8), Y5    \
	VPSHUFB      Y13, Y5, Y5      \
	VPABSB       Y4, Y6           \
	VPSIGNB      Y4, Y5, Y5       \
	VPMADDUBSW   Y5, Y6, Y6       \
	VPMADDWD     Y14, Y6, Y6      \
	VPADDD       Y6, acc, acc

// func gemvQ8x4AVX2(dst *float32, w *byte, groups, nb int, q *int8, d *float32, bias *int32, ahead int)
//
// As gemvQ8x4VNNI with two lanes a register; bias is not read.
//
// X0 result; Y2, Y3 integer sums; Y13 repeats dword 0 in the low lane, dword 1 in
// the high one; Y14 ones.
// A 16-bit pair is at most 2*128*127 = 32512 < 2^15, a sum 32*128*127 < 2^19.
TEXT ·gemvQ8x4AVX2(SB), NOSPLIT, $0-64
	GEMV_ARGS
	VPCMPEQW Y14, Y14, Y14
	VPSRLW   $15, Y14, Y14
	VMOVDQU  ·spread2(SB), Y13

group:
	GEMV_ACTS
	VXORPS X0, X0, X0

block:
	AHEAD136
	VPXOR        Y2, Y2, Y2
	VPXOR        Y3, Y3, Y3
	AVX2(0, Y2)
	AVX2(1, Y3)
	AVX2(2, Y2)
	AVX2(3, Y3)
	VPADDD       Y3, Y2, Y2
	FINISH_AVX2
	GEMV_NEXT(136)
	DECQ         CX
	JNZ          block

	VMOVUPS X0, (DI)
	ADDQ    $16, DI
	DECQ    BX
	JNZ     group
	VZEROUPPER
	RET
