// SPDX-License-Identifier: Apache-2.0

// What the one-token kernels share:
//
//	func gemv…(dst *float32, w *byte, groups, nb int, q *int8, d *float32, bias *int32, ahead int)
//
// They walk the weights in memory order, one row group after the other: a
// second stream of addresses costs more bandwidth than sharing the activations
// saves. Weights are prefetched ahead bytes before their turn, if ahead is not 0.
//
//	DI dst   SI weights   BX groups left   DX nb   CX blocks left
//	R8 codes of the activations   R9 their scales
//	R10 bias: -128 times the sum of their codes   R11 ahead

#define GEMV_ARGS \
	MOVQ dst+0(FP), DI     \
	MOVQ w+8(FP), SI       \
	MOVQ groups+16(FP), BX \
	MOVQ nb+24(FP), DX     \
	MOVQ ahead+56(FP), R11

#define GEMV_ACTS \
	MOVQ q+32(FP), R8     \
	MOVQ d+40(FP), R9     \
	MOVQ bias+48(FP), R10 \
	MOVQ DX, CX

// AHEADn fetches the lines of the n bytes that come up.
#define AHEAD72 \
	TESTQ      R11, R11      \
	JZ         fetched       \
	PREFETCHT0 (SI)(R11*1)   \
	PREFETCHT0 64(SI)(R11*1) \
fetched:

#define AHEAD136 \
	TESTQ      R11, R11       \
	JZ         fetched        \
	PREFETCHT0 (SI)(R11*1)    \
	PREFETCHT0 64(SI)(R11*1)  \
	PREFETCHT0 128(SI)(R11*1) \
fetched:

#define AHEAD272 \
	TESTQ      R11, R11       \
	JZ         fetched        \
	PREFETCHT0 (SI)(R11*1)    \
	PREFETCHT0 64(SI)(R11*1)  \
	PREFETCHT0 128(SI)(R11*1) \
	PREFETCHT0 192(SI)(R11*1) \
	PREFETCHT0 256(SI)(R11*1) \
fetched:

#define GEMV_NEXT(bytes) \
	ADDQ $bytes, SI \
	ADDQ $32, R8    \
	ADDQ $4, R9     \
	ADDQ $4, R10

// ROW8 ends eight blocks of one row of size bytes each: Y0-Y7 hold eight partial
// integer sums of blocks 0 to 7. Leaves the eight sums in Y0, the products of
// the scales in Y1. Uses Y0-Y9.
#define ROW8(size) \
	PAIR(Y0, Y1)                        \
	PAIR(Y2, Y3)                        \
	PAIR(Y4, Y5)                        \
	PAIR(Y6, Y7)                        \
	QUAD(Y0, Y2)                        \
	QUAD(Y4, Y6)                        \
	VPERM2I128 $0x20, Y4, Y0, Y8        \
	VPERM2I128 $0x31, Y4, Y0, Y9        \
	VPADDD     Y9, Y8, Y0               \
	VMOVD      (SI), X1                 \
	VPINSRW    $1, (1*size)(SI), X1, X1 \
	VPINSRW    $2, (2*size)(SI), X1, X1 \
	VPINSRW    $3, (3*size)(SI), X1, X1 \
	VPINSRW    $4, (4*size)(SI), X1, X1 \
	VPINSRW    $5, (5*size)(SI), X1, X1 \
	VPINSRW    $6, (6*size)(SI), X1, X1 \
	VPINSRW    $7, (7*size)(SI), X1, X1 \
	VCVTPH2PS  X1, Y1                   \
	VMULPS     (R9), Y1, Y1

// ROW8_ADD then adds the eight products to X13, blocks ascending.
#define ROW8_ADD \
	VCVTDQ2PS    Y0, Y0       \
	VMULPS       Y1, Y0, Y0   \
	VEXTRACTF128 $1, Y0, X4   \
	VADDSS       X0, X13, X13 \
	VMOVSHDUP    X0, X1       \
	VPERMILPS    $2, X0, X2   \
	VPERMILPS    $3, X0, X3   \
	VADDSS       X1, X13, X13 \
	VADDSS       X2, X13, X13 \
	VADDSS       X3, X13, X13 \
	VMOVSHDUP    X4, X5       \
	VPERMILPS    $2, X4, X6   \
	VPERMILPS    $3, X4, X7   \
	VADDSS       X4, X13, X13 \
	VADDSS       X5, X13, X13 \
	VADDSS       X6, X13, X13 \
	VADDSS       X7, X13, X13

#define PAIR(a, b) \
	VPUNPCKLDQ b, a, Y8  \
	VPUNPCKHDQ b, a, Y9  \
	VPADDD     Y9, Y8, a

#define QUAD(a, b) \
	VPUNPCKLQDQ b, a, Y8  \
	VPUNPCKHQDQ b, a, Y9  \
	VPADDD      Y9, Y8, a

// ROW1 ends one block of a row: Y0 holds its eight partial sums. Leaves the
// sum in X0 and the product of the scales in X1.
#define ROW1 \
	VEXTRACTI128 $1, Y0, X1   \
	VPADDD       X1, X0, X0   \
	VPSHUFD      $14, X0, X1  \
	VPADDD       X1, X0, X0   \
	VPSHUFD      $1, X0, X1   \
	VPADDD       X1, X0, X0   \
	MOVWLZX      (SI), AX     \
	VMOVD        AX, X1       \
	VCVTPH2PS    X1, X1       \
	VMULSS       (R9), X1, X1

#define ROW1_ADD \
	VCVTDQ2PS X0, X0       \
	VMULSS    X1, X0, X0   \
	VADDSS    X0, X13, X13

// The end of a block of four rows: adds the lanes of the integer sums in Z2,
// scales by those at (SI) and by the activations' at d, adds to X0.
#define FINISH_VNNI(d) \
	VCVTPH2PS     (SI), X9   \
	VMULPS.BCST   d, X9, X9  \
	VEXTRACTI64X4 $1, Z2, Y3 \
	VPADDD        Y3, Y2, Y2 \
	VEXTRACTI128  $1, Y2, X3 \
	VPADDD        X3, X2, X2 \
	VCVTDQ2PS     X2, X2     \
	VMULPS        X9, X2, X2 \
	VADDPS        X2, X0, X0

// The same from the two lanes of Y2.
#define FINISH_AVX2 \
	VCVTPH2PS    (SI), X9    \
	VBROADCASTSS (R9), X10   \
	VMULPS       X10, X9, X9 \
	VEXTRACTI128 $1, Y2, X3  \
	VPADDD       X3, X2, X2  \
	VCVTDQ2PS    X2, X2      \
	VMULPS       X9, X2, X2  \
	VADDPS       X2, X0, X0

// Four groups of four rows at a time share the activations: a quarter of the loads
// of these and of the work on them. The first is from the first quarter of all
// groups, the second from the second quarter and so on, so that each of the four
// streams of weights goes through memory without a jump: streams that jump, as
// those of neighbouring groups would, cost half of the bandwidth.
//
//	BX groups of a quarter left   R12 bytes of a quarter of w, R13 of three
//	R14 bytes of a quarter of dst   Y0, Y1 results

#define QUAD_ARGS(size) \
	GEMV_ARGS                \
	SHRQ   $2, BX            \
	MOVQ   BX, R14           \
	SHLQ   $4, R14           \
	IMUL3Q $size, BX, R12    \
	IMULQ  DX, R12           \
	LEAQ   (R12)(R12*2), R13

#define QUAD_AHEAD72 \
	TESTQ      R11, R11          \
	JZ         fetched           \
	LEAQ       (SI)(R11*1), AX   \
	PREFETCHT0 (AX)              \
	PREFETCHT0 64(AX)            \
	PREFETCHT0 (AX)(R12*1)       \
	PREFETCHT0 64(AX)(R12*1)     \
	PREFETCHT0 (AX)(R12*2)       \
	PREFETCHT0 64(AX)(R12*2)     \
	PREFETCHT0 (AX)(R13*1)       \
	PREFETCHT0 64(AX)(R13*1)     \
fetched:

#define QUAD_AHEAD136 \
	TESTQ      R11, R11          \
	JZ         fetched           \
	LEAQ       (SI)(R11*1), AX   \
	PREFETCHT0 (AX)              \
	PREFETCHT0 64(AX)            \
	PREFETCHT0 128(AX)           \
	PREFETCHT0 (AX)(R12*1)       \
	PREFETCHT0 64(AX)(R12*1)     \
	PREFETCHT0 128(AX)(R12*1)    \
	PREFETCHT0 (AX)(R12*2)       \
	PREFETCHT0 64(AX)(R12*2)     \
	PREFETCHT0 128(AX)(R12*2)    \
	PREFETCHT0 (AX)(R13*1)       \
	PREFETCHT0 64(AX)(R13*1)     \
	PREFETCHT0 128(AX)(R13*1)    \
fetched:

#define QUAD_STORE \
	LEAQ         (R14)(R14*2), AX    \
	VMOVUPS      X0, (DI)            \
	VEXTRACTF128 $1, Y0, (DI)(R14*1) \
	VMOVUPS      X1, (DI)(R14*2)     \
	VEXTRACTF128 $1, Y1, (DI)(AX*1)  \
	ADDQ         $16, DI

// (lo ^ 8) & 15 of the low nibbles to lo, of the high ones to hi: codes plus 8.
// Z26 0x08 bytes   Z27 0x0f bytes
#define SPLIT(lo, hi) \
	VPSRLW     $4, lo, hi          \
	VPTERNLOGD $0x48, Z26, Z27, lo \
	VPTERNLOGD $0x48, Z26, Z27, hi

// The same of w.
#define NIBBLES(w, lo, hi) \
	VMOVDQU32 w, lo \
	SPLIT(lo, hi)

// Scales of two groups, at a and b, to y.
#define SCALES(a, b, x, y) \
	VMOVQ     a, x    \
	VMOVHPS   b, x, x \
	VCVTPH2PS x, y

// The lanes of s0 and s1, added, side by side in s0.
#define SUM2(s0, s1, tmp) \
	VPERM2I128 $0x31, s1, s0, tmp \
	VPERM2I128 $0x20, s1, s0, s0  \
	VPADDD     tmp, s0, s0

// The four lanes of z to two, in y.
#define HALVE(z, y, tmp) \
	VEXTRACTI64X4 $1, z, tmp \
	VPADDD        tmp, y, y

// Four groups' integer sums Z2-Z5 to their rows, times the scales of the weights
// and of the activations at d, added to the results. Uses Y9-Y14.
#define QUAD_SUMS(d) \
	SCALES((SI), (SI)(R12*1), X13, Y13)       \
	SCALES((SI)(R12*2), (SI)(R13*1), X14, Y14) \
	VMULPS.BCST d, Y13, Y13 \
	VMULPS.BCST d, Y14, Y14 \
	HALVE(Z2, Y2, Y9)       \
	HALVE(Z3, Y3, Y10)      \
	HALVE(Z4, Y4, Y11)      \
	HALVE(Z5, Y5, Y12)      \
	SUM2(Y2, Y3, Y9)        \
	SUM2(Y4, Y5, Y11)       \
	VCVTDQ2PS   Y2, Y2      \
	VCVTDQ2PS   Y4, Y4      \
	VMULPS      Y13, Y2, Y2 \
	VMULPS      Y14, Y4, Y4 \
	VADDPS      Y2, Y0, Y0  \
	VADDPS      Y4, Y1, Y1
