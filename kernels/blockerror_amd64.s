// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"
#include "float_amd64.h"

// func maxAbsAVX2(x *float32, n int) float32
//
// The largest of the bits without sign, n >= 1.
//
// SI x   CX left   Y0,Y1 largest   Y2,Y3 x   Y14 sign bits
TEXT ·maxAbsAVX2(SB), NOSPLIT, $0-20
	MOVQ     x+0(FP), SI
	MOVQ     n+8(FP), CX
	VPCMPEQD Y14, Y14, Y14
	VPSLLD   $31, Y14, Y14
	VPXOR    Y0, Y0, Y0
	VPXOR    Y1, Y1, Y1
	SUBQ     $16, CX
	JLT      rest

loop:
	VPANDN  (SI), Y14, Y2
	VPANDN  32(SI), Y14, Y3
	VPMAXUD Y2, Y0, Y0
	VPMAXUD Y3, Y1, Y1
	ADDQ    $64, SI
	SUBQ    $16, CX
	JGE     loop

rest:
	ADDQ       $16, CX
	JZ         done
	TAIL_MASK(CX, AX, Y4, Y5)
	VMASKMOVPS (SI), Y4, Y2
	VMASKMOVPS 32(SI), Y5, Y3
	VPANDN     Y2, Y14, Y2
	VPANDN     Y3, Y14, Y3
	VPMAXUD    Y2, Y0, Y0
	VPMAXUD    Y3, Y1, Y1

done:
	VPMAXUD      Y1, Y0, Y0
	VEXTRACTI128 $1, Y0, X1
	VPMAXUD      X1, X0, X0
	VPSHUFD      $0x4e, X0, X1
	VPMAXUD      X1, X0, X0
	VPSHUFD      $0xb1, X0, X1
	VPMAXUD      X1, X0, X0
	VMOVD        X0, AX
	MOVL         AX, ret+16(FP)
	VZEROUPPER
	RET

// SCALE broadcasts the block's half at p as float32 to y, of which x is the low
// part.
#define SCALE(p, x, y) \
	MOVWLZX      (p), AX \
	VMOVD        AX, x   \
	VCVTPH2PS    x, x    \
	VBROADCASTSS x, y

// GONE adds to the sums what eight values at x lost: codes are int32 in q, d the
// scale. Y12 is the largest so far, Y14 the sign bits; q and t are lost.
#define GONE(q, d, x, t, lost, all) \
	VCVTDQ2PS q, q          \
	VMULPS    d, q, q       \
	VMOVUPS   x, t          \
	VSUBPS    q, t, q       \
	VMULPS    t, t, t       \
	VADDPS    t, all, all   \
	VANDNPS   q, Y14, t     \
	VMAXPS    t, Y12, Y12   \
	VMULPS    q, q, q       \
	VADDPS    q, lost, lost

// ERRORS stores the three sums, at out in DI.
#define ERRORS \
	FOLD(Y8, Y9, X8, X9)     \
	FOLD(Y10, Y11, X10, X11) \
	VMOVSS       X8, (DI)    \
	VMOVSS       X10, 4(DI)  \
	VEXTRACTF128 $1, Y12, X0 \
	VMAXPS       X0, X12, X0 \
	VPERMILPD    $1, X0, X1  \
	VMAXPS       X1, X0, X0  \
	VMOVSHDUP    X0, X1      \
	VMAXSS       X1, X0, X0  \
	VMOVSS       X0, 8(DI)

// func blockLossQ8AVX2(out *[3]float32, blocks *byte, x *float32, nb int)
//
// BlockError of nb >= 1 blocks of Q8Row.
//
//	DI out   SI x   R8 blocks   CX blocks left
//	Y0-Y3 codes   Y4 scale   Y5 tmp   Y8,Y9 lost, lanes 0-7 and 8-15   Y10,Y11 all
//	Y12 largest   Y14 sign bits
TEXT ·blockLossQ8AVX2(SB), NOSPLIT, $0-32
	MOVQ     out+0(FP), DI
	MOVQ     blocks+8(FP), R8
	MOVQ     x+16(FP), SI
	MOVQ     nb+24(FP), CX
	VPCMPEQD Y14, Y14, Y14
	VPSLLD   $31, Y14, Y14
	VXORPS   Y8, Y8, Y8
	VXORPS   Y9, Y9, Y9
	VXORPS   Y10, Y10, Y10
	VXORPS   Y11, Y11, Y11
	VXORPS   Y12, Y12, Y12

block:
	SCALE(R8, X4, Y4)
	VPMOVSXBD 2(R8), Y0
	VPMOVSXBD 10(R8), Y1
	VPMOVSXBD 18(R8), Y2
	VPMOVSXBD 26(R8), Y3
	GONE(Y0, Y4, (SI), Y5, Y8, Y10)
	GONE(Y1, Y4, 32(SI), Y6, Y9, Y11)
	GONE(Y2, Y4, 64(SI), Y5, Y8, Y10)
	GONE(Y3, Y4, 96(SI), Y6, Y9, Y11)
	ADDQ      $34, R8
	ADDQ      $128, SI
	DECQ      CX
	JNZ       block
	ERRORS
	VZEROUPPER
	RET

// func blockLossQ4AVX2(out *[3]float32, blocks *byte, x *float32, nb int)
//
// BlockError of nb >= 1 blocks of Q4Row. Registers as above; Y13 is 8, Y15 15.
TEXT ·blockLossQ4AVX2(SB), NOSPLIT, $0-32
	MOVQ         out+0(FP), DI
	MOVQ         blocks+8(FP), R8
	MOVQ         x+16(FP), SI
	MOVQ         nb+24(FP), CX
	VPCMPEQD     Y14, Y14, Y14
	VPSLLD       $31, Y14, Y14
	MOVL         $8, AX
	VMOVD        AX, X13
	VPBROADCASTD X13, Y13
	MOVL         $15, AX
	VMOVD        AX, X15
	VPBROADCASTD X15, Y15
	VXORPS       Y8, Y8, Y8
	VXORPS       Y9, Y9, Y9
	VXORPS       Y10, Y10, Y10
	VXORPS       Y11, Y11, Y11
	VXORPS       Y12, Y12, Y12

block:
	SCALE(R8, X4, Y4)
	VPMOVZXBD 2(R8), Y2
	VPMOVZXBD 10(R8), Y3
	VPAND     Y15, Y2, Y0
	VPAND     Y15, Y3, Y1
	VPSRLD    $4, Y2, Y2
	VPSRLD    $4, Y3, Y3
	VPSUBD    Y13, Y0, Y0
	VPSUBD    Y13, Y1, Y1
	VPSUBD    Y13, Y2, Y2
	VPSUBD    Y13, Y3, Y3
	GONE(Y0, Y4, (SI), Y5, Y8, Y10)
	GONE(Y1, Y4, 32(SI), Y6, Y9, Y11)
	GONE(Y2, Y4, 64(SI), Y5, Y8, Y10)
	GONE(Y3, Y4, 96(SI), Y6, Y9, Y11)
	ADDQ      $18, R8
	ADDQ      $128, SI
	DECQ      CX
	JNZ       block
	ERRORS
	VZEROUPPER
	RET
