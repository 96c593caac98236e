// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"
#include "attn_amd64.h"

// As attn_amd64.s for 64 columns in int8, whose scales are float32 at R12. 64
// bytes a step, from ahead bytes after b on, are fetched to the second cache.

#define CODES \
	VPMOVSXBD (SI), Z24   \
	VPMOVSXBD 16(SI), Z25 \
	VPMOVSXBD 32(SI), Z26 \
	VPMOVSXBD 48(SI), Z27 \
	VCVTDQ2PS Z24, Z24    \
	VCVTDQ2PS Z25, Z25    \
	VCVTDQ2PS Z26, Z26    \
	VCVTDQ2PS Z27, Z27

// Keys: up to four rows, so that Z20-Z23 are free for the scales of 16 positions
// each. Every 32 elements have others; R15 is how many elements come after them.
#define KEYS_COLUMNS \
	PREFETCHT1 (R11)        \
	ADDQ      $64, R11      \
	CODES                   \
	VMULPS    Z20, Z24, Z24 \
	VMULPS    Z21, Z25, Z25 \
	VMULPS    Z22, Z26, Z26 \
	VMULPS    Z23, Z27, Z27 \
	ADDQ      $64, SI

#define KEYS_ARGS \
	MOVQ rows+40(FP), BX \
	MOVL $32, R10

#define KEYS_BEGIN \
	MOVQ b+16(FP), SI       \
	MOVQ k+48(FP), R15      \
	MOVQ scales+56(FP), R12 \
	MOVQ ahead+64(FP), R11  \
	ADDQ SI, R11            \
	LEAQ (R8)(DX*2), R9     \
	ADDQ DX, R9             \
	MOVQ DI, AX

#define KEYS_BLOCK \
	VMOVUPS (R12), Z20    \
	VMOVUPS 64(R12), Z21  \
	VMOVUPS 128(R12), Z22 \
	VMOVUPS 192(R12), Z23 \
	ADDQ    $256, R12     \
	MOVQ    R15, CX       \
	CMPQ    CX, R10       \
	CMOVQGT R10, CX       \
	SUBQ    CX, R15

#define KEYS_AGAIN(block) \
	TESTQ R15, R15 \
	JNZ   block

// Values: a position has two scales, and R11 goes on to those of the next.
#define VALUES_COLUMNS \
	PREFETCHT1  (R15)            \
	ADDQ        $64, R15         \
	CODES                        \
	VMULPS.BCST (R12), Z24, Z24  \
	VMULPS.BCST (R12), Z25, Z25  \
	VMULPS.BCST 4(R12), Z26, Z26 \
	VMULPS.BCST 4(R12), Z27, Z27 \
	ADDQ        R11, R12         \
	ADDQ        R10, SI

#define VALUES_ARGS \
	MOVQ step+40(FP), R10 \
	MOVQ rows+48(FP), BX  \
	MOVQ next+80(FP), R11

#define VALUES_BEGIN \
	MOVQ b+16(FP), SI       \
	MOVQ scales+72(FP), R12 \
	MOVQ ahead+88(FP), R15  \
	ADDQ SI, R15            \
	MOVQ k+56(FP), CX       \
	LEAQ (R8)(DX*2), R9     \
	ADDQ DX, R9             \
	MOVQ DI, AX

#define VALUES_FRESH(begun) \
	CMPB add+64(FP), $0 \
	JEQ  begun

#define COLUMNS4 KEYS_COLUMNS
#define ARGS KEYS_ARGS
#define FRESH(begun) JMP begun
#define BEGIN KEYS_BEGIN
#define BLOCK KEYS_BLOCK
#define AGAIN(block) KEYS_AGAIN(block)

// func attnKeysInt8AVX512(c, a *float32, b *byte, ldc, lda, rows, k int, scales *float32, ahead int)
//
// attnProduct for keys of 64 positions in int8, b [k][64] and scales
// [ceil(k/32)][64], and up to 4 rows.
TEXT ·attnKeysInt8AVX512(SB), NOSPLIT, $0-72
#include "attn_rows_amd64.h"

#undef COLUMNS4
#undef ARGS
#undef FRESH
#undef BEGIN
#undef BLOCK
#undef AGAIN
#define COLUMNS4 VALUES_COLUMNS
#define ARGS VALUES_ARGS
#define FRESH(begun) VALUES_FRESH(begun)
#define BEGIN VALUES_BEGIN
#define BLOCK
#define AGAIN(block)

// func attnValuesInt8AVX512(c, a *float32, b *byte, ldc, lda, step, rows, k int, add bool, scales *float32, next, ahead int)
//
// As attnProduct4AVX512 for 64 columns of values in int8; next is from the scales
// of a position to those of the next.
TEXT ·attnValuesInt8AVX512(SB), NOSPLIT, $0-96
#include "attn_rows_amd64.h"
