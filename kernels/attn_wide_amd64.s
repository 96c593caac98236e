// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"

// As attn_amd64.s, with 128 columns and up to three rows: values of such a width
// are read from the first byte to the last, which memory gives twice as fast as
// half of each and then the other half. COLUMN gives 16 columns, at their byte in
// binary16, byte in int8 and scale.

#define COLUMN(half, code, scale, z) \
	VCVTPH2PS half(SI), z

#define NEXT \
	PREFETCHT1 (R11)    \
	PREFETCHT1 64(R11)  \
	PREFETCHT1 128(R11) \
	PREFETCHT1 192(R11) \
	ADDQ $256, R11      \
	ADDQ R10, SI        \
	ADDQ $4, R8         \
	DECQ CX

#define ARGS \
	MOVQ rows+48(FP), BX   \
	MOVQ k+56(FP), CX      \
	MOVQ ahead+72(FP), R11 \
	ADDQ SI, R11

// In int8 R12 is at the scales, and R11 goes on to those of the next position.
#define INT8_COLUMN(code, scale, z) \
	VPMOVSXBD   code(SI), z      \
	VCVTDQ2PS   z, z             \
	VMULPS.BCST scale(R12), z, z

#define INT8_NEXT \
	PREFETCHT1 (R15)   \
	PREFETCHT1 64(R15) \
	ADDQ $128, R15     \
	ADDQ R11, R12      \
	ADDQ R10, SI       \
	ADDQ $4, R8        \
	DECQ CX

#define INT8_ARGS \
	MOVQ rows+48(FP), BX    \
	MOVQ k+56(FP), CX       \
	MOVQ scales+72(FP), R12 \
	MOVQ next+80(FP), R11   \
	MOVQ ahead+88(FP), R15  \
	ADDQ SI, R15

// func attnProduct8F16AVX512(c, a *float32, b *uint16, ldc, lda, step, rows, k int, add bool, ahead int)
//
// attnProduct for 8 groups of columns in binary16, side by side, and 1 to 3 rows;
// ldc, lda and step in bytes. 256 bytes a step, from ahead bytes after b on, are
// fetched to the second cache.
//
//	AX c   R8 a   SI b   CX k left   BX rows   R13 ldc   DX lda   R10 step   R11 what to fetch
//	Z0-Z23 sums, a row in eight   Z24-Z27 columns   Z29-Z31 a
TEXT ·attnProduct8F16AVX512(SB), NOSPLIT, $0-80
#include "attn_wide_rows_amd64.h"

#undef COLUMN
#undef NEXT
#undef ARGS
#define COLUMN(half, code, scale, z) INT8_COLUMN(code, scale, z)
#define NEXT INT8_NEXT
#define ARGS INT8_ARGS

// func attnValuesInt8x8AVX512(c, a *float32, b *byte, ldc, lda, step, rows, k int, add bool, scales *float32, next, ahead int)
//
// As attnProduct8F16AVX512 with values in int8; next is from the scales of a
// position, at R12, to those of the next. 128 bytes a step, from ahead bytes after
// b on, are fetched to the second cache.
TEXT ·attnValuesInt8x8AVX512(SB), NOSPLIT, $0-96
#include "attn_wide_rows_amd64.h"
