// SPDX-License-Identifier: Apache-2.0

// The body of the kernels of attn_avx2_amd64.s for 16 columns, which differ in
// COLUMNS1 alone.

	MOVQ c+0(FP), DI
	MOVQ a+8(FP), R8
	MOVQ ldc+24(FP), R13
	MOVQ lda+32(FP), DX
	MOVQ step+40(FP), R10
	MOVQ rows+48(FP), BX

rows6:
	CMPQ BX, $6
	JLT  rows3
	BEGIN1
	ZERO1(Y0, Y1)
	ZERO1(Y2, Y3)
	ZERO1(Y4, Y5)
	ZERO1(Y6, Y7)
	ZERO1(Y8, Y9)
	ZERO1(Y10, Y11)
	CMPB add+64(FP), $0
	JEQ  start6
	LOAD1(Y0, Y1)
	LOAD1(Y2, Y3)
	LOAD1(Y4, Y5)
	LOAD1(Y6, Y7)
	LOAD1(Y8, Y9)
	LOAD1(Y10, Y11)

start6:
	MOVQ R8, AX

loop6:
	COLUMNS1
	MUL1((AX), Y14, Y0, Y1)
	MUL1((AX)(DX*1), Y15, Y2, Y3)
	MUL1((AX)(DX*2), Y14, Y4, Y5)
	MUL1((R9), Y15, Y6, Y7)
	MUL1((R9)(DX*1), Y14, Y8, Y9)
	MUL1((R9)(DX*2), Y15, Y10, Y11)
	ADDQ $4, AX
	ADDQ $4, R9
	DECQ CX
	JNZ  loop6

	MOVQ DI, AX
	STORE1(Y0, Y1)
	STORE1(Y2, Y3)
	STORE1(Y4, Y5)
	STORE1(Y6, Y7)
	STORE1(Y8, Y9)
	STORE1(Y10, Y11)
	MOVQ AX, DI
	LEAQ (DX)(DX*2), AX
	LEAQ (R8)(AX*2), R8
	SUBQ $6, BX
	JMP  rows6

rows3:
	CMPQ BX, $3
	JLT  rows2
	BEGIN1
	ZERO1(Y0, Y1)
	ZERO1(Y2, Y3)
	ZERO1(Y4, Y5)
	CMPB add+64(FP), $0
	JEQ  start3
	LOAD1(Y0, Y1)
	LOAD1(Y2, Y3)
	LOAD1(Y4, Y5)

start3:
	MOVQ R8, AX

loop3:
	COLUMNS1
	MUL1((AX), Y14, Y0, Y1)
	MUL1((AX)(DX*1), Y15, Y2, Y3)
	MUL1((AX)(DX*2), Y14, Y4, Y5)
	ADDQ $4, AX
	DECQ CX
	JNZ  loop3

	MOVQ DI, AX
	STORE1(Y0, Y1)
	STORE1(Y2, Y3)
	STORE1(Y4, Y5)
	MOVQ AX, DI
	LEAQ (R8)(DX*2), R8
	ADDQ DX, R8
	SUBQ $3, BX

rows2:
	CMPQ BX, $2
	JLT  rows1
	BEGIN1
	ZERO1(Y0, Y1)
	ZERO1(Y2, Y3)
	CMPB add+64(FP), $0
	JEQ  start2
	LOAD1(Y0, Y1)
	LOAD1(Y2, Y3)

start2:
	MOVQ R8, AX

loop2:
	COLUMNS1
	MUL1((AX), Y14, Y0, Y1)
	MUL1((AX)(DX*1), Y15, Y2, Y3)
	ADDQ $4, AX
	DECQ CX
	JNZ  loop2

	MOVQ DI, AX
	STORE1(Y0, Y1)
	STORE1(Y2, Y3)
	JMP  done

rows1:
	TESTQ BX, BX
	JZ    done
	BEGIN1
	ZERO1(Y0, Y1)
	CMPB  add+64(FP), $0
	JEQ   start1
	LOAD1(Y0, Y1)

start1:
	MOVQ R8, AX

loop1:
	COLUMNS1
	MUL1((AX), Y14, Y0, Y1)
	ADDQ $4, AX
	DECQ CX
	JNZ  loop1

	MOVQ DI, AX
	STORE1(Y0, Y1)

done:
	VZEROUPPER
	RET
