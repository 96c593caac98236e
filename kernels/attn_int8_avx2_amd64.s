// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"
#include "attn_avx2_amd64.h"

// Products as in attn_avx2_amd64.h in int8. Two times eight columns are in Y12 and
// Y13, their scales float32 at R12; Y14 is a value of a row of a. What is fetched is
// from ahead bytes after b on.

#define SIXTEEN(at, mul0, mul1) \
	VPMOVSXBD at(SI), Y12    \
	VPMOVSXBD at+8(SI), Y13  \
	VCVTDQ2PS Y12, Y12       \
	VCVTDQ2PS Y13, Y13       \
	VMULPS    mul0, Y12, Y12 \
	VMULPS    mul1, Y13, Y13

#define ROW(a, y0, y1) \
	VBROADCASTSS a, Y14       \
	VFMADD231PS  Y12, Y14, y0 \
	VFMADD231PS  Y13, Y14, y1

#define ROWS1 \
	ONE               \
	ROW((R8), Y0, Y1) \
	TWO               \
	ROW((R8), Y2, Y3) \
	NEXT2

#define ROWS2 \
	ONE                     \
	ROW((R8), Y0, Y1)       \
	ROW((R8)(DX*1), Y4, Y5) \
	TWO                     \
	ROW((R8), Y2, Y3)       \
	ROW((R8)(DX*1), Y6, Y7) \
	NEXT2

#define ROWS3 \
	ONE                       \
	ROW((R8), Y0, Y1)         \
	ROW((R8)(DX*1), Y4, Y5)   \
	ROW((R8)(DX*2), Y8, Y9)   \
	TWO                       \
	ROW((R8), Y2, Y3)         \
	ROW((R8)(DX*1), Y6, Y7)   \
	ROW((R8)(DX*2), Y10, Y11) \
	NEXT2

#define BEGIN \
	MOVQ c+0(FP), AX       \
	MOVQ a+8(FP), R8       \
	MOVQ b+16(FP), SI      \
	MOVQ ldc+24(FP), R13   \
	MOVQ lda+32(FP), DX    \
	ZERO_ROWS2

#define ONE SIXTEEN(0, (R12), 32(R12))
#define TWO SIXTEEN(16, 64(R12), 96(R12))

// func attnKeysInt8AVX2(c, a *float32, b *byte, ldc, lda, rows, k int, scales *float32, ahead int)
//
// attnProduct for keys of 32 positions of 64 in int8, b [k][64] and scales
// [ceil(k/32)][64], and 1 to 3 rows.
//
//	AX c   R8 a   SI b   R12 scales   CX k left of 32, R9 after them   BX rows
//	R13 ldc   DX lda   R10 64   R15 what to fetch
TEXT ·attnKeysInt8AVX2(SB), NOSPLIT, $0-72
	BEGIN
	MOVQ rows+40(FP), BX
	MOVQ k+48(FP), R9
	MOVQ scales+56(FP), R12
	MOVQ ahead+64(FP), R15
	ADDQ SI, R15
	MOVL $64, R10
	MOVL $32, R11

block:
	MOVQ    R9, CX
	CMPQ    CX, R11
	CMOVQGT R11, CX
	SUBQ    CX, R9
	CMPQ    BX, $2
	JLT     loop1
	JEQ     loop2

loop3:
	ROWS3
	JNZ loop3
	JMP next

loop2:
	ROWS2
	JNZ loop2
	JMP next

loop1:
	ROWS1
	JNZ loop1

next:
	ADDQ  $256, R12
	TESTQ R9, R9
	JNZ   block
	STORE_ROWS2

// A position has one scale for the columns, in Y15; R11 goes on to the next.
#undef ONE
#undef TWO
#define ONE \
	VBROADCASTSS (R12), Y15 \
	ADDQ         R11, R12   \
	SIXTEEN(0, Y15, Y15)
#define TWO SIXTEEN(16, Y15, Y15)

// func attnValuesInt8AVX2(c, a *float32, b *byte, ldc, lda, step, rows, k int, add bool, scales *float32, next, ahead int)
//
// attnProduct for 32 columns of values in int8 and 1 to 3 rows; next is from the
// scale of a position to that of the next.
//
//	As attnKeysInt8AVX2, but CX k left   R10 step   R11 next
TEXT ·attnValuesInt8AVX2(SB), NOSPLIT, $0-96
	BEGIN
	MOVQ step+40(FP), R10
	MOVQ rows+48(FP), BX
	MOVQ k+56(FP), CX
	MOVQ scales+72(FP), R12
	MOVQ next+80(FP), R11
	MOVQ ahead+88(FP), R15
	ADDQ SI, R15
	CMPB add+64(FP), $0
	JEQ  start
	LOAD_ROWS2

start:
	MOVQ c+0(FP), AX
	CMPQ BX, $2
	JLT  loop1
	JEQ  loop2

loop3:
	ROWS3
	JNZ loop3
	JMP store

loop2:
	ROWS2
	JNZ loop2
	JMP store

loop1:
	ROWS1
	JNZ loop1

store:
	STORE_ROWS2
