// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"
#include "quantise_amd64.h"

// func quantizeActsAVX2(q *int8, d *float32, sum *int32, x *float32, nb int)
//
// nb >= 1 blocks of 32 values as Acts defines them.
//
//	DI q   R8 d   R9 sum   SI x   CX blocks left
//	Y0-Y3 values, then codes   Y6 1/d   Y10 order of dwords   X11 1   X12 127
//	Y13 0.5   Y14 sign bits
//
// |x/d| <= 127*(1+2^-22), so that codes fit without a clamp.
TEXT ·quantizeActsAVX2(SB), NOSPLIT, $0-40
	MOVQ         q+0(FP), DI
	MOVQ         d+8(FP), R8
	MOVQ         sum+16(FP), R9
	MOVQ         x+24(FP), SI
	MOVQ         nb+32(FP), CX
	VPCMPEQD     Y14, Y14, Y14
	VPSLLD       $31, Y14, Y14
	MOVL         $0x3f000000, AX
	VMOVD        AX, X13
	VPBROADCASTD X13, Y13
	MOVL         $0x42fe0000, AX
	VMOVD        AX, X12
	MOVL         $0x3f800000, AX
	VMOVD        AX, X11
	VMOVDQU      ·packOrder(SB), Y10

block:
	VMOVUPS      (SI), Y0
	VMOVUPS      32(SI), Y1
	VMOVUPS      64(SI), Y2
	VMOVUPS      96(SI), Y3
	LARGEST
	VMOVD        X4, AX
	LEAL         -0x0d800000(AX), BX
	CMPL         BX, $0x72000000 // 2^-100 <= m, finite
	JCC          special
	VDIVSS       X12, X4, X5
	VDIVSS       X5, X11, X6
	VMOVSS       X5, (R8)
	VBROADCASTSS X6, Y6
	CODES(Y0)
	CODES(Y1)
	CODES(Y2)
	CODES(Y3)
	VPADDD       Y1, Y0, Y4
	VPADDD       Y3, Y2, Y5
	VPACKSSDW    Y1, Y0, Y0
	VPACKSSDW    Y3, Y2, Y2
	VPACKSSWB    Y2, Y0, Y0
	VPERMD       Y0, Y10, Y0
	VMOVDQU      Y0, (DI)
	VPADDD       Y5, Y4, Y4
	VEXTRACTI128 $1, Y4, X5
	VPADDD       X5, X4, X4
	VPSHUFD      $0x4e, X4, X5
	VPADDD       X5, X4, X4
	VPSHUFD      $0xb1, X4, X5
	VPADDD       X5, X4, X4
	VMOVD        X4, (R9)

next:
	ADDQ $128, SI
	ADDQ $32, DI
	ADDQ $4, R8
	ADDQ $4, R9
	DECQ CX
	JNZ  block
	VZEROUPPER
	RET

special: // d is 0 for a tiny m, m for an infinite one or NaN; codes are 0
	XORL    BX, BX
	CMPL    AX, $0x7f800000
	CMOVLCC AX, BX
	MOVL    BX, (R8)
	MOVL    $0, (R9)
	VPXOR   Y0, Y0, Y0
	VMOVDQU Y0, (DI)
	JMP     next
