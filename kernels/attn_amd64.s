// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"

// Products of a few rows at a time: their sums stay in registers while all k
// pass. A row of sums is z0-z3, 64 columns; one value of each row of a is spread
// over x and multiplied by the columns of b in Z24-Z27. With more rows than six,
// the columns are read again for every six.

#define MUL4(a, x, z0, z1, z2, z3) \
	VBROADCASTSS a, x      \
	VFMADD231PS  Z24, x, z0 \
	VFMADD231PS  Z25, x, z1 \
	VFMADD231PS  Z26, x, z2 \
	VFMADD231PS  Z27, x, z3

#define ZERO4(z0, z1, z2, z3) \
	VPXORD z0, z0, z0 \
	VPXORD z1, z1, z1 \
	VPXORD z2, z2, z2 \
	VPXORD z3, z3, z3

// A row of sums from and to AX, which goes on to the next.
#define LOAD4(z0, z1, z2, z3) \
	VMOVUPS 0(AX), z0   \
	VMOVUPS 64(AX), z1  \
	VMOVUPS 128(AX), z2 \
	VMOVUPS 192(AX), z3 \
	ADDQ    R13, AX

#define STORE4(z0, z1, z2, z3) \
	VMOVUPS z0, 0(AX)   \
	VMOVUPS z1, 64(AX)  \
	VMOVUPS z2, 128(AX) \
	VMOVUPS z3, 192(AX) \
	ADDQ    R13, AX

// Rows of c, of a, and the first of k.
#define BEGIN \
	MOVQ b+16(FP), SI        \
	MOVQ k+64(FP), CX        \
	LEAQ (R8)(DX*2), R9      \
	ADDQ DX, R9              \
	MOVQ DI, AX

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

// In binary16. What comes 4 groups of a head of 128 later is on its way from
// memory meanwhile; it may be beyond the end, where nothing happens.
#undef COLUMNS4
#define COLUMNS4 \
	VCVTPH2PS   (SI), Z24             \
	VCVTPH2PS   (SI)(R11*1), Z25      \
	VCVTPH2PS   (SI)(R11*2), Z26      \
	VCVTPH2PS   (SI)(R12*1), Z27      \
	PREFETCHT0  16384(SI)             \
	PREFETCHT0  16384(SI)(R11*1)      \
	PREFETCHT0  16384(SI)(R11*2)      \
	PREFETCHT0  16384(SI)(R12*1)      \
	ADDQ        R10, SI

// func attnProduct4F16AVX512(c, a *float32, b *uint16, ldc, lda, step, next, rows, k int, add bool)
//
// As attnProduct4AVX512, with b in binary16.
TEXT ·attnProduct4F16AVX512(SB), NOSPLIT, $0-73
#include "attn_rows_amd64.h"

// In int8, for up to five rows, so that Z20-Z23 are free for scales.
#define CODES4(s0, s1, s2, s3) \
	VCVTDQ2PS Z24, Z24     \
	VCVTDQ2PS Z25, Z25     \
	VCVTDQ2PS Z26, Z26     \
	VCVTDQ2PS Z27, Z27     \
	VMULPS    s0, Z24, Z24 \
	VMULPS    s1, Z25, Z25 \
	VMULPS    s2, Z26, Z26 \
	VMULPS    s3, Z27, Z27 \
	ADDQ      R10, SI

#undef COLUMNS4
#define COLUMNS4 \
	VPMOVSXBD  (SI), Z24          \
	VPMOVSXBD  (SI)(R11*1), Z25   \
	VPMOVSXBD  (SI)(R11*2), Z26   \
	VPMOVSXBD  (SI)(R12*1), Z27   \
	PREFETCHT0 8192(SI)           \
	PREFETCHT0 8192(SI)(R11*1)    \
	PREFETCHT0 8192(SI)(R11*2)    \
	PREFETCHT0 8192(SI)(R12*1)    \
	CODES4(Z20, Z21, Z22, Z23)

// func attnKeysInt8AVX512(c, a *float32, b *int8, ldc, lda, step, next, rows, k int, add bool, scales *uint16)
//
// As attnProduct4AVX512 for up to 32 elements of keys in int8; the scales of the
// groups lie next apart too.
TEXT ·attnKeysInt8AVX512(SB), NOSPLIT, $0-88
	MOVQ      scales+80(FP), SI
	MOVQ      next+48(FP), R11
	LEAQ      (R11)(R11*2), R12
	VCVTPH2PS (SI), Z20
	VCVTPH2PS (SI)(R11*1), Z21
	VCVTPH2PS (SI)(R11*2), Z22
	VCVTPH2PS (SI)(R12*1), Z23
#include "attn_rows_amd64.h"

// Here the columns of a position lie together, and R12 comes to the scales of
// the next R11 bytes on.
#undef COLUMNS4
#define COLUMNS4 \
	VPBROADCASTW (R12), Y20  \
	VPBROADCASTW 2(R12), Y21 \
	ADDQ         R11, R12    \
	VCVTPH2PS    Y20, Z20    \
	VCVTPH2PS    Y21, Z21    \
	VPMOVSXBD    (SI), Z24   \
	VPMOVSXBD    16(SI), Z25 \
	VPMOVSXBD    32(SI), Z26 \
	VPMOVSXBD    48(SI), Z27 \
	PREFETCHT0   8192(SI)    \
	CODES4(Z20, Z20, Z21, Z21)

#undef BEGIN
#define BEGIN \
	MOVQ b+16(FP), SI        \
	MOVQ scales+80(FP), R12  \
	MOVQ k+64(FP), CX        \
	LEAQ (R8)(DX*2), R9      \
	ADDQ DX, R9              \
	MOVQ DI, AX

// func attnValuesInt8AVX512(c, a *float32, b *int8, ldc, lda, step, next, rows, k int, add bool, scales *uint16)
//
// As attnProduct4AVX512 for 64 columns of values in int8; next is from the scales
// of a position to those of the next.
TEXT ·attnValuesInt8AVX512(SB), NOSPLIT, $0-88
#include "attn_rows_amd64.h"
