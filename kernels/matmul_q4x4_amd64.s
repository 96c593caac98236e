// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"
#include "matmul_amd64.h"

// The VNNI kernels hold four steps of four columns in a register, a 128-bit lane
// each: the low nibbles columns 0-15, the high ones 16-31. The flip of its sign
// bit makes a nibble n unsigned, n+8. VPERMD spreads the activations like the
// codes; the lanes are added after the block.
//
//	Z26 0x08 bytes   Z27 0x0f bytes   Z28, Z29 spread of columns 0-15 and 16-31
//
// s = sum((n+8)*x) - 8*sum(x): |s| <= 32*15*127 + 8*32*127 < 2^17.

#define CONSTANTS \
	MOVL         $0x08080808, AX     \
	VPBROADCASTD AX, Z26             \
	MOVL         $0x0f0f0f0f, AX     \
	VPBROADCASTD AX, Z27             \
	VMOVDQU32    ·spread+0(SB), Z28  \
	VMOVDQU32    ·spread+64(SB), Z29

// Scales and bias are indexed by the blocks left, counted up to 0.
#define FROM_END \
	LEAQ (R9)(DX*4), R9   \
	LEAQ (R10)(DX*4), R10 \
	NEGQ CX

#define ACTS \
	VMOVDQU      (R8), Y6            \
	VPERMD       Z6, Z28, Z7         \
	VPERMD       Z6, Z29, Z8         \
	VPSRAD.BCST  $4, (R10)(CX*4), X2

#define BLOCK \
	ACTS                    \
	NIBBLES(8(SI), Z4, Z5)  \
	VPDPBUSD    Z7, Z4, Z2  \
	VPDPBUSD    Z8, Z5, Z2  \
	FINISH_VNNI((R9)(CX*4)) \
	ADDQ        $32, R8     \
	ADDQ        $72, SI     \
	INCQ        CX

// func gemvQ4x4VNNI(dst *float32, w *byte, groups, nb int, q *int8, d *float32, bias *int32, ahead int)
//
// dst[4*g+m] = row m of group g times the token, as MatMul defines it, for
// groups >= 1 groups of nb >= 1 group-blocks of 72 bytes.
//
// X0 result; Z2 integer sums; Z4, Z5 codes; Z7, Z8 activations.
TEXT ·gemvQ4x4VNNI(SB), NOSPLIT, $0-64
	GEMV_ARGS
	CONSTANTS

group:
	GEMV_ACTS
	FROM_END
	VXORPS X0, X0, X0

block:
	AHEAD72
	BLOCK
	JNZ block

	VMOVUPS X0, (DI)
	ADDQ    $16, DI
	DECQ    BX
	JNZ     group
	VZEROUPPER
	RET

// func gemvQ4x4PairsVNNI(dst *float32, w *byte, pairs, nb int, q *int8, d *float32, bias *int32)
//
// The same for pairs >= 1 pairs of neighbouring groups, that share the
// activations. For short rows: two streams of weights that jump are slow, unless,
// as here, the next pair is fetched in memory order while this one, fetched
// before, waits in the first cache.
//
//	R11 bytes of a group   R12 prefetch
//	Y0 result   Z2, Z3 integer sums   Z4, Z5, Z10, Z11 codes   Z7, Z8 activations
TEXT ·gemvQ4x4PairsVNNI(SB), NOSPLIT, $0-56
	MOVQ    dst+0(FP), DI
	MOVQ    w+8(FP), SI
	MOVQ    pairs+16(FP), BX
	MOVQ    nb+24(FP), DX
	IMUL3Q  $72, DX, R11
	LEAQ    (SI)(R11*2), R12
	CONSTANTS

pair:
	GEMV_ACTS
	FROM_END
	VXORPS Y0, Y0, Y0

block:
	PREFETCHT0    (R12)
	PREFETCHT0    64(R12)
	ADDQ          $144, R12
	ACTS
	VMOVDQA       X2, X3
	NIBBLES(8(SI), Z4, Z5)
	NIBBLES(8(SI)(R11*1), Z10, Z11)
	VPDPBUSD      Z7, Z4, Z2
	VPDPBUSD      Z7, Z10, Z3
	VPDPBUSD      Z8, Z5, Z2
	VPDPBUSD      Z8, Z11, Z3
	VMOVQ         (SI), X9
	VMOVHPS       (SI)(R11*1), X9, X9
	VCVTPH2PS     X9, Y9
	VMULPS.BCST   (R9)(CX*4), Y9, Y9
	VEXTRACTI64X4 $1, Z2, Y4
	VEXTRACTI64X4 $1, Z3, Y5
	VPADDD        Y4, Y2, Y2
	VPADDD        Y5, Y3, Y3
	VPERM2I128    $0x20, Y3, Y2, Y4
	VPERM2I128    $0x31, Y3, Y2, Y5
	VPADDD        Y5, Y4, Y2
	VCVTDQ2PS     Y2, Y2
	VMULPS        Y9, Y2, Y2
	VADDPS        Y2, Y0, Y0
	ADDQ          $32, R8
	ADDQ          $72, SI
	INCQ          CX
	JNZ           block

	VMOVUPS Y0, (DI)
	ADDQ    R11, SI
	ADDQ    $32, DI
	DECQ    BX
	JNZ     pair
	VZEROUPPER
	RET

// Two steps, one a lane, of the low and two of the high nibbles, in 16-bit pairs.
#define AVX2(p, lo, hi) \
	VPXOR        (8+32*p)(SI), Y11, Y4 \
	VPBROADCASTQ (8*p)(R8), Y5         \
	VPBROADCASTQ (16+8*p)(R8), Y6      \
	VPSRLW       $4, Y4, hi            \
	VPAND        Y12, Y4, lo           \
	VPAND        Y12, hi, hi           \
	VPSHUFB      Y13, Y5, Y5           \
	VPSHUFB      Y13, Y6, Y6           \
	VPMADDUBSW   Y5, lo, lo            \
	VPMADDUBSW   Y6, hi, hi            \
	VPADDW       hi, lo, lo

#define CONSTANTS_AVX2 \
	MOVL         $0x88888888, AX   \
	VMOVD        AX, X11           \
	VPBROADCASTD X11, Y11          \
	MOVL         $0x0f0f0f0f, AX   \
	VMOVD        AX, X12           \
	VPBROADCASTD X12, Y12          \
	VPCMPEQW     Y14, Y14, Y14     \
	VPSRLW       $15, Y14, Y14     \
	VMOVDQU      ·spread2(SB), Y13

#define BLOCK_AVX2 \
	AVX2(0, Y2, Y7)            \
	AVX2(1, Y3, Y8)            \
	VPADDW       Y3, Y2, Y2    \
	VPMADDWD     Y14, Y2, Y2   \
	VPBROADCASTD (R10), X3     \
	VPSRAD       $4, X3, X3    \
	VPADDD       Y3, Y2, Y2    \
	FINISH_AVX2                \
	GEMV_NEXT(72)

// func gemvQ4x4AVX2(dst *float32, w *byte, groups, nb int, q *int8, d *float32, bias *int32, ahead int)
//
// As gemvQ4x4VNNI with two lanes a register.
//
// X0 result; Y2 pair sums, then integer sums; Y11 0x88 bytes; Y12 0x0f bytes; Y13
// repeats dword 0 in the low lane, dword 1 in the high one; Y14 ones.
// Four 16-bit pairs are at most 4*2*15*127 = 15240 < 2^15; s as there.
TEXT ·gemvQ4x4AVX2(SB), NOSPLIT, $0-64
	GEMV_ARGS
	CONSTANTS_AVX2

group:
	GEMV_ACTS
	VXORPS X0, X0, X0

block:
	AHEAD72
	BLOCK_AVX2
	DECQ CX
	JNZ  block

	VMOVUPS X0, (DI)
	ADDQ    $16, DI
	DECQ    BX
	JNZ     group
	VZEROUPPER
	RET

// The windows of a matrix's columns (addproducts_amd64.go): near is one that will be
// multiplied soon and comes into the first cache, far one for later and comes into the
// second. A line of each is asked for with every block: asked for at once, more
// than the CPU has under way would be dropped or waited for.
//
//	R11 near   R12 far

// The lines behind the first nb, in which 72*nb bytes can end: nb/8 and one for what
// the first line lacks.
#define WINDOW_ENDS \
	MOVQ       DX, AX          \
	SHLQ       $6, AX          \
	MOVQ       DX, CX          \
	SHRQ       $3, CX          \
	INCQ       CX              \
end:                           \
	PREFETCHT0 (R11)(AX*1)     \
	PREFETCHT1 (R12)(AX*1)     \
	ADDQ       $64, AX         \
	DECQ       CX              \
	JNZ        end             \
	MOVQ       DX, CX

#define WINDOW_LINE \
	PREFETCHT0 (R11)      \
	PREFETCHT1 (R12)      \
	ADDQ       $64, R11   \
	ADDQ       $64, R12

// func windowQ4x4VNNI(dst *float32, w *byte, nb int, q *int8, d *float32, bias *int32, near, far *byte)
//
// As gemvQ4x4VNNI for one group, at w. Reads nothing at near and far.
TEXT ·windowQ4x4VNNI(SB), NOSPLIT, $0-64
	MOVQ dst+0(FP), DI
	MOVQ w+8(FP), SI
	MOVQ nb+16(FP), DX
	MOVQ q+24(FP), R8
	MOVQ d+32(FP), R9
	MOVQ bias+40(FP), R10
	MOVQ near+48(FP), R11
	MOVQ far+56(FP), R12
	CONSTANTS
	WINDOW_ENDS
	FROM_END
	VXORPS X0, X0, X0

block:
	WINDOW_LINE
	BLOCK
	JNZ block

	VMOVUPS X0, (DI)
	VZEROUPPER
	RET

// func windowQ4x4AVX2(dst *float32, w *byte, nb int, q *int8, d *float32, bias *int32, near, far *byte)
//
// As gemvQ4x4AVX2 for one group, at w. Reads nothing at near and far.
TEXT ·windowQ4x4AVX2(SB), NOSPLIT, $0-64
	MOVQ dst+0(FP), DI
	MOVQ w+8(FP), SI
	MOVQ nb+16(FP), DX
	MOVQ q+24(FP), R8
	MOVQ d+32(FP), R9
	MOVQ bias+40(FP), R10
	MOVQ near+48(FP), R11
	MOVQ far+56(FP), R12
	CONSTANTS_AVX2
	WINDOW_ENDS
	VXORPS X0, X0, X0

block:
	WINDOW_LINE
	BLOCK_AVX2
	DECQ CX
	JNZ  block

	VMOVUPS X0, (DI)
	VZEROUPPER
	RET
