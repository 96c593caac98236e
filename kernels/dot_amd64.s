// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"
#include "float_amd64.h"

// func dotAVX2(a, b *float32, n int) float32
//
// The sum of a[i]*b[i], n >= 1, in the 16 lanes that Dot defines.
//
// SI a   DI b   CX left   Y0, Y1 lanes
TEXT ·dotAVX2(SB), NOSPLIT, $0-28
	MOVQ   a+0(FP), SI
	MOVQ   b+8(FP), DI
	MOVQ   n+16(FP), CX
	VXORPS Y0, Y0, Y0
	VXORPS Y1, Y1, Y1
	SUBQ   $16, CX
	JLT    rest

loop:
	VMOVUPS (SI), Y2
	VMOVUPS 32(SI), Y3
	VMULPS  (DI), Y2, Y2
	VMULPS  32(DI), Y3, Y3
	VADDPS  Y2, Y0, Y0
	VADDPS  Y3, Y1, Y1
	ADDQ    $64, SI
	ADDQ    $64, DI
	SUBQ    $16, CX
	JGE     loop

rest:
	ADDQ       $16, CX
	JZ         fold
	TAIL_MASK(CX, AX, Y4, Y5)
	VMASKMOVPS (SI), Y4, Y2
	VMASKMOVPS 32(SI), Y5, Y3
	VMASKMOVPS (DI), Y4, Y6
	VMASKMOVPS 32(DI), Y5, Y7
	VMULPS     Y6, Y2, Y2
	VMULPS     Y7, Y3, Y3
	VADDPS     Y2, Y0, Y0
	VADDPS     Y3, Y1, Y1

fold:
	FOLD(Y0, Y1, X0, X1)
	VMOVSS X0, ret+24(FP)
	VZEROUPPER
	RET
