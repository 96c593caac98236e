// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"
#include "float_amd64.h"

// func addAVX2(dst, x *float32, n int)
//
// dst[i] += x[i], n >= 1.
//
// DI dst   SI x   CX left
TEXT ·addAVX2(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ n+16(FP), CX
	SUBQ $16, CX
	JLT  rest

loop:
	VMOVUPS (DI), Y0
	VMOVUPS 32(DI), Y1
	VADDPS  (SI), Y0, Y0
	VADDPS  32(SI), Y1, Y1
	VMOVUPS Y0, (DI)
	VMOVUPS Y1, 32(DI)
	ADDQ    $64, SI
	ADDQ    $64, DI
	SUBQ    $16, CX
	JGE     loop

rest:
	ADDQ       $16, CX
	JZ         done
	TAIL_MASK(CX, AX, Y4, Y5)
	VMASKMOVPS (DI), Y4, Y0
	VMASKMOVPS 32(DI), Y5, Y1
	VMASKMOVPS (SI), Y4, Y2
	VMASKMOVPS 32(SI), Y5, Y3
	VADDPS     Y2, Y0, Y0
	VADDPS     Y3, Y1, Y1
	VMASKMOVPS Y0, Y4, (DI)
	VMASKMOVPS Y1, Y5, 32(DI)

done:
	VZEROUPPER
	RET
