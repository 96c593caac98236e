// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"

// Sixteen codes at SI by the scales in Y4 and Y5 to DI, and on by code and dst
// bytes.
#define READ16(code, dst) \
	VPMOVSXBD (SI), Y0   \
	VPMOVSXBD 8(SI), Y1  \
	VCVTDQ2PS Y0, Y0     \
	VCVTDQ2PS Y1, Y1     \
	VMULPS    Y4, Y0, Y0 \
	VMULPS    Y5, Y1, Y1 \
	VMOVUPS   Y0, (DI)   \
	VMOVUPS   Y1, 32(DI) \
	ADDQ      code, SI   \
	ADDQ      dst, DI

// func kvInt8KeysAVX2(dst *float32, scales *uint16, codes *int8, n, step int)
//
// dst[j*step+i] = codes[j*step+i] * scales[i] for n >= 1 elements j of 16
// positions i.
//
// DI dst   SI codes   CX elements left   R10, R11 step of codes and dst   Y4, Y5 scales
TEXT ·kvInt8KeysAVX2(SB), NOSPLIT, $0-40
	MOVQ      dst+0(FP), DI
	MOVQ      scales+8(FP), R8
	MOVQ      codes+16(FP), SI
	MOVQ      n+24(FP), CX
	MOVQ      step+32(FP), R10
	LEAQ      (R10*4), R11
	VCVTPH2PS (R8), Y4
	VCVTPH2PS 16(R8), Y5

element:
	READ16(R10, R11)
	DECQ CX
	JNZ  element
	VZEROUPPER
	RET

// func kvInt8ValuesAVX2(dst *float32, scales *uint16, codes *int8, groups, n int)
//
// dst[i][j] = codes[i][j] * scales[i][j/32] for n >= 1 positions i of groups*16 > 0
// elements j.
//
// DI dst   SI codes   R8 scales   CX groups left   DX positions left   Y4, Y5 scale
TEXT ·kvInt8ValuesAVX2(SB), NOSPLIT, $0-40
	MOVQ dst+0(FP), DI
	MOVQ scales+8(FP), R8
	MOVQ codes+16(FP), SI
	MOVQ n+32(FP), DX

position:
	MOVQ groups+24(FP), CX

pair:
	VPBROADCASTW (R8), X4
	ADDQ         $2, R8
	VCVTPH2PS    X4, Y4
	VMOVAPS      Y4, Y5
	READ16($16, $64)
	DECQ         CX
	JZ           next
	READ16($16, $64)
	DECQ         CX
	JNZ          pair

next:
	DECQ DX
	JNZ  position
	VZEROUPPER
	RET

// func kvHalvesAVX2(dst *float32, src *uint16, groups int)
//
// dst[i] = src[i] of groups*16 > 0 halves.
//
// DI dst   SI src   CX groups left
TEXT ·kvHalvesAVX2(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ groups+16(FP), CX

group:
	VCVTPH2PS  (SI), Y0
	VCVTPH2PS  16(SI), Y1
	VMOVUPS    Y0, (DI)
	VMOVUPS    Y1, 32(DI)
	ADDQ       $32, SI
	ADDQ       $64, DI
	DECQ       CX
	JNZ        group
	VZEROUPPER
	RET
