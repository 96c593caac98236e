// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"

// func maxBlocksAVX2(dst, x *float32, blocks int)
//
// dst[i] = the largest of x[64*i:64*i+64], NaN if there is one, blocks >= 1.
//
// DI dst   SI x   CX blocks left   Y0-Y7 values   Y8-Y11 lanes with NaN
TEXT ·maxBlocksAVX2(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ blocks+16(FP), CX

loop:
	VMOVUPS      (SI), Y0
	VMOVUPS      32(SI), Y1
	VMOVUPS      64(SI), Y2
	VMOVUPS      96(SI), Y3
	VMOVUPS      128(SI), Y4
	VMOVUPS      160(SI), Y5
	VMOVUPS      192(SI), Y6
	VMOVUPS      224(SI), Y7
	VCMPPS       $3, Y1, Y0, Y8
	VCMPPS       $3, Y3, Y2, Y9
	VCMPPS       $3, Y5, Y4, Y10
	VCMPPS       $3, Y7, Y6, Y11
	VMAXPS       Y1, Y0, Y0
	VMAXPS       Y3, Y2, Y2
	VMAXPS       Y5, Y4, Y4
	VMAXPS       Y7, Y6, Y6
	VORPS        Y9, Y8, Y8
	VORPS        Y11, Y10, Y10
	VMAXPS       Y2, Y0, Y0
	VMAXPS       Y6, Y4, Y4
	VORPS        Y10, Y8, Y8
	VMAXPS       Y4, Y0, Y0
	VMOVMSKPS    Y8, AX
	VEXTRACTF128 $1, Y0, X1
	VMAXPS       X1, X0, X0
	VPERMILPD    $1, X0, X1
	VMAXPS       X1, X0, X0
	VMOVSHDUP    X0, X1
	VMAXSS       X1, X0, X0
	VMOVSS       X0, (DI)
	TESTL        AX, AX
	JNZ          nan

next:
	ADDQ $256, SI
	ADDQ $4, DI
	DECQ CX
	JNZ  loop
	VZEROUPPER
	RET

nan:
	MOVL $0x7fc00000, (DI)
	JMP  next
