// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"

// Weights into panels (gemm_amd64.go): nb >= 1 blocks, each the codes of 4 or 8
// rows at 64-byte steps, then their scales as float32. panel points at the first
// of these rows within a panel. The codes are XORed with flip bytes (Q8), or made
// 0 to 15 and raised by bias bytes (Q4). All need AVX2 and F16C.
//
//	DI panel   SI weights   CX blocks left

// func packQ8x8(panel, w *byte, nb int, flip uint32)
TEXT ·packQ8x8(SB), NOSPLIT, $0-28
	MOVQ         panel+0(FP), DI
	MOVQ         w+8(FP), SI
	MOVQ         nb+16(FP), CX
	MOVL         flip+24(FP), AX
	VMOVD        AX, X12
	VPBROADCASTD X12, Y12

block:
	VCVTPH2PS (SI), Y8
	VPXOR     16(SI), Y12, Y0
	VPXOR     48(SI), Y12, Y1
	VPXOR     80(SI), Y12, Y2
	VPXOR     112(SI), Y12, Y3
	VPXOR     144(SI), Y12, Y4
	VPXOR     176(SI), Y12, Y5
	VPXOR     208(SI), Y12, Y6
	VPXOR     240(SI), Y12, Y7
	VMOVDQU   Y0, 0(DI)
	VMOVDQU   Y1, 64(DI)
	VMOVDQU   Y2, 128(DI)
	VMOVDQU   Y3, 192(DI)
	VMOVDQU   Y4, 256(DI)
	VMOVDQU   Y5, 320(DI)
	VMOVDQU   Y6, 384(DI)
	VMOVDQU   Y7, 448(DI)
	VMOVUPS   Y8, 512(DI)
	ADDQ      $272, SI
	ADDQ      $576, DI
	DECQ      CX
	JNZ       block
	VZEROUPPER
	RET

// func packQ8x4(panel, w *byte, nb int, flip uint32)
TEXT ·packQ8x4(SB), NOSPLIT, $0-28
	MOVQ         panel+0(FP), DI
	MOVQ         w+8(FP), SI
	MOVQ         nb+16(FP), CX
	MOVL         flip+24(FP), AX
	VMOVD        AX, X12
	VPBROADCASTD X12, X12

block:
	VCVTPH2PS (SI), X8
	VPXOR     8(SI), X12, X0
	VPXOR     24(SI), X12, X1
	VPXOR     40(SI), X12, X2
	VPXOR     56(SI), X12, X3
	VPXOR     72(SI), X12, X4
	VPXOR     88(SI), X12, X5
	VPXOR     104(SI), X12, X6
	VPXOR     120(SI), X12, X7
	VMOVDQU   X0, 0(DI)
	VMOVDQU   X1, 64(DI)
	VMOVDQU   X2, 128(DI)
	VMOVDQU   X3, 192(DI)
	VMOVDQU   X4, 256(DI)
	VMOVDQU   X5, 320(DI)
	VMOVDQU   X6, 384(DI)
	VMOVDQU   X7, 448(DI)
	VMOVUPS   X8, 512(DI)
	ADDQ      $136, SI
	ADDQ      $576, DI
	DECQ      CX
	JNZ       block
	VZEROUPPER
	RET

// The scales of four rows of row-major blocks, to float32 in X8.
#define SCALES \
	VMOVD     (SI), X8          \
	VPINSRW   $1, (R8), X8, X8  \
	VPINSRW   $2, (R9), X8, X8  \
	VPINSRW   $3, (R10), X8, X8 \
	VCVTPH2PS X8, X8

// func packQ8Row(panel, w0, w1, w2, w3 *byte, nb int, flip uint32)
//
// Four rows at SI, R8, R9 and R10: a transposition of dwords, columns 0-15 in
// the low, 16-31 in the high lane.
TEXT ·packQ8Row(SB), NOSPLIT, $0-52
	MOVQ         panel+0(FP), DI
	MOVQ         w0+8(FP), SI
	MOVQ         w1+16(FP), R8
	MOVQ         w2+24(FP), R9
	MOVQ         w3+32(FP), R10
	MOVQ         nb+40(FP), CX
	MOVL         flip+48(FP), AX
	VMOVD        AX, X12
	VPBROADCASTD X12, Y12

block:
	VPXOR        2(SI), Y12, Y0
	VPXOR        2(R8), Y12, Y1
	VPXOR        2(R9), Y12, Y2
	VPXOR        2(R10), Y12, Y3
	SCALES
	VPUNPCKLDQ   Y1, Y0, Y4
	VPUNPCKHDQ   Y1, Y0, Y5
	VPUNPCKLDQ   Y3, Y2, Y6
	VPUNPCKHDQ   Y3, Y2, Y7
	VPUNPCKLQDQ  Y6, Y4, Y0
	VPUNPCKHQDQ  Y6, Y4, Y1
	VPUNPCKLQDQ  Y7, Y5, Y2
	VPUNPCKHQDQ  Y7, Y5, Y3
	VMOVDQU      X0, 0(DI)
	VMOVDQU      X1, 64(DI)
	VMOVDQU      X2, 128(DI)
	VMOVDQU      X3, 192(DI)
	VEXTRACTI128 $1, Y0, 256(DI)
	VEXTRACTI128 $1, Y1, 320(DI)
	VEXTRACTI128 $1, Y2, 384(DI)
	VEXTRACTI128 $1, Y3, 448(DI)
	VMOVUPS      X8, 512(DI)
	ADDQ         $34, SI
	ADDQ         $34, R8
	ADDQ         $34, R9
	ADDQ         $34, R10
	ADDQ         $576, DI
	DECQ         CX
	JNZ          block
	VZEROUPPER
	RET

// Codes of both nibbles of x, four columns of four rows, to step k and k+4.
#define NIBBLES(k, x) \
	VPSRLW  $4, x, X9          \
	VPAND   X14, x, x          \
	VPAND   X14, X9, X9        \
	VPADDB  X12, x, x          \
	VPADDB  X12, X9, X9        \
	VMOVDQU x, (64*k)(DI)      \
	VMOVDQU X9, (256+64*k)(DI)

// func packQ4x4(panel, w *byte, nb int, bias uint32)
TEXT ·packQ4x4(SB), NOSPLIT, $0-28
	MOVQ         panel+0(FP), DI
	MOVQ         w+8(FP), SI
	MOVQ         nb+16(FP), CX
	MOVL         bias+24(FP), AX
	VMOVD        AX, X12
	VPBROADCASTD X12, X12
	MOVL         $0x0f0f0f0f, AX
	VMOVD        AX, X14
	VPBROADCASTD X14, X14
	MOVL         $0x88888888, AX
	VMOVD        AX, X13
	VPBROADCASTD X13, X13

block:
	VCVTPH2PS (SI), X8
	VPXOR     8(SI), X13, X0
	VPXOR     24(SI), X13, X1
	VPXOR     40(SI), X13, X2
	VPXOR     56(SI), X13, X3
	NIBBLES(0, X0)
	NIBBLES(1, X1)
	NIBBLES(2, X2)
	NIBBLES(3, X3)
	VMOVUPS   X8, 512(DI)
	ADDQ      $72, SI
	ADDQ      $576, DI
	DECQ      CX
	JNZ       block
	VZEROUPPER
	RET

// func packQ4Row(panel, w0, w1, w2, w3 *byte, nb int, bias uint32)
TEXT ·packQ4Row(SB), NOSPLIT, $0-52
	MOVQ         panel+0(FP), DI
	MOVQ         w0+8(FP), SI
	MOVQ         w1+16(FP), R8
	MOVQ         w2+24(FP), R9
	MOVQ         w3+32(FP), R10
	MOVQ         nb+40(FP), CX
	MOVL         bias+48(FP), AX
	VMOVD        AX, X12
	VPBROADCASTD X12, X12
	MOVL         $0x0f0f0f0f, AX
	VMOVD        AX, X14
	VPBROADCASTD X14, X14

block:
	VMOVDQU     2(SI), X0
	VMOVDQU     2(R8), X1
	VMOVDQU     2(R9), X2
	VMOVDQU     2(R10), X3
	SCALES
	VPUNPCKLDQ  X1, X0, X4
	VPUNPCKHDQ  X1, X0, X5
	VPUNPCKLDQ  X3, X2, X6
	VPUNPCKHDQ  X3, X2, X7
	VPUNPCKLQDQ X6, X4, X0
	VPUNPCKHQDQ X6, X4, X1
	VPUNPCKLQDQ X7, X5, X2
	VPUNPCKHQDQ X7, X5, X3
	NIBBLES(0, X0)
	NIBBLES(1, X1)
	NIBBLES(2, X2)
	NIBBLES(3, X3)
	VMOVUPS     X8, 512(DI)
	ADDQ        $18, SI
	ADDQ        $18, R8
	ADDQ        $18, R9
	ADDQ        $18, R10
	ADDQ        $576, DI
	DECQ        CX
	JNZ         block
	VZEROUPPER
	RET

// func packToken(q *int8, d *float32, bias *int32, srcQ *int8, srcD *float32, sum *int32, nb int)
//
// One token into its place of a tile of packed activations: 32 codes every 256
// bytes, a scale and -128 times the sum every 32.
//
//	DI, R8, R9 tile   SI, R10, R11 token   CX blocks left
TEXT ·packToken(SB), NOSPLIT, $0-56
	MOVQ q+0(FP), DI
	MOVQ d+8(FP), R8
	MOVQ bias+16(FP), R9
	MOVQ srcQ+24(FP), SI
	MOVQ srcD+32(FP), R10
	MOVQ sum+40(FP), R11
	MOVQ nb+48(FP), CX

token:
	VMOVDQU (SI), Y0
	MOVL    (R10), AX
	MOVL    (R11), BX
	SHLL    $7, BX
	NEGL    BX
	VMOVDQU Y0, (DI)
	MOVL    AX, (R8)
	MOVL    BX, (R9)
	ADDQ    $32, SI
	ADDQ    $4, R10
	ADDQ    $4, R11
	ADDQ    $256, DI
	ADDQ    $32, R8
	ADDQ    $32, R9
	DECQ    CX
	JNZ     token
	VZEROUPPER
	RET
