// SPDX-License-Identifier: Apache-2.0

// The body of the kernels of attn_arm64.s, which differ in COLUMNS and COLUMNS2
// alone.

	MOVD c+0(FP), R0
	MOVD a+8(FP), R1
	MOVD ldc+24(FP), R3
	MOVD lda+32(FP), R4
	MOVD step+40(FP), R5
	MOVD rows+48(FP), R6

rows4:
	CMP  $4, R6
	BLT  rows3
	MOVD b+16(FP), R2
	MOVD k+56(FP), R7
	MOVD R1, R8
	ADD  R4, R8, R9
	ADD  R4, R9, R10
	ADD  R4, R10, R11
	CLEAR(V0, V1, V2, V3)
	CLEAR(V4, V5, V6, V7)
	CLEAR(V8, V9, V10, V11)
	CLEAR(V12, V13, V14, V15)
	MOVBU add+64(FP), R12
	CBZ  R12, start4
	MOVD R0, R12
	FLDPQ (R12), (F0, F1)
	FLDPQ 32(R12), (F2, F3)
	ADD  R3, R12
	FLDPQ (R12), (F4, F5)
	FLDPQ 32(R12), (F6, F7)
	ADD  R3, R12
	FLDPQ (R12), (F8, F9)
	FLDPQ 32(R12), (F10, F11)
	ADD  R3, R12
	FLDPQ (R12), (F12, F13)
	FLDPQ 32(R12), (F14, F15)

start4:
	SUBS $4, R7
	BLT  rest4

by44:
	FMOVQ.P 16(R8), F24
	FMOVQ.P 16(R9), F25
	FMOVQ.P 16(R10), F26
	FMOVQ.P 16(R11), F27
	COLUMNS
	MUL(0, 1, 2, 3, 24, 0)
	MUL(4, 5, 6, 7, 25, 0)
	MUL(8, 9, 10, 11, 26, 0)
	MUL(12, 13, 14, 15, 27, 0)
	COLUMNS2
	MUL2(0, 1, 2, 3, 24, 1)
	MUL2(4, 5, 6, 7, 25, 1)
	MUL2(8, 9, 10, 11, 26, 1)
	MUL2(12, 13, 14, 15, 27, 1)
	COLUMNS
	MUL(0, 1, 2, 3, 24, 2)
	MUL(4, 5, 6, 7, 25, 2)
	MUL(8, 9, 10, 11, 26, 2)
	MUL(12, 13, 14, 15, 27, 2)
	COLUMNS2
	MUL2(0, 1, 2, 3, 24, 3)
	MUL2(4, 5, 6, 7, 25, 3)
	MUL2(8, 9, 10, 11, 26, 3)
	MUL2(12, 13, 14, 15, 27, 3)
	SUBS $4, R7
	BGE  by44

rest4:
	ADDS $4, R7
	BEQ  store4

single4:
	FMOVS.P 4(R8), F24
	FMOVS.P 4(R9), F25
	FMOVS.P 4(R10), F26
	FMOVS.P 4(R11), F27
	COLUMNS
	MUL(0, 1, 2, 3, 24, 0)
	MUL(4, 5, 6, 7, 25, 0)
	MUL(8, 9, 10, 11, 26, 0)
	MUL(12, 13, 14, 15, 27, 0)
	SUBS $1, R7
	BNE  single4

store4:
	FSTPQ (F0, F1), (R0)
	FSTPQ (F2, F3), 32(R0)
	ADD  R3, R0
	FSTPQ (F4, F5), (R0)
	FSTPQ (F6, F7), 32(R0)
	ADD  R3, R0
	FSTPQ (F8, F9), (R0)
	FSTPQ (F10, F11), 32(R0)
	ADD  R3, R0
	FSTPQ (F12, F13), (R0)
	FSTPQ (F14, F15), 32(R0)
	ADD  R3, R0
	ADD  R4<<2, R1
	SUB  $4, R6
	B    rows4

rows3:
	CMP  $3, R6
	BLT  rows2
	MOVD b+16(FP), R2
	MOVD k+56(FP), R7
	MOVD R1, R8
	ADD  R4, R8, R9
	ADD  R4, R9, R10
	CLEAR(V0, V1, V2, V3)
	CLEAR(V4, V5, V6, V7)
	CLEAR(V8, V9, V10, V11)
	MOVBU add+64(FP), R12
	CBZ  R12, start3
	MOVD R0, R12
	FLDPQ (R12), (F0, F1)
	FLDPQ 32(R12), (F2, F3)
	ADD  R3, R12
	FLDPQ (R12), (F4, F5)
	FLDPQ 32(R12), (F6, F7)
	ADD  R3, R12
	FLDPQ (R12), (F8, F9)
	FLDPQ 32(R12), (F10, F11)

start3:
	SUBS $4, R7
	BLT  rest3

by43:
	FMOVQ.P 16(R8), F24
	FMOVQ.P 16(R9), F25
	FMOVQ.P 16(R10), F26
	COLUMNS
	MUL(0, 1, 2, 3, 24, 0)
	MUL(4, 5, 6, 7, 25, 0)
	MUL(8, 9, 10, 11, 26, 0)
	COLUMNS2
	MUL2(0, 1, 2, 3, 24, 1)
	MUL2(4, 5, 6, 7, 25, 1)
	MUL2(8, 9, 10, 11, 26, 1)
	COLUMNS
	MUL(0, 1, 2, 3, 24, 2)
	MUL(4, 5, 6, 7, 25, 2)
	MUL(8, 9, 10, 11, 26, 2)
	COLUMNS2
	MUL2(0, 1, 2, 3, 24, 3)
	MUL2(4, 5, 6, 7, 25, 3)
	MUL2(8, 9, 10, 11, 26, 3)
	SUBS $4, R7
	BGE  by43

rest3:
	ADDS $4, R7
	BEQ  store3

single3:
	FMOVS.P 4(R8), F24
	FMOVS.P 4(R9), F25
	FMOVS.P 4(R10), F26
	COLUMNS
	MUL(0, 1, 2, 3, 24, 0)
	MUL(4, 5, 6, 7, 25, 0)
	MUL(8, 9, 10, 11, 26, 0)
	SUBS $1, R7
	BNE  single3

store3:
	FSTPQ (F0, F1), (R0)
	FSTPQ (F2, F3), 32(R0)
	ADD  R3, R0
	FSTPQ (F4, F5), (R0)
	FSTPQ (F6, F7), 32(R0)
	ADD  R3, R0
	FSTPQ (F8, F9), (R0)
	FSTPQ (F10, F11), 32(R0)
	ADD  R3, R0
	RET

rows2:
	CMP  $2, R6
	BLT  rows1
	MOVD b+16(FP), R2
	MOVD k+56(FP), R7
	MOVD R1, R8
	ADD  R4, R8, R9
	CLEAR(V0, V1, V2, V3)
	CLEAR(V4, V5, V6, V7)
	MOVBU add+64(FP), R12
	CBZ  R12, start2
	MOVD R0, R12
	FLDPQ (R12), (F0, F1)
	FLDPQ 32(R12), (F2, F3)
	ADD  R3, R12
	FLDPQ (R12), (F4, F5)
	FLDPQ 32(R12), (F6, F7)

start2:
	SUBS $4, R7
	BLT  rest2

by42:
	FMOVQ.P 16(R8), F24
	FMOVQ.P 16(R9), F25
	COLUMNS
	MUL(0, 1, 2, 3, 24, 0)
	MUL(4, 5, 6, 7, 25, 0)
	COLUMNS2
	MUL2(0, 1, 2, 3, 24, 1)
	MUL2(4, 5, 6, 7, 25, 1)
	COLUMNS
	MUL(0, 1, 2, 3, 24, 2)
	MUL(4, 5, 6, 7, 25, 2)
	COLUMNS2
	MUL2(0, 1, 2, 3, 24, 3)
	MUL2(4, 5, 6, 7, 25, 3)
	SUBS $4, R7
	BGE  by42

rest2:
	ADDS $4, R7
	BEQ  store2

single2:
	FMOVS.P 4(R8), F24
	FMOVS.P 4(R9), F25
	COLUMNS
	MUL(0, 1, 2, 3, 24, 0)
	MUL(4, 5, 6, 7, 25, 0)
	SUBS $1, R7
	BNE  single2

store2:
	FSTPQ (F0, F1), (R0)
	FSTPQ (F2, F3), 32(R0)
	ADD  R3, R0
	FSTPQ (F4, F5), (R0)
	FSTPQ (F6, F7), 32(R0)
	ADD  R3, R0
	RET

rows1:
	CMP  $1, R6
	BLT  done
	MOVD b+16(FP), R2
	MOVD k+56(FP), R7
	MOVD R1, R8
	CLEAR(V0, V1, V2, V3)
	MOVBU add+64(FP), R12
	CBZ  R12, start1
	MOVD R0, R12
	FLDPQ (R12), (F0, F1)
	FLDPQ 32(R12), (F2, F3)

start1:
	SUBS $4, R7
	BLT  rest1

by41:
	FMOVQ.P 16(R8), F24
	COLUMNS
	MUL(0, 1, 2, 3, 24, 0)
	COLUMNS2
	MUL2(0, 1, 2, 3, 24, 1)
	COLUMNS
	MUL(0, 1, 2, 3, 24, 2)
	COLUMNS2
	MUL2(0, 1, 2, 3, 24, 3)
	SUBS $4, R7
	BGE  by41

rest1:
	ADDS $4, R7
	BEQ  store1

single1:
	FMOVS.P 4(R8), F24
	COLUMNS
	MUL(0, 1, 2, 3, 24, 0)
	SUBS $1, R7
	BNE  single1

store1:
	FSTPQ (F0, F1), (R0)
	FSTPQ (F2, F3), 32(R0)
	ADD  R3, R0
	RET

done:
	RET
