// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"
#include "float_amd64.h"

// func scaleAVX2(dst, x, w *float32, n int, r float32)
//
// dst[i] = (x[i]*r) * w[i], n >= 1: the second half of RMSNorm.
//
// DI dst   SI x   DX w   CX left   Y6 r
TEXT ·scaleAVX2(SB), NOSPLIT, $0-36
	MOVQ         dst+0(FP), DI
	MOVQ         x+8(FP), SI
	MOVQ         w+16(FP), DX
	MOVQ         n+24(FP), CX
	VBROADCASTSS r+32(FP), Y6
	SUBQ         $16, CX
	JLT          rest

loop:
	VMULPS  (SI), Y6, Y0
	VMULPS  32(SI), Y6, Y1
	VMULPS  (DX), Y0, Y0
	VMULPS  32(DX), Y1, Y1
	VMOVUPS Y0, (DI)
	VMOVUPS Y1, 32(DI)
	ADDQ    $64, SI
	ADDQ    $64, DX
	ADDQ    $64, DI
	SUBQ    $16, CX
	JGE     loop

rest:
	ADDQ       $16, CX
	JZ         done
	TAIL_MASK(CX, AX, Y4, Y5)
	VMASKMOVPS (SI), Y4, Y0
	VMASKMOVPS 32(SI), Y5, Y1
	VMASKMOVPS (DX), Y4, Y2
	VMASKMOVPS 32(DX), Y5, Y3
	VMULPS     Y6, Y0, Y0
	VMULPS     Y6, Y1, Y1
	VMULPS     Y2, Y0, Y0
	VMULPS     Y3, Y1, Y1
	VMASKMOVPS Y0, Y4, (DI)
	VMASKMOVPS Y1, Y5, 32(DI)

done:
	VZEROUPPER
	RET
