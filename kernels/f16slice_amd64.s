// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"
#include "float_amd64.h"

// func f16ToF32AVX2(dst *float32, src *uint16, n int)
//
// dst[i] = F16ToF32(src[i]), n >= 1.
//
// DI dst   SI src   CX left
TEXT ·f16ToF32AVX2(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX
	SUBQ $16, CX
	JLT  rest

loop:
	VCVTPH2PS (SI), Y0
	VCVTPH2PS 16(SI), Y1
	VMOVUPS   Y0, (DI)
	VMOVUPS   Y1, 32(DI)
	ADDQ      $32, SI
	ADDQ      $64, DI
	SUBQ      $16, CX
	JGE       loop

rest:
	ADDQ       $16, CX
	JZ         done
	HALF_MASK(CX, AX, DX, Y2, Y3)
	TAIL_HALVES(SI, CX, Y2, Y3, Y0, X0, Y1, X1)
	TAIL_MASK(CX, AX, Y4, Y5)
	VMASKMOVPS Y0, Y4, (DI)
	VMASKMOVPS Y1, Y5, 32(DI)

done:
	VZEROUPPER
	RET

// Eight floats of y to halves in x, its low part; every NaN becomes the quiet
// one of its sign. Y8 sign bits, Y9 the positive NaN 0x7fc00000; t and n are
// scratch.
#define HALVES(y, x, t, n) \
	VCMPPS    $3, y, y, n \
	VANDPS    Y8, y, t    \
	VORPS     Y9, t, t    \
	VBLENDVPS n, t, y, y  \
	VCVTPS2PH $0, y, x

// func f32ToF16AVX2(dst *uint16, src *float32, n int)
//
// dst[i] = F32ToF16(src[i]), n >= 1.
//
// DI dst   SI src   CX left
TEXT ·f32ToF16AVX2(SB), NOSPLIT, $0-24
	MOVQ         dst+0(FP), DI
	MOVQ         src+8(FP), SI
	MOVQ         n+16(FP), CX
	VPCMPEQD     Y8, Y8, Y8
	VPSLLD       $31, Y8, Y8
	MOVL         $0x7fc00000, AX
	VMOVD        AX, X9
	VPBROADCASTD X9, Y9
	SUBQ         $16, CX
	JLT          rest

loop:
	VMOVUPS (SI), Y0
	VMOVUPS 32(SI), Y1
	HALVES(Y0, X0, Y2, Y3)
	HALVES(Y1, X1, Y2, Y3)
	VMOVUPS X0, (DI)
	VMOVUPS X1, 16(DI)
	ADDQ    $64, SI
	ADDQ    $32, DI
	SUBQ    $16, CX
	JGE     loop

rest:
	ADDQ        $16, CX
	JZ          done
	TAIL_MASK(CX, AX, Y4, Y5)
	VMASKMOVPS  (SI), Y4, Y0
	VMASKMOVPS  32(SI), Y5, Y1
	HALVES(Y0, X0, Y2, Y3)
	HALVES(Y1, X1, Y2, Y3)
	VINSERTI128 $1, X1, Y0, Y0
	HALF_MASK(CX, AX, DX, Y2, Y3)
	VPMASKMOVD  Y0, Y2, (DI)
	TESTQ       $1, CX
	JZ          done

	// The last, odd one: word AX*2 of Y0, moved to the front.
	VMOVD      AX, X1
	VPERMD     Y0, Y1, Y0
	VMOVD      X0, BX
	MOVW       BX, -2(DI)(CX*2)

done:
	VZEROUPPER
	RET
