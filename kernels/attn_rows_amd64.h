// SPDX-License-Identifier: Apache-2.0

// The body of the kernels with 64 columns. They differ in ARGS (step and rows, and
// what else there is), in BEGIN, in FRESH, which leaves out reading sums where they
// begin at zero, in COLUMNS4, and in BLOCK and AGAIN, which set how many k the loop
// after them is for and go back for the rest.

	MOVQ c+0(FP), DI
	MOVQ a+8(FP), R8
	MOVQ ldc+24(FP), R13
	MOVQ lda+32(FP), DX
	ARGS

rows6:
	CMPQ BX, $6
	JLT  rows4
	BEGIN
	ZERO4(Z0, Z1, Z2, Z3)
	ZERO4(Z4, Z5, Z6, Z7)
	ZERO4(Z8, Z9, Z10, Z11)
	ZERO4(Z12, Z13, Z14, Z15)
	ZERO4(Z16, Z17, Z18, Z19)
	ZERO4(Z20, Z21, Z22, Z23)
	FRESH(start6)
	LOAD4(Z0, Z1, Z2, Z3)
	LOAD4(Z4, Z5, Z6, Z7)
	LOAD4(Z8, Z9, Z10, Z11)
	LOAD4(Z12, Z13, Z14, Z15)
	LOAD4(Z16, Z17, Z18, Z19)
	LOAD4(Z20, Z21, Z22, Z23)

start6:
	MOVQ R8, AX

block6:
	BLOCK

loop6:
	COLUMNS4
	MUL4((AX), Z28, Z0, Z1, Z2, Z3)
	MUL4((AX)(DX*1), Z29, Z4, Z5, Z6, Z7)
	MUL4((AX)(DX*2), Z28, Z8, Z9, Z10, Z11)
	MUL4((R9), Z29, Z12, Z13, Z14, Z15)
	MUL4((R9)(DX*1), Z28, Z16, Z17, Z18, Z19)
	MUL4((R9)(DX*2), Z29, Z20, Z21, Z22, Z23)
	ADDQ $4, AX
	ADDQ $4, R9
	DECQ CX
	JNZ  loop6
	AGAIN(block6)

	MOVQ DI, AX
	STORE4(Z0, Z1, Z2, Z3)
	STORE4(Z4, Z5, Z6, Z7)
	STORE4(Z8, Z9, Z10, Z11)
	STORE4(Z12, Z13, Z14, Z15)
	STORE4(Z16, Z17, Z18, Z19)
	STORE4(Z20, Z21, Z22, Z23)
	MOVQ AX, DI
	LEAQ (DX)(DX*2), AX
	LEAQ (R8)(AX*2), R8
	SUBQ $6, BX
	JMP  rows6

rows4:
	CMPQ BX, $4
	JLT  rows3
	BEGIN
	ZERO4(Z0, Z1, Z2, Z3)
	ZERO4(Z4, Z5, Z6, Z7)
	ZERO4(Z8, Z9, Z10, Z11)
	ZERO4(Z12, Z13, Z14, Z15)
	FRESH(start4)
	LOAD4(Z0, Z1, Z2, Z3)
	LOAD4(Z4, Z5, Z6, Z7)
	LOAD4(Z8, Z9, Z10, Z11)
	LOAD4(Z12, Z13, Z14, Z15)

start4:
	MOVQ R8, AX

block4:
	BLOCK

loop4:
	COLUMNS4
	MUL4((AX), Z28, Z0, Z1, Z2, Z3)
	MUL4((AX)(DX*1), Z29, Z4, Z5, Z6, Z7)
	MUL4((AX)(DX*2), Z28, Z8, Z9, Z10, Z11)
	MUL4((R9), Z29, Z12, Z13, Z14, Z15)
	ADDQ $4, AX
	ADDQ $4, R9
	DECQ CX
	JNZ  loop4
	AGAIN(block4)

	MOVQ DI, AX
	STORE4(Z0, Z1, Z2, Z3)
	STORE4(Z4, Z5, Z6, Z7)
	STORE4(Z8, Z9, Z10, Z11)
	STORE4(Z12, Z13, Z14, Z15)
	MOVQ AX, DI
	LEAQ (R8)(DX*4), R8
	SUBQ $4, BX

rows3:
	CMPQ BX, $3
	JLT  rows2
	BEGIN
	ZERO4(Z0, Z1, Z2, Z3)
	ZERO4(Z4, Z5, Z6, Z7)
	ZERO4(Z8, Z9, Z10, Z11)
	FRESH(start3)
	LOAD4(Z0, Z1, Z2, Z3)
	LOAD4(Z4, Z5, Z6, Z7)
	LOAD4(Z8, Z9, Z10, Z11)

start3:
	MOVQ R8, AX

block3:
	BLOCK

loop3:
	COLUMNS4
	MUL4((AX), Z28, Z0, Z1, Z2, Z3)
	MUL4((AX)(DX*1), Z29, Z4, Z5, Z6, Z7)
	MUL4((AX)(DX*2), Z28, Z8, Z9, Z10, Z11)
	ADDQ $4, AX
	DECQ CX
	JNZ  loop3
	AGAIN(block3)

	MOVQ DI, AX
	STORE4(Z0, Z1, Z2, Z3)
	STORE4(Z4, Z5, Z6, Z7)
	STORE4(Z8, Z9, Z10, Z11)
	JMP  done // no row is left

rows2:
	CMPQ BX, $2
	JLT  rows1
	BEGIN
	ZERO4(Z0, Z1, Z2, Z3)
	ZERO4(Z4, Z5, Z6, Z7)
	FRESH(start2)
	LOAD4(Z0, Z1, Z2, Z3)
	LOAD4(Z4, Z5, Z6, Z7)

start2:
	MOVQ R8, AX

block2:
	BLOCK

loop2:
	COLUMNS4
	MUL4((AX), Z28, Z0, Z1, Z2, Z3)
	MUL4((AX)(DX*1), Z29, Z4, Z5, Z6, Z7)
	ADDQ $4, AX
	DECQ CX
	JNZ  loop2
	AGAIN(block2)

	MOVQ DI, AX
	STORE4(Z0, Z1, Z2, Z3)
	STORE4(Z4, Z5, Z6, Z7)
	JMP  done

rows1:
	TESTQ BX, BX
	JZ    done
	BEGIN
	ZERO4(Z0, Z1, Z2, Z3)
	FRESH(start1)
	LOAD4(Z0, Z1, Z2, Z3)

start1:
	MOVQ R8, AX

block1:
	BLOCK

loop1:
	COLUMNS4
	MUL4((AX), Z28, Z0, Z1, Z2, Z3)
	ADDQ $4, AX
	DECQ CX
	JNZ  loop1
	AGAIN(block1)

	MOVQ DI, AX
	STORE4(Z0, Z1, Z2, Z3)

done:
	VZEROUPPER
	RET
