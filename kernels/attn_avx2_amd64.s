// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"
#include "attn_avx2_amd64.h"

// As attn_amd64.s, with 16 columns in Y12, Y13 and a row of sums in y0, y1.

#define MUL1(a, x, y0, y1) \
	VBROADCASTSS a, x      \
	VFMADD231PS  Y12, x, y0 \
	VFMADD231PS  Y13, x, y1

#define ZERO1(y0, y1) \
	VXORPS y0, y0, y0 \
	VXORPS y1, y1, y1

#define LOAD1(y0, y1) \
	VMOVUPS 0(AX), y0  \
	VMOVUPS 32(AX), y1 \
	ADDQ    R13, AX

#define STORE1(y0, y1) \
	VMOVUPS y0, 0(AX)  \
	VMOVUPS y1, 32(AX) \
	ADDQ    R13, AX

#define COLUMNS1 \
	VMOVUPS (SI), Y12   \
	VMOVUPS 32(SI), Y13 \
	ADDQ    R10, SI

#define BEGIN1 \
	MOVQ b+16(FP), SI   \
	MOVQ k+56(FP), CX   \
	LEAQ (R8)(DX*2), R9 \
	ADDQ DX, R9         \
	MOVQ DI, AX

// func attnProduct1AVX2(c, a, b *float32, ldc, lda, step, rows, k int, add bool)
//
// attnProduct for one group of columns; ldc, lda and step in bytes.
//
//	Registers as in attnProduct4AVX512, but Y0-Y11 sums   Y12, Y13 columns   Y14, Y15 a
TEXT ·attnProduct1AVX2(SB), NOSPLIT, $0-65
#include "attn_rows_avx2_amd64.h"

#undef COLUMNS1
#define COLUMNS1 \
	VCVTPH2PS (SI), Y12   \
	VCVTPH2PS 16(SI), Y13 \
	ADDQ      R10, SI

// func attnProduct1F16AVX2(c, a *float32, b *uint16, ldc, lda, step, rows, k int, add bool)
//
// As attnProduct1AVX2, with b in binary16.
TEXT ·attnProduct1F16AVX2(SB), NOSPLIT, $0-65
#include "attn_rows_avx2_amd64.h"

// In binary16, 32 columns: a row of sums is y0-y3, and a group of eight columns
// is converted to Y12 when all rows take it. One value of each row of a is in
// Y13-Y15.
#define EIGHT(b, y0, y1, y2) \
	VCVTPH2PS   b, Y12      \
	VFMADD231PS Y12, Y13, y0 \
	VFMADD231PS Y12, Y14, y1 \
	VFMADD231PS Y12, Y15, y2

// func attnProduct2F16AVX2(c, a *float32, b *uint16, ldc, lda, step, next, rows, k int, add bool, ahead int)
//
// attnProduct for 2 groups of columns in binary16 and 1 to 3 rows; ldc, lda, step
// and next in bytes. 64 bytes a step, from ahead bytes after b on, are fetched to
// the second cache.
//
//	AX c   R8 a   SI b   CX k left   BX rows   R13 ldc   DX lda   R10 step   R11 next
//	R15 what to fetch
TEXT ·attnProduct2F16AVX2(SB), NOSPLIT, $0-88
	MOVQ c+0(FP), AX
	MOVQ a+8(FP), R8
	MOVQ b+16(FP), SI
	MOVQ ldc+24(FP), R13
	MOVQ lda+32(FP), DX
	MOVQ step+40(FP), R10
	MOVQ next+48(FP), R11
	MOVQ rows+56(FP), BX
	MOVQ k+64(FP), CX
	MOVQ ahead+80(FP), R15
	ADDQ SI, R15
	ZERO_ROWS2
	CMPB add+72(FP), $0
	JEQ  start
	LOAD_ROWS2

start:
	CMPQ BX, $2
	JLT  loop1
	JEQ  loop2

loop3:
	VBROADCASTSS (R8), Y13
	VBROADCASTSS (R8)(DX*1), Y14
	VBROADCASTSS (R8)(DX*2), Y15
	EIGHT((SI), Y0, Y4, Y8)
	EIGHT(16(SI), Y1, Y5, Y9)
	EIGHT((SI)(R11*1), Y2, Y6, Y10)
	EIGHT(16(SI)(R11*1), Y3, Y7, Y11)
	NEXT2
	JNZ          loop3
	JMP          store

loop2:
	VBROADCASTSS (R8), Y13
	VBROADCASTSS (R8)(DX*1), Y14
	VCVTPH2PS    (SI), Y8
	VCVTPH2PS    16(SI), Y9
	VCVTPH2PS    (SI)(R11*1), Y10
	VCVTPH2PS    16(SI)(R11*1), Y11
	VFMADD231PS  Y8, Y13, Y0
	VFMADD231PS  Y9, Y13, Y1
	VFMADD231PS  Y10, Y13, Y2
	VFMADD231PS  Y11, Y13, Y3
	VFMADD231PS  Y8, Y14, Y4
	VFMADD231PS  Y9, Y14, Y5
	VFMADD231PS  Y10, Y14, Y6
	VFMADD231PS  Y11, Y14, Y7
	NEXT2
	JNZ          loop2
	JMP          store

loop1:
	VBROADCASTSS (R8), Y13
	VCVTPH2PS    (SI), Y8
	VCVTPH2PS    16(SI), Y9
	VCVTPH2PS    (SI)(R11*1), Y10
	VCVTPH2PS    16(SI)(R11*1), Y11
	VFMADD231PS  Y8, Y13, Y0
	VFMADD231PS  Y9, Y13, Y1
	VFMADD231PS  Y10, Y13, Y2
	VFMADD231PS  Y11, Y13, Y3
	NEXT2
	JNZ          loop1

store:
	MOVQ c+0(FP), AX
	STORE_ROWS2
