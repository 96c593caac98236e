// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"
#include "neon_arm64.h"

// Products of up to four rows at a time with 16 columns: their sums stay in
// registers while all k pass, four at a time, then one by one. With more rows the
// columns are read again for every four.

#define CLEAR(a, b, c, d) \
	VEOR a.B16, a.B16, a.B16; \
	VEOR b.B16, b.B16, b.B16; \
	VEOR c.B16, c.B16, c.B16; \
	VEOR d.B16, d.B16, d.B16

// A row's value i of a times the columns, V16-V19 or V20-V23.
#define MUL(c0, c1, c2, c3, a, i) \
	FMLAE(c0, 16, a, i); \
	FMLAE(c1, 17, a, i); \
	FMLAE(c2, 18, a, i); \
	FMLAE(c3, 19, a, i)

#define MUL2(c0, c1, c2, c3, a, i) \
	FMLAE(c0, 20, a, i); \
	FMLAE(c1, 21, a, i); \
	FMLAE(c2, 22, a, i); \
	FMLAE(c3, 23, a, i)

// The columns at k, and R2 on to the next.
#define COLUMNS \
	FLDPQ (R2), (F16, F17); \
	FLDPQ 32(R2), (F18, F19); \
	ADD   R5, R2

#define COLUMNS2 \
	FLDPQ (R2), (F20, F21); \
	FLDPQ 32(R2), (F22, F23); \
	ADD   R5, R2

// func attnProductNEON(c, a, b *float32, ldc, lda, step, rows, k int, add bool)
//
// attnProduct for a group of columns; ldc, lda and step in bytes.
//
// R0 c  R1 a  R2 b  R3 ldc  R4 lda  R5 step  R6 rows left  R7 k left
// R8-R11 rows of a  R12 scratch
// V0-V15 sums, a row in four   V16-V23 columns   V24-V27 a
TEXT ·attnProductNEON(SB), NOSPLIT, $0-65
#include "attn_rows_arm64.h"

// In binary16.
#undef COLUMNS
#define COLUMNS \
	FLDPQ (R2), (F28, F29); \
	ADD   R5, R2; \
	FCVTL(16, 28); \
	FCVTL2(17, 28); \
	FCVTL(18, 29); \
	FCVTL2(19, 29)

#undef COLUMNS2
#define COLUMNS2 \
	FLDPQ (R2), (F30, F31); \
	ADD   R5, R2; \
	FCVTL(20, 30); \
	FCVTL2(21, 30); \
	FCVTL(22, 31); \
	FCVTL2(23, 31)

// func attnProductF16NEON(c, a *float32, b *uint16, ldc, lda, step, rows, k int, add bool)
//
// As attnProductNEON, with b in binary16: V28-V31.
TEXT ·attnProductF16NEON(SB), NOSPLIT, $0-65
#include "attn_rows_arm64.h"
