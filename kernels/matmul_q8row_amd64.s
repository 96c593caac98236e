// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"
#include "matmul_amd64.h"

// Block i of a row: eight partial sums of four columns each.
#define VNNI(i, acc) \
	VPXORD   (2+34*i)(SI), Y31, Y8 \
	VPXOR    acc, acc, acc         \
	VPDPBUSD (32*i)(R8), Y8, acc

// func gemvQ8RowVNNI(dst *float32, w *byte, groups, nb int, q *int8, d *float32, bias *int32, ahead int)
//
// dst[g] = row g times the token, as MatMul defines it, for groups >= 1 rows of
// nb >= 1 blocks of 34 bytes.
//
// Eight blocks of a row at a time, then the rest one by one.
//
// X13 result; Y0-Y7 partial sums; Y31 0x80 bytes.
// s = sum((w+128)*x) - 128*sum(x): |s| <= 32*255*127 + 128*32*127 < 2^21.
TEXT ·gemvQ8RowVNNI(SB), NOSPLIT, $0-64
	GEMV_ARGS
	MOVL         $0x80808080, AX
	VPBROADCASTD AX, Y31

row:
	GEMV_ACTS
	VXORPS X13, X13, X13
	SUBQ   $8, CX
	JLT    rest

blocks:
	AHEAD272
	VNNI(0, Y0)
	VNNI(1, Y1)
	VNNI(2, Y2)
	VNNI(3, Y3)
	VNNI(4, Y4)
	VNNI(5, Y5)
	VNNI(6, Y6)
	VNNI(7, Y7)
	ROW8(34)
	VPADDD (R10), Y0, Y0
	ROW8_ADD
	ADDQ   $272, SI
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
	VPADDD X2, X0, X0
	ROW1_ADD
	GEMV_NEXT(34)
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
	VMOVDQU    (2+34*i)(SI), Y8 \
	VMOVDQU    (32*i)(R8), Y9   \
	VPABSB     Y8, acc          \
	VPSIGNB    Y8, Y9, Y9       \
	VPMADDUBSW Y9, acc, acc     \
	VPMADDWD   Y14, acc, acc

// func gemvQ8RowAVX2(dst *float32, w *byte, groups, nb int, q *int8, d *float32, bias *int32, ahead int)
//
// As gemvQ8RowVNNI; bias is not read.
//
// X13 result; Y0-Y7 partial sums; Y14 ones.
// A 16-bit pair is at most 2*128*127 = 32512 < 2^15, a sum 32*128*127 < 2^19.
TEXT ·gemvQ8RowAVX2(SB), NOSPLIT, $0-64
	GEMV_ARGS
	VPCMPEQW Y14, Y14, Y14
	VPSRLW   $15, Y14, Y14

row:
	GEMV_ACTS
	VXORPS X13, X13, X13
	SUBQ   $8, CX
	JLT    rest

blocks:
	AHEAD272
	AVX2(0, Y0)
	AVX2(1, Y1)
	AVX2(2, Y2)
	AVX2(3, Y3)
	AVX2(4, Y4)
	AVX2(5, Y5)
	AVX2(6, Y6)
	AVX2(7, Y7)
	ROW8(34)
	ROW8_ADD
	ADDQ   $272, SI
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
	ROW1_ADD
	GEMV_NEXT(34)
	DECQ CX
	JNZ  last

done:
	VMOVSS X13, (DI)
	ADDQ   $4, DI
	DECQ   BX
	JNZ    row
	VZEROUPPER
	RET
