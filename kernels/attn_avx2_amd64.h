// SPDX-License-Identifier: Apache-2.0

// What the products of attention with 32 columns and one to three rows share: a
// row of sums is four registers, Y0-Y3 that of the first.
//
//	AX a row of c, R13 bytes to the next   BX rows   SI b, R10 bytes a step   R8 a
//	CX steps left   R15 what to fetch to the second cache, 64 bytes a step

#define ZERO2(y0, y1, y2, y3) \
	VXORPS y0, y0, y0 \
	VXORPS y1, y1, y1 \
	VXORPS y2, y2, y2 \
	VXORPS y3, y3, y3

#define LOAD2(y0, y1, y2, y3) \
	VMOVUPS 0(AX), y0  \
	VMOVUPS 32(AX), y1 \
	VMOVUPS 64(AX), y2 \
	VMOVUPS 96(AX), y3 \
	ADDQ    R13, AX

#define STORE2(y0, y1, y2, y3) \
	VMOVUPS y0, 0(AX)  \
	VMOVUPS y1, 32(AX) \
	VMOVUPS y2, 64(AX) \
	VMOVUPS y3, 96(AX) \
	ADDQ    R13, AX

#define ZERO_ROWS2 \
	ZERO2(Y0, Y1, Y2, Y3) \
	ZERO2(Y4, Y5, Y6, Y7) \
	ZERO2(Y8, Y9, Y10, Y11)

// The rows that there are; then it goes on at start.
#define LOAD_ROWS2 \
	LOAD2(Y0, Y1, Y2, Y3) \
	CMPQ BX, $2           \
	JLT  start            \
	LOAD2(Y4, Y5, Y6, Y7) \
	CMPQ BX, $2           \
	JEQ  start            \
	LOAD2(Y8, Y9, Y10, Y11)

// The same, and the end of the function.
#define STORE_ROWS2 \
	STORE2(Y0, Y1, Y2, Y3)   \
	CMPQ BX, $2              \
	JLT  done                \
	STORE2(Y4, Y5, Y6, Y7)   \
	CMPQ BX, $2              \
	JEQ  done                \
	STORE2(Y8, Y9, Y10, Y11) \
done:                        \
	VZEROUPPER               \
	RET

#define NEXT2 \
	PREFETCHT1 (R15)    \
	ADDQ       $64, R15 \
	ADDQ       R10, SI  \
	ADDQ       $4, R8   \
	DECQ       CX
