// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"

// The tile of a product with several tokens: 8 rows of a weight panel by 4
// tokens of packed activations; gemm_amd64.go draws both.
//
//	func gemmQ8AVX2(dst *float32, ldd int, panel *byte, q *int8, d *float32, nb int, first bool)
//	func gemmQ4AVX2(dst *float32, ldd int, panel *byte, q *int8, d *float32, bias *int32, nb int, first bool)
//
// dst[t*ldd+m] = row m times token t over nb >= 1 blocks, t < 4, m < 8, as MatMul
// defines it; continued from dst unless first. The panel holds signed codes (Q8) or codes 0 to 15 (Q4),
// bias -128 times the sum of the token's codes.
//
//	SI panel   R8 q   R9 d   R10 bias   CX blocks left
//	DI dst   BX ldd in bytes   DX 3*BX
//	Y0-Y3 results   Y4-Y7 integer sums   Y14 ones

#define ZERO4 \
	VXORPS Y0, Y0, Y0 \
	VXORPS Y1, Y1, Y1 \
	VXORPS Y2, Y2, Y2 \
	VXORPS Y3, Y3, Y3

#define LOAD4 \
	VMOVUPS (DI), Y0       \
	VMOVUPS (DI)(BX*1), Y1 \
	VMOVUPS (DI)(BX*2), Y2 \
	VMOVUPS (DI)(DX*1), Y3

#define STORE4 \
	VMOVUPS Y0, (DI)       \
	VMOVUPS Y1, (DI)(BX*1) \
	VMOVUPS Y2, (DI)(BX*2) \
	VMOVUPS Y3, (DI)(DX*1)

// Token t: scales in Y8 by the token's, times the sum, added to the result.
#define SCALE(t, s, acc) \
	VBROADCASTSS (4*t)(R9), Y9 \
	VMULPS       Y8, Y9, Y9    \
	VCVTDQ2PS    s, s          \
	VMULPS       Y9, s, s      \
	VADDPS       s, acc, acc

// |w| in Y9 times x with the sign of w, in 16-bit pairs, added.
#define Q8DOT(k, t, s, tmp) \
	VPBROADCASTD (32*t+4*k)(R8), tmp \
	VPSIGNB      Y8, tmp, tmp        \
	VPMADDUBSW   tmp, Y9, tmp        \
	VPMADDWD     Y14, tmp, tmp       \
	VPADDD       tmp, s, s

#define Q8STEP(k) \
	VMOVDQU (64*k)(SI), Y8 \
	VPABSB  Y8, Y9         \
	Q8DOT(k, 0, Y4, Y10)   \
	Q8DOT(k, 1, Y5, Y11)   \
	Q8DOT(k, 2, Y6, Y12)   \
	Q8DOT(k, 3, Y7, Y13)

// A 16-bit pair is at most 2*128*127 = 32512 < 2^15, a sum 32*128*127 < 2^19.
TEXT ·gemmQ8AVX2(SB), NOSPLIT, $0-49
	MOVQ     dst+0(FP), DI
	MOVQ     ldd+8(FP), BX
	SHLQ     $2, BX
	LEAQ     (BX)(BX*2), DX
	MOVQ     panel+16(FP), SI
	MOVQ     q+24(FP), R8
	MOVQ     d+32(FP), R9
	MOVQ     nb+40(FP), CX
	VPCMPEQW Y14, Y14, Y14
	VPSRLW   $15, Y14, Y14
	ZERO4
	CMPB     first+48(FP), $0
	JNE      block
	LOAD4

block:
	VPXOR   Y4, Y4, Y4
	VPXOR   Y5, Y5, Y5
	VPXOR   Y6, Y6, Y6
	VPXOR   Y7, Y7, Y7
	Q8STEP(0)
	Q8STEP(1)
	Q8STEP(2)
	Q8STEP(3)
	Q8STEP(4)
	Q8STEP(5)
	Q8STEP(6)
	Q8STEP(7)
	VMOVUPS 512(SI), Y8
	SCALE(0, Y4, Y0)
	SCALE(1, Y5, Y1)
	SCALE(2, Y6, Y2)
	SCALE(3, Y7, Y3)
	ADDQ    $576, SI
	ADDQ    $256, R8
	ADDQ    $32, R9
	DECQ    CX
	JNZ     block

	STORE4
	VZEROUPPER
	RET

// Codes in Y8 times x, in 16-bit pairs, added to the pairs of earlier steps.
#define Q4DOT(k, t, s, tmp) \
	VPBROADCASTD (32*t+4*k)(R8), tmp \
	VPMADDUBSW   tmp, Y8, tmp        \
	VPADDW       tmp, s, s

#define Q4FIRST(t, s) \
	VPBROADCASTD (32*t)(R8), s \
	VPMADDUBSW   s, Y8, s

#define Q4STEP(k) \
	VMOVDQU (64*k)(SI), Y8 \
	Q4DOT(k, 0, Y4, Y10)   \
	Q4DOT(k, 1, Y5, Y11)   \
	Q4DOT(k, 2, Y6, Y12)   \
	Q4DOT(k, 3, Y7, Y13)

// Pairs to integer sums, less 8 times the sum of the token's codes.
#define Q4SUM(t, s, tmp) \
	VPMADDWD     Y14, s, s       \
	VPBROADCASTD (4*t)(R10), tmp \
	VPSRAD       $4, tmp, tmp    \
	VPADDD       tmp, s, s

// Eight 16-bit pairs are at most 8*2*15*127 = 30480 < 2^15.
// s = sum((n+8)*x) - 8*sum(x): |s| <= 32*15*127 + 8*32*127 < 2^17.
TEXT ·gemmQ4AVX2(SB), NOSPLIT, $0-57
	MOVQ     dst+0(FP), DI
	MOVQ     ldd+8(FP), BX
	SHLQ     $2, BX
	LEAQ     (BX)(BX*2), DX
	MOVQ     panel+16(FP), SI
	MOVQ     q+24(FP), R8
	MOVQ     d+32(FP), R9
	MOVQ     bias+40(FP), R10
	MOVQ     nb+48(FP), CX
	VPCMPEQW Y14, Y14, Y14
	VPSRLW   $15, Y14, Y14
	ZERO4
	CMPB     first+56(FP), $0
	JNE      block
	LOAD4

block:
	VMOVDQU (SI), Y8
	Q4FIRST(0, Y4)
	Q4FIRST(1, Y5)
	Q4FIRST(2, Y6)
	Q4FIRST(3, Y7)
	Q4STEP(1)
	Q4STEP(2)
	Q4STEP(3)
	Q4STEP(4)
	Q4STEP(5)
	Q4STEP(6)
	Q4STEP(7)
	VMOVUPS 512(SI), Y8
	Q4SUM(0, Y4, Y10)
	Q4SUM(1, Y5, Y11)
	Q4SUM(2, Y6, Y12)
	Q4SUM(3, Y7, Y13)
	SCALE(0, Y4, Y0)
	SCALE(1, Y5, Y1)
	SCALE(2, Y6, Y2)
	SCALE(3, Y7, Y3)
	ADDQ    $576, SI
	ADDQ    $256, R8
	ADDQ    $32, R9
	ADDQ    $32, R10
	DECQ    CX
	JNZ     block

	STORE4
	VZEROUPPER
	RET
