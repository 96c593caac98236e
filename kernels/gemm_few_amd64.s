// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"
#include "matmul_amd64.h"

// The product with so few tokens that packing the weights first would cost more
// than it saves: 16 rows by up to 2, 4, 6 or 8 tokens, straight from the layout.
//
//	func few…(dst *float32, ldd int, w *byte, groups, nb int, q *int8, d *float32, bias *int32, tokens, ahead int)
//
// dst[t*ldd+m] = row m times token t, for t < tokens, as MatMul defines it. groups
// is a multiple of 2 (8x8) or 4 (4x4), nb >= 1. One group is from the first half or
// quarter of all groups, one from the next and so on: streams of weights without a
// jump, as in matmul_amd64.h. Activations are one tile as gemm_amd64.go draws it.
//
//	DI dst   SI weights   BX groups of a stream left   DX nb   CX blocks left
//	R8 q   R9 d   R10 bias   R11 ahead   R12 bytes of a stream, R13 of three
//	Z0-Z7 results by token   Z8-Z15 integer sums   Z16-Z23 codes by step
//	Z24 scales   Z25, Z28-Z31 scratch   Z26, Z27 constants
//
// Bounds as in gemm_vnni_amd64.s.

#define FEW_ARGS(size, streams) \
	MOVQ   dst+0(FP), DI        \
	MOVQ   w+16(FP), SI         \
	MOVQ   groups+24(FP), BX    \
	SHRQ   $streams, BX         \
	MOVQ   nb+32(FP), DX        \
	MOVQ   ahead+72(FP), R11    \
	IMUL3Q $size, BX, R12       \
	IMULQ  DX, R12              \
	LEAQ   (R12)(R12*2), R13

#define FEW_ACTS \
	MOVQ   q+40(FP), R8     \
	MOVQ   d+48(FP), R9     \
	MOVQ   bias+56(FP), R10 \
	MOVQ   DX, CX           \
	VPXORD Z0, Z0, Z0       \
	VPXORD Z1, Z1, Z1       \
	VPXORD Z2, Z2, Z2       \
	VPXORD Z3, Z3, Z3       \
	VPXORD Z4, Z4, Z4       \
	VPXORD Z5, Z5, Z5       \
	VPXORD Z6, Z6, Z6       \
	VPXORD Z7, Z7, Z7

#define FEW_NEXT(size) \
	ADDQ $size, SI \
	ADDQ $256, R8  \
	ADDQ $32, R9   \
	ADDQ $32, R10  \
	DECQ CX

// The first sums of a token: -128 times the sum of its codes, or -8 times.
#define BIAS8(t, s) VPBROADCASTD (4*t)(R10), s
#define BIAS4(t, s) VPSRAD.BCST $4, (4*t)(R10), s

#define INIT2(BIAS) \
	BIAS(0, Z8) \
	BIAS(1, Z9)

#define INIT4(BIAS) \
	INIT2(BIAS)  \
	BIAS(2, Z10) \
	BIAS(3, Z11)

#define INIT6(BIAS) \
	INIT4(BIAS)  \
	BIAS(4, Z12) \
	BIAS(5, Z13)

#define INIT8(BIAS) \
	INIT6(BIAS)  \
	BIAS(6, Z14) \
	BIAS(7, Z15)

// Step k of the tokens by the codes w.
#define DOT(t, k, w, s) VPDPBUSD.BCST (32*t+4*k)(R8), w, s

#define STEP2(k, w) \
	DOT(0, k, w, Z8) \
	DOT(1, k, w, Z9)

#define STEP4(k, w) \
	STEP2(k, w)       \
	DOT(2, k, w, Z10) \
	DOT(3, k, w, Z11)

#define STEP6(k, w) \
	STEP4(k, w)       \
	DOT(4, k, w, Z12) \
	DOT(5, k, w, Z13)

#define STEP8(k, w) \
	STEP6(k, w)       \
	DOT(6, k, w, Z14) \
	DOT(7, k, w, Z15)

// The end of a block: sums times scales, added to the results.
#define SCALE(t, s, tmp, acc) \
	VMULPS.BCST (4*t)(R9), Z24, tmp \
	VCVTDQ2PS   s, s                \
	VMULPS      tmp, s, s           \
	VADDPS      s, acc, acc

#define ADD2 \
	SCALE(0, Z8, Z25, Z0) \
	SCALE(1, Z9, Z28, Z1)

#define ADD4 \
	ADD2                   \
	SCALE(2, Z10, Z29, Z2) \
	SCALE(3, Z11, Z30, Z3)

#define ADD6 \
	ADD4                   \
	SCALE(4, Z12, Z25, Z4) \
	SCALE(5, Z13, Z28, Z5)

#define ADD8 \
	ADD6                   \
	SCALE(6, Z14, Z29, Z6) \
	SCALE(7, Z15, Z30, Z7)

// Results of one token to its rows, as long as there are tokens. R8 ldd and R9 rows
// of a stream, in bytes, R10 three times that, CX tokens left, AX dst.
#define STORE_ARGS \
	MOVQ ldd+8(FP), R8     \
	SHLQ $2, R8            \
	MOVQ tokens+64(FP), CX \
	MOVQ DI, AX

#define QUARTERS(z, x, y) \
	VMOVUPS       x, (AX)             \
	VEXTRACTF32X4 $1, z, (AX)(R9*1)   \
	VEXTRACTF32X4 $2, z, (AX)(R9*2)   \
	VEXTRACTF32X4 $3, z, (AX)(R10*1)  \
	ADDQ          R8, AX              \
	DECQ          CX                  \
	JZ            stored

#define HALVES(z, x, y) \
	VMOVUPS       y, (AX)           \
	VEXTRACTF64X4 $1, z, (AX)(R9*1) \
	ADDQ          R8, AX            \
	DECQ          CX                \
	JZ            stored

#define STORE(PARTS) \
	PARTS(Z0, X0, Y0) \
	PARTS(Z1, X1, Y1) \
	PARTS(Z2, X2, Y2) \
	PARTS(Z3, X3, Y3) \
	PARTS(Z4, X4, Y4) \
	PARTS(Z5, X5, Y5) \
	PARTS(Z6, X6, Y6) \
	PARTS(Z7, X7, Y7) \
stored:

// Four steps of four groups at a, b, c, d, a lane each, to the four groups of a step.
#define TRANSPOSE(a, b, c, d, s0, s1, s2, s3) \
	VMOVDQU32  a, Z28              \
	VMOVDQU32  b, Z29              \
	VMOVDQU32  c, Z30              \
	VMOVDQU32  d, Z31              \
	VSHUFI32X4 $0x44, Z29, Z28, s0 \
	VSHUFI32X4 $0xee, Z29, Z28, s2 \
	VSHUFI32X4 $0x44, Z31, Z30, s1 \
	VSHUFI32X4 $0xee, Z31, Z30, s3 \
	VSHUFI32X4 $0x88, s1, s0, Z28  \
	VSHUFI32X4 $0xdd, s1, s0, s1   \
	VSHUFI32X4 $0x88, s3, s2, Z29  \
	VSHUFI32X4 $0xdd, s3, s2, s3   \
	VMOVDQA32  Z28, s0             \
	VMOVDQA32  Z29, s2

// The scales of four groups.
#define SCALES4 \
	VMOVQ        (SI), X24                  \
	VMOVHPS      (SI)(R12*1), X24, X24      \
	VMOVQ        (SI)(R12*2), X25           \
	VMOVHPS      (SI)(R13*1), X25, X25      \
	VINSERTI32X4 $1, X25, Y24, Y24          \
	VCVTPH2PS    Y24, Z24

#define Q4X4(INIT, STEP, ADD) \
	FEW_ARGS(72, 2)                                                      \
	MOVL         $0x08080808, AX                                         \
	VPBROADCASTD AX, Z26                                                 \
	MOVL         $0x0f0f0f0f, AX                                         \
	VPBROADCASTD AX, Z27                                                 \
group:                                                                   \
	FEW_ACTS                                                             \
block:                                                                   \
	QUAD_AHEAD72                                                         \
	TRANSPOSE(8(SI), 8(SI)(R12*1), 8(SI)(R12*2), 8(SI)(R13*1), Z16, Z17, Z18, Z19) \
	INIT(BIAS4)                                                          \
	SCALES4                                                              \
	SPLIT(Z16, Z20)                                                      \
	SPLIT(Z17, Z21)                                                      \
	SPLIT(Z18, Z22)                                                      \
	SPLIT(Z19, Z23)                                                      \
	STEP(0, Z16)                                                         \
	STEP(1, Z17)                                                         \
	STEP(2, Z18)                                                         \
	STEP(3, Z19)                                                         \
	STEP(4, Z20)                                                         \
	STEP(5, Z21)                                                         \
	STEP(6, Z22)                                                         \
	STEP(7, Z23)                                                         \
	ADD                                                                  \
	FEW_NEXT(72)                                                         \
	JNZ          block                                                   \
	STORE_ARGS                                                           \
	MOVQ         groups+24(FP), R9                                       \
	SHLQ         $2, R9                                                  \
	LEAQ         (R9)(R9*2), R10                                         \
	STORE(QUARTERS)                                                      \
	ADDQ         $16, DI                                                 \
	DECQ         BX                                                      \
	JNZ          group                                                   \
	VZEROUPPER                                                           \
	RET

// func few2Q4x4VNNI(dst *float32, ldd int, w *byte, groups, nb int, q *int8, d *float32, bias *int32, tokens, ahead int)
TEXT ·few2Q4x4VNNI(SB), NOSPLIT, $0-80
	Q4X4(INIT2, STEP2, ADD2)

// func few4Q4x4VNNI(dst *float32, ldd int, w *byte, groups, nb int, q *int8, d *float32, bias *int32, tokens, ahead int)
TEXT ·few4Q4x4VNNI(SB), NOSPLIT, $0-80
	Q4X4(INIT4, STEP4, ADD4)

// func few6Q4x4VNNI(dst *float32, ldd int, w *byte, groups, nb int, q *int8, d *float32, bias *int32, tokens, ahead int)
TEXT ·few6Q4x4VNNI(SB), NOSPLIT, $0-80
	Q4X4(INIT6, STEP6, ADD6)

// func few8Q4x4VNNI(dst *float32, ldd int, w *byte, groups, nb int, q *int8, d *float32, bias *int32, tokens, ahead int)
TEXT ·few8Q4x4VNNI(SB), NOSPLIT, $0-80
	Q4X4(INIT8, STEP8, ADD8)

#define FEW_AHEAD272 \
	TESTQ      R11, R11         \
	JZ         fetched          \
	LEAQ       (SI)(R11*1), AX  \
	PREFETCHT0 (AX)             \
	PREFETCHT0 64(AX)           \
	PREFETCHT0 128(AX)          \
	PREFETCHT0 192(AX)          \
	PREFETCHT0 256(AX)          \
	PREFETCHT0 (AX)(R12*1)      \
	PREFETCHT0 64(AX)(R12*1)    \
	PREFETCHT0 128(AX)(R12*1)   \
	PREFETCHT0 192(AX)(R12*1)   \
	PREFETCHT0 256(AX)(R12*1)   \
fetched:

// Step k of two groups, plus 128, and of the tokens.
#define STEP_PAIR(STEP, k, y, z) \
	VMOVDQU32    (16+32*k)(SI), y                \
	VINSERTI64X4 $1, (16+32*k)(SI)(R12*1), z, z  \
	VPXORD       Z26, z, z                       \
	STEP(k, z)

#define Q8X8(INIT, STEP, ADD) \
	FEW_ARGS(272, 1)                                   \
	MOVL         $0x80808080, AX                       \
	VPBROADCASTD AX, Z26                               \
group:                                                 \
	FEW_ACTS                                           \
block:                                                 \
	FEW_AHEAD272                                       \
	INIT(BIAS8)                                        \
	VMOVDQU32    (SI), X24                             \
	VINSERTI32X4 $1, (SI)(R12*1), Y24, Y24             \
	VCVTPH2PS    Y24, Z24                              \
	STEP_PAIR(STEP, 0, Y16, Z16)                       \
	STEP_PAIR(STEP, 1, Y17, Z17)                       \
	STEP_PAIR(STEP, 2, Y18, Z18)                       \
	STEP_PAIR(STEP, 3, Y19, Z19)                       \
	STEP_PAIR(STEP, 4, Y20, Z20)                       \
	STEP_PAIR(STEP, 5, Y21, Z21)                       \
	STEP_PAIR(STEP, 6, Y22, Z22)                       \
	STEP_PAIR(STEP, 7, Y23, Z23)                       \
	ADD                                                \
	FEW_NEXT(272)                                      \
	JNZ          block                                 \
	STORE_ARGS                                         \
	MOVQ         groups+24(FP), R9                     \
	SHLQ         $4, R9                                \
	STORE(HALVES)                                      \
	ADDQ         $32, DI                               \
	DECQ         BX                                    \
	JNZ          group                                 \
	VZEROUPPER                                         \
	RET

// func few2Q8x8VNNI(dst *float32, ldd int, w *byte, groups, nb int, q *int8, d *float32, bias *int32, tokens, ahead int)
TEXT ·few2Q8x8VNNI(SB), NOSPLIT, $0-80
	Q8X8(INIT2, STEP2, ADD2)

// func few4Q8x8VNNI(dst *float32, ldd int, w *byte, groups, nb int, q *int8, d *float32, bias *int32, tokens, ahead int)
TEXT ·few4Q8x8VNNI(SB), NOSPLIT, $0-80
	Q8X8(INIT4, STEP4, ADD4)

// func few6Q8x8VNNI(dst *float32, ldd int, w *byte, groups, nb int, q *int8, d *float32, bias *int32, tokens, ahead int)
TEXT ·few6Q8x8VNNI(SB), NOSPLIT, $0-80
	Q8X8(INIT6, STEP6, ADD6)

// func few8Q8x8VNNI(dst *float32, ldd int, w *byte, groups, nb int, q *int8, d *float32, bias *int32, tokens, ahead int)
TEXT ·few8Q8x8VNNI(SB), NOSPLIT, $0-80
	Q8X8(INIT8, STEP8, ADD8)
