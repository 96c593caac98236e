// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"

// The tile of a product with several tokens: 16 rows of a weight panel by 8 or
// 4 tokens of packed activations; gemm_amd64.go draws both.
//
//	func gemm8VNNI(dst *float32, ldd int, panel *byte, q *int8, d *float32, bias *int32, nb int, first bool)
//	func gemm4VNNI(dst *float32, ldd int, panel *byte, q *int8, d *float32, bias *int32, nb int, first bool)
//
// dst[t*ldd+m] = row m times token t over nb >= 1 blocks, t < 8 or 4, as MatMul
// defines it; continued from dst unless first. The panel holds codes plus 128, bias -128 times the sum of
// the token's codes.
//
//	SI panel   R8 q   R9 d   R10 bias   CX blocks left
//	DI dst   BX ldd in bytes   DX 3*BX   AX scratch
//	Z0-Z7 results   Z22-Z29 integer sums   Z16 codes   Z17 row scales
//	Z18-Z21 products of scales
//
// s = sum((w+128)*x) - 128*sum(x): |s| <= 32*255*127 + 128*32*127 < 2^21.

#define ARGS \
	MOVQ dst+0(FP), DI    \
	MOVQ ldd+8(FP), BX    \
	SHLQ $2, BX           \
	LEAQ (BX)(BX*2), DX   \
	MOVQ panel+16(FP), SI \
	MOVQ q+24(FP), R8     \
	MOVQ d+32(FP), R9     \
	MOVQ bias+40(FP), R10 \
	MOVQ nb+48(FP), CX

#define STEP4(k, t, s0, s1, s2, s3) \
	VPDPBUSD.BCST (32*t+0+4*k)(R8), Z16, s0  \
	VPDPBUSD.BCST (32*t+32+4*k)(R8), Z16, s1 \
	VPDPBUSD.BCST (32*t+64+4*k)(R8), Z16, s2 \
	VPDPBUSD.BCST (32*t+96+4*k)(R8), Z16, s3

#define BIAS4(t, s0, s1, s2, s3) \
	VPBROADCASTD (4*t+0)(R10), s0  \
	VPBROADCASTD (4*t+4)(R10), s1  \
	VPBROADCASTD (4*t+8)(R10), s2  \
	VPBROADCASTD (4*t+12)(R10), s3

#define SCALE4(t, s0, s1, s2, s3, a0, a1, a2, a3) \
	VMULPS.BCST (4*t+0)(R9), Z17, Z18  \
	VMULPS.BCST (4*t+4)(R9), Z17, Z19  \
	VMULPS.BCST (4*t+8)(R9), Z17, Z20  \
	VMULPS.BCST (4*t+12)(R9), Z17, Z21 \
	VCVTDQ2PS   s0, s0                 \
	VCVTDQ2PS   s1, s1                 \
	VCVTDQ2PS   s2, s2                 \
	VCVTDQ2PS   s3, s3                 \
	VMULPS      Z18, s0, s0            \
	VMULPS      Z19, s1, s1            \
	VMULPS      Z20, s2, s2            \
	VMULPS      Z21, s3, s3            \
	VADDPS      s0, a0, a0             \
	VADDPS      s1, a1, a1             \
	VADDPS      s2, a2, a2             \
	VADDPS      s3, a3, a3

#define LOAD4(a0, a1, a2, a3) \
	VMOVUPS (AX), a0       \
	VMOVUPS (AX)(BX*1), a1 \
	VMOVUPS (AX)(BX*2), a2 \
	VMOVUPS (AX)(DX*1), a3

// The results of the next tile are fetched while this one is worked on.
#define PREFETCH4 \
	PREFETCHT0 (AX)       \
	PREFETCHT0 (AX)(BX*1) \
	PREFETCHT0 (AX)(BX*2) \
	PREFETCHT0 (AX)(DX*1)

#define ZERO4(a0, a1, a2, a3) \
	VPXORD a0, a0, a0 \
	VPXORD a1, a1, a1 \
	VPXORD a2, a2, a2 \
	VPXORD a3, a3, a3

#define STORE4(a0, a1, a2, a3) \
	VMOVUPS a0, (AX)       \
	VMOVUPS a1, (AX)(BX*1) \
	VMOVUPS a2, (AX)(BX*2) \
	VMOVUPS a3, (AX)(DX*1)

#define STEP8(k) \
	VMOVDQU32 (64*k)(SI), Z16       \
	STEP4(k, 0, Z22, Z23, Z24, Z25) \
	STEP4(k, 4, Z26, Z27, Z28, Z29)

#define NEXT \
	ADDQ $576, SI \
	ADDQ $256, R8 \
	ADDQ $32, R9  \
	ADDQ $32, R10

TEXT ·gemm8VNNI(SB), NOSPLIT, $0-57
	ARGS
	ZERO4(Z0, Z1, Z2, Z3)
	ZERO4(Z4, Z5, Z6, Z7)
	CMPB first+56(FP), $0
	JNE  block
	MOVQ DI, AX
	LOAD4(Z0, Z1, Z2, Z3)
	LEAQ (DI)(BX*4), AX
	LOAD4(Z4, Z5, Z6, Z7)
	LEAQ (DI)(BX*8), AX
	PREFETCH4
	LEAQ (AX)(BX*4), AX
	PREFETCH4

block:
	BIAS4(0, Z22, Z23, Z24, Z25)
	BIAS4(4, Z26, Z27, Z28, Z29)
	STEP8(0)
	STEP8(1)
	STEP8(2)
	STEP8(3)
	STEP8(4)
	STEP8(5)
	STEP8(6)
	STEP8(7)
	VMOVUPS 512(SI), Z17
	SCALE4(0, Z22, Z23, Z24, Z25, Z0, Z1, Z2, Z3)
	SCALE4(4, Z26, Z27, Z28, Z29, Z4, Z5, Z6, Z7)
	NEXT
	DECQ CX
	JNZ  block

	MOVQ DI, AX
	STORE4(Z0, Z1, Z2, Z3)
	LEAQ (DI)(BX*4), AX
	STORE4(Z4, Z5, Z6, Z7)
	VZEROUPPER
	RET

#define STEP(k) \
	VMOVDQU32 (64*k)(SI), Z16       \
	STEP4(k, 0, Z22, Z23, Z24, Z25)

TEXT ·gemm4VNNI(SB), NOSPLIT, $0-57
	ARGS
	ZERO4(Z0, Z1, Z2, Z3)
	CMPB first+56(FP), $0
	JNE  block
	MOVQ DI, AX
	LOAD4(Z0, Z1, Z2, Z3)

block:
	BIAS4(0, Z22, Z23, Z24, Z25)
	STEP(0)
	STEP(1)
	STEP(2)
	STEP(3)
	STEP(4)
	STEP(5)
	STEP(6)
	STEP(7)
	VMOVUPS 512(SI), Z17
	SCALE4(0, Z22, Z23, Z24, Z25, Z0, Z1, Z2, Z3)
	NEXT
	DECQ CX
	JNZ  block

	MOVQ DI, AX
	STORE4(Z0, Z1, Z2, Z3)
	VZEROUPPER
	RET
