// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"
#include "attn_amd64.h"

// Products of a few rows at a time: their sums stay in registers while all k
// pass. A row of sums is z0-z3, 64 columns; one value of each row of a is spread
// over x and multiplied by the columns of b in Z24-Z27. With more rows than six,
// the columns are read again for every six.

// Rows of c, of a, and the first of k.
#define BEGIN \
	MOVQ b+16(FP), SI        \
	MOVQ k+64(FP), CX        \
	LEAQ (R8)(DX*2), R9      \
	ADDQ DX, R9              \
	MOVQ DI, AX

#define BEGIN_AHEAD \
	MOVQ b+16(FP), SI        \
	MOVQ ahead+80(FP), R15   \
	ADDQ SI, R15             \
	MOVQ k+64(FP), CX        \
	LEAQ (R8)(DX*2), R9      \
	ADDQ DX, R9              \
	MOVQ DI, AX

#define ARGS \
	MOVQ step+40(FP), R10  \
	MOVQ next+48(FP), R11  \
	LEAQ (R11)(R11*2), R12 \
	MOVQ rows+56(FP), BX

#define FRESH(begun) \
	CMPB add+72(FP), $0 \
	JEQ  begun

#define BLOCK
#define AGAIN(block)

// The 64 columns of b at k, and SI on to the next.
#define COLUMNS4 \
	VMOVUPS (SI), Z24        \
	VMOVUPS (SI)(R11*1), Z25 \
	VMOVUPS (SI)(R11*2), Z26 \
	VMOVUPS (SI)(R12*1), Z27 \
	ADDQ    R10, SI

// func attnProduct4AVX512(c, a, b *float32, ldc, lda, step, next, rows, k int, add bool)
//
// attnProduct for 4 groups of columns; ldc, lda, step and next in bytes.
//
//	DI c   R8 a   R9 its row 3   SI b   AX a row of c, or how far a has come
//	CX k left   BX rows left   R13 ldc   DX lda   R10 step   R11, R12 next, 3*next
//	Z0-Z23 sums   Z24-Z27 columns   Z28, Z29 a
TEXT ·attnProduct4AVX512(SB), NOSPLIT, $0-73
#include "attn_rows_amd64.h"

// In binary16.
#undef BEGIN
#define BEGIN BEGIN_AHEAD

#undef COLUMNS4
#define COLUMNS4 \
	VCVTPH2PS (SI), Z24         \
	VCVTPH2PS (SI)(R11*1), Z25  \
	VCVTPH2PS (SI)(R11*2), Z26  \
	VCVTPH2PS (SI)(R12*1), Z27  \
	PREFETCHT1 (R15)            \
	PREFETCHT1 64(R15)          \
	ADDQ      $128, R15         \
	ADDQ      R10, SI

// func attnProduct4F16AVX512(c, a *float32, b *uint16, ldc, lda, step, next, rows, k int, add bool, ahead int)
//
// As attnProduct4AVX512, with b in binary16; 128 bytes a step, from ahead bytes
// after b on, are fetched to the second cache.
//
//	R15 what to fetch
TEXT ·attnProduct4F16AVX512(SB), NOSPLIT, $0-88
#include "attn_rows_amd64.h"
