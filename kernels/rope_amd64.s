// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"
#include "float_amd64.h"

// func ropeHalfAVX2(lo, hi, cos, sin *float32, n int)
//
// lo[j], hi[j] = lo[j]*cos[j] - hi[j]*sin[j], hi[j]*cos[j] + lo[j]*sin[j], n >= 1.
//
// SI lo   DI hi   R8 cos   R9 sin   CX left
TEXT ·ropeHalfAVX2(SB), NOSPLIT, $0-40
	MOVQ lo+0(FP), SI
	MOVQ hi+8(FP), DI
	MOVQ cos+16(FP), R8
	MOVQ sin+24(FP), R9
	MOVQ n+32(FP), CX
	SUBQ $8, CX
	JLT  rest

loop:
	VMOVUPS (SI), Y0
	VMOVUPS (DI), Y1
	VMOVUPS (R8), Y2
	VMOVUPS (R9), Y3
	VMULPS  Y2, Y0, Y4
	VMULPS  Y3, Y1, Y5
	VMULPS  Y2, Y1, Y1
	VMULPS  Y3, Y0, Y0
	VSUBPS  Y5, Y4, Y4
	VADDPS  Y0, Y1, Y1
	VMOVUPS Y4, (SI)
	VMOVUPS Y1, (DI)
	ADDQ    $32, SI
	ADDQ    $32, DI
	ADDQ    $32, R8
	ADDQ    $32, R9
	SUBQ    $8, CX
	JGE     loop

rest:
	ADDQ       $8, CX
	JZ         done
	TAIL_MASK(CX, AX, Y6, Y7)
	VMASKMOVPS (SI), Y6, Y0
	VMASKMOVPS (DI), Y6, Y1
	VMASKMOVPS (R8), Y6, Y2
	VMASKMOVPS (R9), Y6, Y3
	VMULPS     Y2, Y0, Y4
	VMULPS     Y3, Y1, Y5
	VMULPS     Y2, Y1, Y1
	VMULPS     Y3, Y0, Y0
	VSUBPS     Y5, Y4, Y4
	VADDPS     Y0, Y1, Y1
	VMASKMOVPS Y4, Y6, (SI)
	VMASKMOVPS Y1, Y6, (DI)

done:
	VZEROUPPER
	RET
