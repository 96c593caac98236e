// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"

// Lines that lie R11 bytes on, unless R11 is 0.
#define AHEAD512 \
	TESTQ      R11, R11       \
	JZ         fetched        \
	PREFETCHT0 (SI)(R11*1)    \
	PREFETCHT0 64(SI)(R11*1)  \
	PREFETCHT0 128(SI)(R11*1) \
	PREFETCHT0 192(SI)(R11*1) \
	PREFETCHT0 256(SI)(R11*1) \
	PREFETCHT0 320(SI)(R11*1) \
	PREFETCHT0 384(SI)(R11*1) \
	PREFETCHT0 448(SI)(R11*1) \
fetched:

// The sum of the two lanes of Y0 to AX.
#define FOLD \
	VEXTRACTI128 $1, Y0, X1  \
	VPADDQ       X1, X0, X0  \
	VPSHUFD      $14, X0, X1 \
	VPADDQ       X1, X0, X0  \
	VMOVQ        X0, AX

// func sumWordsAVX512(p *byte, steps, ahead int) uint64
//
// The sum of the words of steps >= 1 times 512 bytes.
//
//	SI p   CX steps left   Z0-Z3 sums
TEXT ·sumWordsAVX512(SB), NOSPLIT, $0-32
	MOVQ   p+0(FP), SI
	MOVQ   steps+8(FP), CX
	MOVQ   ahead+16(FP), R11
	VPXORQ Z0, Z0, Z0
	VPXORQ Z1, Z1, Z1
	VPXORQ Z2, Z2, Z2
	VPXORQ Z3, Z3, Z3

step:
	AHEAD512
	VPADDQ (SI), Z0, Z0
	VPADDQ 64(SI), Z1, Z1
	VPADDQ 128(SI), Z2, Z2
	VPADDQ 192(SI), Z3, Z3
	VPADDQ 256(SI), Z0, Z0
	VPADDQ 320(SI), Z1, Z1
	VPADDQ 384(SI), Z2, Z2
	VPADDQ 448(SI), Z3, Z3
	ADDQ   $512, SI
	DECQ   CX
	JNZ    step

	VPADDQ        Z1, Z0, Z0
	VPADDQ        Z3, Z2, Z2
	VPADDQ        Z2, Z0, Z0
	VEXTRACTI64X4 $1, Z0, Y1
	VPADDQ        Y1, Y0, Y0
	FOLD
	MOVQ          AX, ret+24(FP)
	VZEROUPPER
	RET

// func sumWordsAVX2(p *byte, steps, ahead int) uint64
//
// The same in registers of 32 bytes.
TEXT ·sumWordsAVX2(SB), NOSPLIT, $0-32
	MOVQ  p+0(FP), SI
	MOVQ  steps+8(FP), CX
	MOVQ  ahead+16(FP), R11
	VPXOR Y0, Y0, Y0
	VPXOR Y1, Y1, Y1
	VPXOR Y2, Y2, Y2
	VPXOR Y3, Y3, Y3

step:
	AHEAD512
	VPADDQ (SI), Y0, Y0
	VPADDQ 32(SI), Y1, Y1
	VPADDQ 64(SI), Y2, Y2
	VPADDQ 96(SI), Y3, Y3
	VPADDQ 128(SI), Y0, Y0
	VPADDQ 160(SI), Y1, Y1
	VPADDQ 192(SI), Y2, Y2
	VPADDQ 224(SI), Y3, Y3
	VPADDQ 256(SI), Y0, Y0
	VPADDQ 288(SI), Y1, Y1
	VPADDQ 320(SI), Y2, Y2
	VPADDQ 352(SI), Y3, Y3
	VPADDQ 384(SI), Y0, Y0
	VPADDQ 416(SI), Y1, Y1
	VPADDQ 448(SI), Y2, Y2
	VPADDQ 480(SI), Y3, Y3
	ADDQ   $512, SI
	DECQ   CX
	JNZ    step

	VPADDQ Y1, Y0, Y0
	VPADDQ Y3, Y2, Y2
	VPADDQ Y2, Y0, Y0
	FOLD
	MOVQ   AX, ret+24(FP)
	VZEROUPPER
	RET
