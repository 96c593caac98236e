// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"
#include "quantise_amd64.h"

// HALF stores the float32 in x as a half at p.
#define HALF(x, tmp, p) \
	VCVTPS2PH $0, x, tmp \
	VMOVD     tmp, BX    \
	MOVW      BX, p

// func quantizeQ8AVX2(dst *byte, src *float32, nb int)
//
// nb >= 1 blocks as docs/FORMAT.md section 7.2 says, of finite values.
//
//	DI dst   SI src   CX blocks left
//	Y0-Y3 values, then codes   Y6 1/s   Y9 1e-10   Y10 order of dwords   X11 1
//	X12 127   Y13 0.5   Y14 sign bits
//
// s is at least max/127, so that |x/s| <= 127*(1+2^-22) and codes fit.
TEXT ·quantizeQ8AVX2(SB), NOSPLIT, $0-24
	MOVQ         dst+0(FP), DI
	MOVQ         src+8(FP), SI
	MOVQ         nb+16(FP), CX
	VPCMPEQD     Y14, Y14, Y14
	VPSLLD       $31, Y14, Y14
	MOVL         $0x3f000000, AX
	VMOVD        AX, X13
	VPBROADCASTD X13, Y13
	MOVL         $0x42fe0000, AX
	VMOVD        AX, X12
	MOVL         $0x3f800000, AX
	VMOVD        AX, X11
	MOVL         $0x2edbe6ff, AX
	VMOVD        AX, X9
	VMOVDQU      ·packOrder(SB), Y10

block:
	VMOVUPS      (SI), Y0
	VMOVUPS      32(SI), Y1
	VMOVUPS      64(SI), Y2
	VMOVUPS      96(SI), Y3
	LARGEST
	VMAXSS       X9, X4, X4
	VDIVSS       X12, X4, X5
	VMAXSS       X9, X5, X5
	VDIVSS       X5, X11, X6
	HALF(X5, X7, (DI))
	VBROADCASTSS X6, Y6
	CODES(Y0)
	CODES(Y1)
	CODES(Y2)
	CODES(Y3)
	VPACKSSDW    Y1, Y0, Y0
	VPACKSSDW    Y3, Y2, Y2
	VPACKSSWB    Y2, Y0, Y0
	VPERMD       Y0, Y10, Y0
	VMOVDQU      Y0, 2(DI)
	ADDQ         $128, SI
	ADDQ         $34, DI
	DECQ         CX
	JNZ          block
	VZEROUPPER
	RET

// NIBBLE makes codes 0 to 15 of eight values in y: y*id + 8.5 truncated; NaN is 0,
// as in the order of these operands a maximum gives the second one for it.
#define NIBBLE(y) \
	VMULPS     Y6, y, y  \
	VADDPS     Y12, y, y \
	VMAXPS     Y13, y, y \
	VMINPS     Y15, y, y \
	VCVTTPS2DQ y, y

// func quantizeQ4AVX2(dst *byte, src *float32, nb int)
//
// nb >= 1 blocks as docs/FORMAT.md section 7.4 says, of finite values.
//
//	DI dst   SI src   CX blocks left
//	Y0-Y3 values, then codes   Y6 1/d   Y9 -0.125   Y10 order of dwords   X11 1
//	Y12 8.5   Y13 0   Y14 sign bits   Y15 15
TEXT ·quantizeQ4AVX2(SB), NOSPLIT, $0-24
	MOVQ         dst+0(FP), DI
	MOVQ         src+8(FP), SI
	MOVQ         nb+16(FP), CX
	VPCMPEQD     Y14, Y14, Y14
	VPSLLD       $31, Y14, Y14
	MOVL         $0xbe000000, AX
	VMOVD        AX, X9
	MOVL         $0x41080000, AX
	VMOVD        AX, X12
	VPBROADCASTD X12, Y12
	MOVL         $0x41700000, AX
	VMOVD        AX, X15
	VPBROADCASTD X15, Y15
	MOVL         $0x3f800000, AX
	VMOVD        AX, X11
	VXORPS       Y13, Y13, Y13
	VMOVDQU      ·packOrder(SB), Y10

block:
	VMOVUPS      (SI), Y0
	VMOVUPS      32(SI), Y1
	VMOVUPS      64(SI), Y2
	VMOVUPS      96(SI), Y3
	LARGEST

	// The first value of that magnitude: a bit for each of the 32.
	VPBROADCASTD X4, Y4
	VANDNPS      Y0, Y14, Y5
	VPCMPEQD     Y4, Y5, Y5
	VMOVMSKPS    Y5, AX
	VANDNPS      Y1, Y14, Y6
	VPCMPEQD     Y4, Y6, Y6
	VMOVMSKPS    Y6, BX
	SHLL         $8, BX
	ORL          BX, AX
	VANDNPS      Y2, Y14, Y7
	VPCMPEQD     Y4, Y7, Y7
	VMOVMSKPS    Y7, BX
	SHLL         $16, BX
	ORL          BX, AX
	VANDNPS      Y3, Y14, Y8
	VPCMPEQD     Y4, Y8, Y8
	VMOVMSKPS    Y8, BX
	SHLL         $24, BX
	ORL          BX, AX
	BSFL         AX, AX
	VMULSS       (SI)(AX*4), X9, X5
	VUCOMISS     X13, X5
	JEQ          zero

scaled:
	VDIVSS       X5, X11, X6
	HALF(X5, X7, (DI))
	VBROADCASTSS X6, Y6
	NIBBLE(Y0)
	NIBBLE(Y1)
	NIBBLE(Y2)
	NIBBLE(Y3)
	VPSLLD       $4, Y2, Y2
	VPSLLD       $4, Y3, Y3
	VPOR         Y2, Y0, Y0
	VPOR         Y3, Y1, Y1
	VPACKUSDW    Y1, Y0, Y0
	VPACKUSWB    Y0, Y0, Y0
	VPERMD       Y0, Y10, Y0
	VMOVDQU      X0, 2(DI)
	ADDQ         $128, SI
	ADDQ         $18, DI
	DECQ         CX
	JNZ          block
	VZEROUPPER
	RET

zero:
	VMOVAPS X11, X5
	JMP     scaled
