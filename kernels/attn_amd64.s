// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"
#include "float_amd64.h"

// Lanes of 16 values: keys to y0, y1 times the query in Y8, Y9, added to a0, a1.
#define MULADD(y0, y1, a0, a1) \
	VMULPS Y8, y0, y0 \
	VMULPS Y9, y1, y1 \
	VADDPS y0, a0, a0 \
	VADDPS y1, a1, a1

#define KEYS(row, a0, a1) \
	VCVTPH2PS 0 row, Y10     \
	VCVTPH2PS 16 row, Y11    \
	MULADD(Y10, Y11, a0, a1)

#define KEYS_TAIL(row, a0, a1) \
	LEAQ 0 row, AX                                     \
	TAIL_HALVES(AX, R11, Y12, Y13, Y10, X10, Y11, X11) \
	MULADD(Y10, Y11, a0, a1)

// Lanes 8-15 to 0-7, those 4-7 to 0-3.
#define FOLD4(y0, y1, x0, x1) \
	VADDPS       y1, y0, y0 \
	VEXTRACTF128 $1, y0, x1 \
	VADDPS       x1, x0, x0

// func attnScoresAVX2(scores, q *float32, k *uint16, n, hd int, scale float32)
//
// scores[i] = (sum of q[j]*k[i][j], in the 16 lanes of Dot) * scale for n >= 1
// positions of hd >= 1 values; four positions at a time share the query.
//
//	DI scores   SI k   R8 q   DX positions left   CX values left
//	R9 bytes a position, R10 three of them   R11 hd%16   AX, BX scratch
//	Y0-Y7 lanes of four positions   Y8, Y9 query   Y12, Y13 masks of the tail   X14 scale
TEXT ·attnScoresAVX2(SB), NOSPLIT, $0-44
	MOVQ         scores+0(FP), DI
	MOVQ         k+16(FP), SI
	MOVQ         n+24(FP), DX
	MOVQ         hd+32(FP), R9
	VBROADCASTSS scale+40(FP), X14
	MOVQ         R9, R11
	ANDQ         $15, R11
	HALF_MASK(R11, AX, BX, Y12, Y13)
	ADDQ         R9, R9
	LEAQ         (R9)(R9*2), R10
	SUBQ         $4, DX
	JLT          singles

four:
	MOVQ   q+8(FP), R8
	MOVQ   hd+32(FP), CX
	VXORPS Y0, Y0, Y0
	VXORPS Y1, Y1, Y1
	VXORPS Y2, Y2, Y2
	VXORPS Y3, Y3, Y3
	VXORPS Y4, Y4, Y4
	VXORPS Y5, Y5, Y5
	VXORPS Y6, Y6, Y6
	VXORPS Y7, Y7, Y7
	SUBQ   $16, CX
	JLT    fourRest

fourLoop:
	VMOVUPS (R8), Y8
	VMOVUPS 32(R8), Y9
	KEYS((SI), Y0, Y1)
	KEYS((SI)(R9*1), Y2, Y3)
	KEYS((SI)(R9*2), Y4, Y5)
	KEYS((SI)(R10*1), Y6, Y7)
	ADDQ    $64, R8
	ADDQ    $32, SI
	SUBQ    $16, CX
	JGE     fourLoop

fourRest:
	TESTQ      R11, R11
	JZ         fourFold
	TAIL_MASK(R11, AX, Y8, Y9)
	VMASKMOVPS (R8), Y8, Y8
	VMASKMOVPS 32(R8), Y9, Y9
	KEYS_TAIL((SI), Y0, Y1)
	KEYS_TAIL((SI)(R9*1), Y2, Y3)
	KEYS_TAIL((SI)(R9*2), Y4, Y5)
	KEYS_TAIL((SI)(R10*1), Y6, Y7)
	LEAQ       (SI)(R11*2), SI

fourFold:
	FOLD4(Y0, Y1, X0, X1)
	FOLD4(Y2, Y3, X2, X3)
	FOLD4(Y4, Y5, X4, X5)
	FOLD4(Y6, Y7, X6, X7)
	VUNPCKLPD X2, X0, X1
	VUNPCKHPD X2, X0, X3
	VUNPCKLPD X6, X4, X5
	VUNPCKHPD X6, X4, X7
	VADDPS    X3, X1, X0        // lanes 0, 1 of positions 0 and 1
	VADDPS    X7, X5, X4        // of 2 and 3
	VSHUFPS   $0x88, X4, X0, X1
	VSHUFPS   $0xdd, X4, X0, X3
	VADDPS    X3, X1, X0
	VMULPS    X14, X0, X0
	VMOVUPS   X0, (DI)
	ADDQ      R10, SI
	ADDQ      $16, DI
	SUBQ      $4, DX
	JGE       four

singles:
	ADDQ $4, DX
	JZ   done

single:
	MOVQ   q+8(FP), R8
	MOVQ   hd+32(FP), CX
	VXORPS Y0, Y0, Y0
	VXORPS Y1, Y1, Y1
	SUBQ   $16, CX
	JLT    singleRest

singleLoop:
	VMOVUPS (R8), Y8
	VMOVUPS 32(R8), Y9
	KEYS((SI), Y0, Y1)
	ADDQ    $64, R8
	ADDQ    $32, SI
	SUBQ    $16, CX
	JGE     singleLoop

singleRest:
	TESTQ      R11, R11
	JZ         singleFold
	TAIL_MASK(R11, AX, Y8, Y9)
	VMASKMOVPS (R8), Y8, Y8
	VMASKMOVPS 32(R8), Y9, Y9
	KEYS_TAIL((SI), Y0, Y1)
	LEAQ       (SI)(R11*2), SI

singleFold:
	FOLD(Y0, Y1, X0, X1)
	VMULSS X14, X0, X0
	VMOVSS X0, (DI)
	ADDQ   $4, DI
	DECQ   DX
	JNZ    single

done:
	VZEROUPPER
	RET

#define VALUES(i, acc) \
	VCVTPH2PS (16*i)(SI), Y9 \
	VMULPS    Y8, Y9, Y9     \
	VADDPS    Y9, acc, acc

// func attnAccumulateAVX2(out, probs *float32, v *uint16, n, hd int)
//
// out[j] += probs[i]*v[i][j] for the n >= 1 positions i ascending; 64 values stay
// in registers while all positions pass, then 16, then the tail.
//
//	DI out   R8 probs   SI v   R10 v of these values   R9 bytes a position
//	CX values left   DX positions left   Y0-Y7 out   Y8 prob   Y12, Y13 masks of the tail
TEXT ·attnAccumulateAVX2(SB), NOSPLIT, $0-40
	MOVQ out+0(FP), DI
	MOVQ v+16(FP), R10
	MOVQ hd+32(FP), CX
	LEAQ (CX)(CX*1), R9
	SUBQ $64, CX
	JLT  less64

by64:
	MOVQ    probs+8(FP), R8
	MOVQ    n+24(FP), DX
	MOVQ    R10, SI
	VMOVUPS 0(DI), Y0
	VMOVUPS 32(DI), Y1
	VMOVUPS 64(DI), Y2
	VMOVUPS 96(DI), Y3
	VMOVUPS 128(DI), Y4
	VMOVUPS 160(DI), Y5
	VMOVUPS 192(DI), Y6
	VMOVUPS 224(DI), Y7

loop64:
	VBROADCASTSS (R8), Y8
	VALUES(0, Y0)
	VALUES(1, Y1)
	VALUES(2, Y2)
	VALUES(3, Y3)
	VALUES(4, Y4)
	VALUES(5, Y5)
	VALUES(6, Y6)
	VALUES(7, Y7)
	ADDQ         $4, R8
	ADDQ         R9, SI
	DECQ         DX
	JNZ          loop64

	VMOVUPS Y0, 0(DI)
	VMOVUPS Y1, 32(DI)
	VMOVUPS Y2, 64(DI)
	VMOVUPS Y3, 96(DI)
	VMOVUPS Y4, 128(DI)
	VMOVUPS Y5, 160(DI)
	VMOVUPS Y6, 192(DI)
	VMOVUPS Y7, 224(DI)
	ADDQ    $256, DI
	ADDQ    $128, R10
	SUBQ    $64, CX
	JGE     by64

less64:
	ADDQ $48, CX
	JLT  less16

by16:
	MOVQ    probs+8(FP), R8
	MOVQ    n+24(FP), DX
	MOVQ    R10, SI
	VMOVUPS 0(DI), Y0
	VMOVUPS 32(DI), Y1

loop16:
	VBROADCASTSS (R8), Y8
	VALUES(0, Y0)
	VALUES(1, Y1)
	ADDQ         $4, R8
	ADDQ         R9, SI
	DECQ         DX
	JNZ          loop16

	VMOVUPS Y0, 0(DI)
	VMOVUPS Y1, 32(DI)
	ADDQ    $64, DI
	ADDQ    $32, R10
	SUBQ    $16, CX
	JGE     by16

less16:
	ADDQ       $16, CX
	JZ         done
	HALF_MASK(CX, AX, BX, Y12, Y13)
	TAIL_MASK(CX, AX, Y6, Y7)
	VMASKMOVPS (DI), Y6, Y0
	VMASKMOVPS 32(DI), Y7, Y1
	MOVQ       probs+8(FP), R8
	MOVQ       n+24(FP), DX
	MOVQ       R10, SI

loop:
	VBROADCASTSS (R8), Y8
	TAIL_HALVES(SI, CX, Y12, Y13, Y2, X2, Y3, X3)
	VMULPS       Y8, Y2, Y2
	VMULPS       Y8, Y3, Y3
	VADDPS       Y2, Y0, Y0
	VADDPS       Y3, Y1, Y1
	ADDQ         $4, R8
	ADDQ         R9, SI
	DECQ         DX
	JNZ          loop
	VMASKMOVPS   Y0, Y6, (DI)
	VMASKMOVPS   Y1, Y7, 32(DI)

done:
	VZEROUPPER
	RET
