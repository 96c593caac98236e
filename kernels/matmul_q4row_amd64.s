// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"
#include "matmul_amd64.h"

// Block i of a row: eight partial sums of four columns each.
#define VNNI(i, acc) \
	VMOVDQU     (2+18*i)(SI), X8    \
	VPXOR       acc, acc, acc       \
	VPSRLW      $4, X8, X9          \
	VINSERTI128 $1, X9, Y8, Y8      \
	VPAND       Y12, Y8, Y8         \
	VPDPBUSD    (32*i)(R8), Y8, acc

// func gemvQ4RowVNNI(dst *float32, w *byte, groups, nb int, q *int8, d *float32, bias *int32, ahead int)
//
// dst[g] = row g times the token, as MatMul defines it, for groups >= 1 rows of
// nb >= 1 blocks of 18 bytes.
//
// Eight blocks of a row at a time, then the rest one by one. Codes are 0 to 15
// for -8 to 7.
//
// X13 result; Y0-Y7 partial sums; Y12 0x0f bytes.
// s = sum((n+8)*x) - 8*sum(x): |s| <= 32*15*127 + 8*32*127 < 2^17.
TEXT ·gemvQ4RowVNNI(SB), NOSPLIT, $0-64
	GEMV_ARGS
	MOVL         $0x0f0f0f0f, AX
	VMOVD        AX, X12
	VPBROADCASTD X12, Y12

row:
	GEMV_ACTS
	VXORPS X13, X13, X13
	SUBQ   $8, CX
	JLT    rest

blocks:
	AHEAD136
	VNNI(0, Y0)
	VNNI(1, Y1)
	VNNI(2, Y2)
	VNNI(3, Y3)
	VNNI(4, Y4)
	VNNI(5, Y5)
	VNNI(6, Y6)
	VNNI(7, Y7)
	ROW8(18)
	VMOVDQU (R10), Y2
	VPSRAD  $4, Y2, Y2
	VPADDD  Y2, Y0, Y0
	ROW8_ADD
	ADDQ   $144, SI
	ADDQ   $256, R8
	ADDQ   $32, R9
	ADDQ   $32, R10
	SUBQ   $8, CX
	JGE    blocks

rest:
	ADDQ $8, CX
	JZ   done

last:
	VNNI(0, Y0)
	ROW1
	VMOVD  (R10), X2
	VPSRAD $4, X2, X2
	VPADDD X2, X0, X0
	ROW1_ADD
	GEMV_NEXT(18)
	DECQ CX
	JNZ  last

done:
	VMOVSS X13, (DI)
	ADDQ   $4, DI
	DECQ   BX
	JNZ    row
	VZEROUPPER
	RET

#define AVX2(i, acc) \
	VMOVDQU     (2+18*i)(SI), X8   \
	VPSRLW      $4, X8, X9         \
	VINSERTI128 $1, X9, Y8, Y8     \
	VPAND       Y12, Y8, Y8        \
	VPMADDUBSW  (32*i)(R8), Y8, Y8 \
	VPMADDWD    Y14, Y8, acc

// func gemvQ4RowAVX2(dst *float32, w *byte, groups, nb int, q *int8, d *float32, bias *int32, ahead int)
//
// As gemvQ4RowVNNI.
//
// X13 result; Y0-Y7 partial sums; Y12 0x0f bytes; Y14 ones.
// A 16-bit pair is at most 2*15*127 = 3810 < 2^15; s as there.
TEXT ·gemvQ4RowAVX2(SB), NOSPLIT, $0-64
	GEMV_ARGS
	MOVL         $0x0f0f0f0f, AX
	VMOVD        AX, X12
	VPBROADCASTD X12, Y12
	VPCMPEQW     Y14, Y14, Y14
	VPSRLW       $15, Y14, Y14

row:
	GEMV_ACTS
	VXORPS X13, X13, X13
	SUBQ   $8, CX
	JLT    rest

blocks:
	AHEAD136
	AVX2(0, Y0)
	AVX2(1, Y1)
	AVX2(2, Y2)
	AVX2(3, Y3)
	AVX2(4, Y4)
	AVX2(5, Y5)
	AVX2(6, Y6)
	AVX2(7, Y7)
	ROW8(18)
	VMOVDQU (R10), Y2
	VPSRAD  $4, Y2, Y2
	VPADDD  Y2, Y0, Y0
	ROW8_ADD
	ADDQ   $144, SI
	ADDQ   $256, R8
	ADDQ   $32, R9
	ADDQ   $32, R10
	SUBQ   $8, CX
	JGE    blocks

rest:
	ADDQ $8, CX
	JZ   done

last:
	AVX2(0, Y0)
	ROW1
	VMOVD  (R10), X2
	VPSRAD $4, X2, X2
	VPADDD X2, X0, X0
	ROW1_ADD
	GEMV_NEXT(18)
	DECQ CX
	JNZ  last

done:
	VMOVSS X13, (DI)
	ADDQ   $4, DI
	DECQ   BX
	JNZ    row
	VZEROUPPER
	RET
