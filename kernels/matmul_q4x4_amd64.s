// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"
#include "matmul_amd64.h"

// func gemvQ4x4VNNI(dst *float32, w *byte, groups, nb int, q *int8, d *float32, sum *int32)
//
// dst[4*g+m] = row m of group g times the token, as MatMul defines it, for
// groups >= 1 groups of nb >= 1 group-blocks of 72 bytes.
//
// A register holds four steps of four columns, a 128-bit lane each: the low
// nibbles columns 0-15, the high ones 16-31. The flip of its sign bit makes a
// nibble n unsigned, n+8. VPERMD spreads the activations like the codes; the
// lanes are added after the block.
//
// X0 result; Z2 integer sums; Z26 0x08 bytes; Z27 0x0f bytes; Z28, Z29 spread of
// columns 0-15 and 16-31; X30 0.
// s = sum((n+8)*x) - 8*sum(x): |s| <= 32*15*127 + 8*32*127 < 2^17.
TEXT ·gemvQ4x4VNNI(SB), NOSPLIT, $0-56
	GEMV_ARGS
	MOVL         $0x08080808, AX
	VPBROADCASTD AX, Z26
	MOVL         $0x0f0f0f0f, AX
	VPBROADCASTD AX, Z27
	VPXORD       X30, X30, X30
	VMOVDQU32    ·spread+0(SB), Z28
	VMOVDQU32    ·spread+64(SB), Z29

group:
	GEMV_ACTS
	VXORPS X0, X0, X0

block:
	VMOVDQU     (R8), Y6
	VPERMD      Z6, Z28, Z7
	VPERMD      Z6, Z29, Z8
	VPSLLD.BCST $3, (R10), X2
	VPSUBD      X2, X30, X2
	VMOVDQU32   8(SI), Z4
	VPSRLW      $4, Z4, Z5
	VPTERNLOGD  $0x48, Z26, Z27, Z4 // (w ^ 8) & 15
	VPTERNLOGD  $0x48, Z26, Z27, Z5
	VPDPBUSD    Z7, Z4, Z2
	VPDPBUSD    Z8, Z5, Z2
	FINISH_VNNI
	GEMV_NEXT(72)
	DECQ        CX
	JNZ         block

	VMOVUPS X0, (DI)
	ADDQ    $16, DI
	DECQ    BX
	JNZ     group
	VZEROUPPER
	RET

// Two steps, one a lane, of the low and two of the high nibbles, in 16-bit pairs.
#define AVX2(p, lo, hi) \
	VPXOR        (8+32*p)(SI), Y11, Y4 \
	VPBROADCASTQ (8*p)(R8), Y5         \
	VPBROADCASTQ (16+8*p)(R8), Y6      \
	VPSRLW       $4, Y4, hi            \
	VPAND        Y12, Y4, lo           \
	VPAND        Y12, hi, hi           \
	VPSHUFB      Y13, Y5, Y5           \
	VPSHUFB      Y13, Y6, Y6           \
	VPMADDUBSW   Y5, lo, lo            \
	VPMADDUBSW   Y6, hi, hi            \
	VPADDW       hi, lo, lo

// func gemvQ4x4AVX2(dst *float32, w *byte, groups, nb int, q *int8, d *float32, sum *int32)
//
// As gemvQ4x4VNNI with two lanes a register.
//
// X0 result; Y2 pair sums, then integer sums; Y11 0x88 bytes; Y12 0x0f bytes; Y13
// repeats dword 0 in the low lane, dword 1 in the high one; Y14 ones.
// Four 16-bit pairs are at most 4*2*15*127 = 15240 < 2^15; s as there.
TEXT ·gemvQ4x4AVX2(SB), NOSPLIT, $0-56
	GEMV_ARGS
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
	VXORPS X0, X0, X0

block:
	AVX2(0, Y2, Y7)
	AVX2(1, Y3, Y8)
	VPADDW       Y3, Y2, Y2
	VPMADDWD     Y14, Y2, Y2
	VPBROADCASTD (R10), X3
	VPSLLD       $3, X3, X3
	VPSUBD       Y3, Y2, Y2
	FINISH_AVX2
	GEMV_NEXT(72)
	DECQ         CX
	JNZ          block

	VMOVUPS X0, (DI)
	ADDQ    $16, DI
	DECQ    BX
	JNZ     group
	VZEROUPPER
	RET
