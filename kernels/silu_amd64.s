// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"
#include "float_amd64.h"

// gate in g, its product with up in e; g, r, t and n are lost.
#define SILU(g, up, e, r, t, n) \
	VXORPS g, Y12, n         \
	VMOVAPS n, Y13           \
	EXP(Y13, e, r, t, n, R8) \
	VADDPS 288(R8), e, e     \
	VDIVPS e, g, e           \
	VMULPS up, e, e

// func siluMulAVX2(dst, gate, up *float32, n int)
//
// dst[i] = (g / (1 + Exp(-g))) * up[i] with g = gate[i], n >= 1.
//
// DI dst   SI gate   DX up   R8 ·expTable   CX left   Y12 sign bits
TEXT ·siluMulAVX2(SB), NOSPLIT, $0-32
	MOVQ     dst+0(FP), DI
	MOVQ     gate+8(FP), SI
	MOVQ     up+16(FP), DX
	MOVQ     n+24(FP), CX
	LEAQ     ·expTable(SB), R8
	VPCMPEQD Y12, Y12, Y12
	VPSLLD   $31, Y12, Y12
	SUBQ     $8, CX
	JLT      rest

loop:
	VMOVUPS (SI), Y0
	VMOVUPS (DX), Y1
	SILU(Y0, Y1, Y2, Y3, Y4, Y5)
	VMOVUPS Y2, (DI)
	ADDQ    $32, SI
	ADDQ    $32, DX
	ADDQ    $32, DI
	SUBQ    $8, CX
	JGE     loop

rest:
	ADDQ       $8, CX
	JZ         done
	TAIL_MASK(CX, AX, Y6, Y7)
	VMASKMOVPS (SI), Y6, Y0
	VMASKMOVPS (DX), Y6, Y1
	SILU(Y0, Y1, Y2, Y3, Y4, Y5)
	VMASKMOVPS Y2, Y6, (DI)

done:
	VZEROUPPER
	RET

// func siluMulAVX512(dst, gate, up *float32, n int)
//
// As siluMulAVX2.
//
// DI dst   SI gate   DX up   R8 ·expTable   CX left   Z12 sign bits   K3 lanes in use
TEXT ·siluMulAVX512(SB), NOSPLIT, $0-32
	MOVQ         dst+0(FP), DI
	MOVQ         gate+8(FP), SI
	MOVQ         up+16(FP), DX
	MOVQ         n+24(FP), CX
	LEAQ         ·expTable(SB), R8
	MOVL         $0x80000000, AX
	VPBROADCASTD AX, Z12
	MOVL         $0xffff, BX
	KMOVW        BX, K3

loop:
	CMPQ  CX, $16
	JGE   full
	MOVL  $1, BX
	SHLL  CX, BX
	DECL  BX
	KMOVW BX, K3

full:
	VMOVUPS.Z   (SI), K3, Z0
	VPXORD      Z0, Z12, Z1
	EXP16(Z1, Z2, Z3, Z4, Z5, K1, K2, R8)
	VADDPS.BCST 288(R8), Z2, Z2
	VDIVPS      Z2, Z0, Z2
	VMOVUPS.Z   (DX), K3, Z1
	VMULPS      Z1, Z2, Z2
	VMOVUPS     Z2, K3, (DI)
	ADDQ        $64, SI
	ADDQ        $64, DX
	ADDQ        $64, DI
	SUBQ        $16, CX
	JG          loop
	VZEROUPPER
	RET
