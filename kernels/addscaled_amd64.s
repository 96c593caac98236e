// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"
#include "float_amd64.h"

// func addScaledAVX2(dst, x *float32, w float32, n int)
//
// dst[i] += w*x[i], the product rounded, n >= 1.
//
// DI dst   SI x   CX left   Y6 w
TEXT ·addScaledAVX2(SB), NOSPLIT, $0-32
	MOVQ         dst+0(FP), DI
	MOVQ         x+8(FP), SI
	VBROADCASTSS w+16(FP), Y6
	MOVQ         n+24(FP), CX
	SUBQ         $16, CX
	JLT          rest

loop:
	VMULPS  (SI), Y6, Y2
	VMULPS  32(SI), Y6, Y3
	VADDPS  (DI), Y2, Y0
	VADDPS  32(DI), Y3, Y1
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
	VMULPS     Y2, Y6, Y2
	VMULPS     Y3, Y6, Y3
	VADDPS     Y2, Y0, Y0
	VADDPS     Y3, Y1, Y1
	VMASKMOVPS Y0, Y4, (DI)
	VMASKMOVPS Y1, Y5, 32(DI)

done:
	VZEROUPPER
	RET
