// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"
#include "matmul_amd64.h"

// One group-block of 136 bytes at o times x in Z7 and Z8, added to the lanes of acc.
#define VNNI(o, p, acc, a, b) \
	VPXORD   o, Z31, a  \
	VPXORD   p, Z31, b  \
	VPDPBUSD Z7, a, acc \
	VPDPBUSD Z8, b, acc

// func gemvQ8x4QuadVNNI(dst *float32, w *byte, groups, nb int, q *int8, d *float32, bias *int32, ahead int)
//
// As gemvQ8x4VNNI (matmul_q8x4_amd64.s) for groups a multiple of 4: four at a time
// (matmul_amd64.h), for rows so long that the activations of one pass push those
// of the last out of the first cache.
//
//	Z2-Z5 integer sums   Z9-Z12 codes   Z7, Z8 activations   Y13, Y14 scales
//	Z28, Z29 spread of columns 0-15 and 16-31   Z31 0x80 bytes
TEXT ·gemvQ8x4QuadVNNI(SB), NOSPLIT, $0-64
	QUAD_ARGS(136)
	MOVL         $0x80808080, AX
	VPBROADCASTD AX, Z31
	VMOVDQU32    ·spread+0(SB), Z28
	VMOVDQU32    ·spread+64(SB), Z29

group:
	GEMV_ACTS
	VXORPS Y0, Y0, Y0
	VXORPS Y1, Y1, Y1

block:
	QUAD_AHEAD136
	VMOVDQU      (R8), Y6
	VPERMD       Z6, Z28, Z7
	VPERMD       Z6, Z29, Z8
	VPBROADCASTD (R10), X2
	VMOVDQA      X2, X3
	VMOVDQA      X2, X4
	VMOVDQA      X2, X5
	VNNI(8(SI), 72(SI), Z2, Z9, Z10)
	VNNI(8(SI)(R12*1), 72(SI)(R12*1), Z3, Z11, Z12)
	VNNI(8(SI)(R12*2), 72(SI)(R12*2), Z4, Z9, Z10)
	VNNI(8(SI)(R13*1), 72(SI)(R13*1), Z5, Z11, Z12)
	QUAD_SUMS((R9))
	GEMV_NEXT(136)
	DECQ         CX
	JNZ          block

	QUAD_STORE
	DECQ BX
	JNZ  group
	VZEROUPPER
	RET
