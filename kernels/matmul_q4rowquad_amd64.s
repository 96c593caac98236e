// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"
#include "matmul_amd64.h"

// Four blocks of a row are 72 bytes: 36 words, of which 0, 9, 18 and 27 are the
// scales. They are loaded as words 0 to 31 and, once more, as 4 to 35.

// rowCodes picks the codes of the four blocks, one a lane, from two such loads.
DATA ·rowCodes+0(SB)/8, $0x0004000300020001
DATA ·rowCodes+8(SB)/8, $0x0008000700060005
DATA ·rowCodes+16(SB)/8, $0x000d000c000b000a
DATA ·rowCodes+24(SB)/8, $0x00110010000f000e
DATA ·rowCodes+32(SB)/8, $0x0016001500140013
DATA ·rowCodes+40(SB)/8, $0x001a001900180017
DATA ·rowCodes+48(SB)/8, $0x001f001e001d001c
DATA ·rowCodes+56(SB)/8, $0x003f003e003d003c
GLOBL ·rowCodes(SB), RODATA|NOPTR, $64

// rowScales picks the scales of the four blocks of two rows, in pairs, from the
// first load of each.
DATA ·rowScales+0(SB)/8, $0x0029000900200000
DATA ·rowScales+8(SB)/8, $0x003b001b00320012
DATA ·rowScales+16(SB)/8, $0
DATA ·rowScales+24(SB)/8, $0
DATA ·rowScales+32(SB)/8, $0
DATA ·rowScales+40(SB)/8, $0
DATA ·rowScales+48(SB)/8, $0
DATA ·rowScales+56(SB)/8, $0
GLOBL ·rowScales(SB), RODATA|NOPTR, $64

// Codes of a row, in a and, once more, from 8 bytes on at w, times x: four
// partial sums a block, added to acc. Z20, Z21 x of columns 0-15 and 16-31.
#define ROW(w, a, acc, hi) \
	VPERMT2W w, Z28, a      \
	VPSRLW   $4, a, hi      \
	VPANDD   Z27, a, a      \
	VPANDD   Z27, hi, hi    \
	VPDPBUSD Z20, a, acc    \
	VPDPBUSD Z21, hi, acc

// The sums of neighbouring partial sums of a and b, in pairs.
#define ADDPAIRS(a, b, lo, hi) \
	VPUNPCKLDQ b, a, lo \
	VPUNPCKHDQ b, a, hi \
	VPADDD     hi, lo, a

// func gemvQ4RowQuadVNNI(dst *float32, w *byte, rows, nb int, q *int8, d *float32, bias *int32, ahead int)
//
// As gemvQ4RowVNNI for rows a multiple of 4 and nb one of 4: four rows at a time,
// one of each quarter of them, so that there are four streams of weights without
// a jump; and four blocks, so that the sums of a block lie side by side and are
// added to the four results at once.
//
//	BX rows of a quarter left   R12 bytes of a quarter of w, R13 of three
//	R14 bytes of a quarter of dst
//	X0 results   Z2-Z5 partial sums   Z6-Z9 codes   Z10-Z15 scratch
//	K1 first dword of each lane   Z26 spread   Z27 0x0f bytes   Z28 rowCodes   Z29 rowScales
TEXT ·gemvQ4RowQuadVNNI(SB), NOSPLIT, $0-64
	GEMV_ARGS
	SHRQ         $2, BX
	LEAQ         (BX*4), R14
	IMUL3Q       $18, BX, R12
	IMULQ        DX, R12
	LEAQ         (R12)(R12*2), R13
	SHRQ         $2, DX
	MOVL         $0x1111, AX
	KMOVW        AX, K1
	MOVL         $0x0f0f0f0f, AX
	VPBROADCASTD AX, Z27
	VMOVDQU32    ·spread+0(SB), Z26
	VMOVDQU32    ·rowCodes(SB), Z28
	VMOVDQU32    ·rowScales(SB), Z29

row:
	GEMV_ACTS
	VXORPS X0, X0, X0

blocks:
	QUAD_AHEAD72
	VMOVDQU32  (R8), Z10
	VMOVDQU32  64(R8), Z11
	VSHUFI32X4 $0x88, Z11, Z10, Z20
	VSHUFI32X4 $0xdd, Z11, Z10, Z21
	VPSRAD     $4, (R10), X12
	VPERMD.Z   Z12, Z26, K1, Z2
	VMOVDQA32  Z2, Z3
	VMOVDQA32  Z2, Z4
	VMOVDQA32  Z2, Z5
	VMOVDQU32  (SI), Z6
	VMOVDQU32  (SI)(R12*1), Z7
	VMOVDQU32  (SI)(R12*2), Z8
	VMOVDQU32  (SI)(R13*1), Z9
	VMOVDQA32  Z6, Z13
	VMOVDQA32  Z8, Z14
	VPERMT2W   Z7, Z29, Z13
	VPERMT2W   Z9, Z29, Z14

	ROW(8(SI), Z6, Z2, Z10)
	ROW(8(SI)(R12*1), Z7, Z3, Z11)
	ROW(8(SI)(R12*2), Z8, Z4, Z10)
	ROW(8(SI)(R13*1), Z9, Z5, Z11)

	// The scales, block by block the four rows, times those of the activations.
	VPUNPCKLDQ  X14, X13, X15
	VPUNPCKHDQ  X14, X13, X13
	VINSERTI128 $1, X13, Y15, Y15
	VCVTPH2PS   Y15, Z15
	VMOVUPS     (R9), X13
	VPERMD      Z13, Z26, Z13
	VMULPS      Z13, Z15, Z15

	// The sums likewise.
	ADDPAIRS(Z2, Z3, Z10, Z11)
	ADDPAIRS(Z4, Z5, Z6, Z7)
	VPUNPCKLQDQ   Z4, Z2, Z10
	VPUNPCKHQDQ   Z4, Z2, Z11
	VPADDD        Z11, Z10, Z2
	VCVTDQ2PS     Z2, Z2
	VMULPS        Z15, Z2, Z2
	VEXTRACTF32X4 $1, Z2, X3
	VEXTRACTF32X4 $2, Z2, X4
	VEXTRACTF32X4 $3, Z2, X5
	VADDPS        X2, X0, X0
	VADDPS        X3, X0, X0
	VADDPS        X4, X0, X0
	VADDPS        X5, X0, X0
	ADDQ          $72, SI
	ADDQ          $128, R8
	ADDQ          $16, R9
	ADDQ          $16, R10
	DECQ          CX
	JNZ           blocks

	LEAQ       (R14)(R14*2), AX
	VMOVSS     X0, (DI)
	VEXTRACTPS $1, X0, (DI)(R14*1)
	VEXTRACTPS $2, X0, (DI)(R14*2)
	VEXTRACTPS $3, X0, (DI)(AX*1)
	ADDQ       $4, DI
	DECQ       BX
	JNZ        row
	VZEROUPPER
	RET

// func gemvQ4RowQuadAVX2(dst *float32, w *byte, rows, nb int, q *int8, d *float32, bias *int32, ahead int)
//
// As gemvQ4RowVNNI for rows a multiple of 4 and nb an even number: four rows at a
// time, one of each quarter as in gemvQ4RowQuadVNNI, and two blocks. What bounds it
// are the pipes that shuffle, so that scales are put side by side with integers.
//
//	BX rows of a quarter left   R12 bytes of a quarter of w, R13 of three
//	Y0-Y7 codes and sums: Y0, Y1 low and high codes of rows 0 and 1, a lane each,
//	Y2, Y3 of rows 2 and 3, Y4-Y7 of the next block   Y8-Y11 x, then scales
//	Y12 0x0f bytes   Y14 ones   Y15 results of rows 0 and 2, 1 and 3, in the low
//	halves of its lanes
//
// 16-bit sums, of 16 products in the end, are at most 8*2*15*127 = 30480 < 2^15.
TEXT ·gemvQ4RowQuadAVX2(SB), NOSPLIT, $0-64
	GEMV_ARGS
	SHRQ         $2, BX
	IMUL3Q       $18, BX, R12
	IMULQ        DX, R12
	LEAQ         (R12)(R12*2), R13
	SHRQ         $1, DX
	MOVL         $0x0f0f0f0f, AX
	VMOVD        AX, X12
	VPBROADCASTD X12, Y12
	VPCMPEQW     Y14, Y14, Y14
	VPSRLW       $15, Y14, Y14

row:
	GEMV_ACTS
	VXORPS Y15, Y15, Y15

blocks:
	TESTQ      R11, R11
	JZ         fetched
	LEAQ       (SI)(R11*1), AX
	PREFETCHT0 (AX)
	PREFETCHT0 (AX)(R12*1)
	PREFETCHT0 (AX)(R12*2)
	PREFETCHT0 (AX)(R13*1)

fetched:
	VBROADCASTI128 (R8), Y8
	VBROADCASTI128 16(R8), Y9
	VBROADCASTI128 32(R8), Y10
	VBROADCASTI128 48(R8), Y11

	VMOVDQU      2(SI), X0
	VMOVDQU      2(SI)(R12*2), X2
	VMOVDQU      20(SI), X4
	VMOVDQU      20(SI)(R12*2), X6
	VINSERTI128  $1, 2(SI)(R12*1), Y0, Y0
	VINSERTI128  $1, 2(SI)(R13*1), Y2, Y2
	VINSERTI128  $1, 20(SI)(R12*1), Y4, Y4
	VINSERTI128  $1, 20(SI)(R13*1), Y6, Y6
	VPSRLW       $4, Y0, Y1
	VPSRLW       $4, Y2, Y3
	VPSRLW       $4, Y4, Y5
	VPSRLW       $4, Y6, Y7
	VPAND        Y12, Y0, Y0
	VPAND        Y12, Y2, Y2
	VPAND        Y12, Y4, Y4
	VPAND        Y12, Y6, Y6
	VPAND        Y12, Y1, Y1
	VPAND        Y12, Y3, Y3
	VPAND        Y12, Y5, Y5
	VPAND        Y12, Y7, Y7
	VPMADDUBSW   Y8, Y0, Y0
	VPMADDUBSW   Y8, Y2, Y2
	VPMADDUBSW   Y10, Y4, Y4
	VPMADDUBSW   Y10, Y6, Y6
	VPMADDUBSW   Y9, Y1, Y1
	VPMADDUBSW   Y9, Y3, Y3
	VPMADDUBSW   Y11, Y5, Y5
	VPMADDUBSW   Y11, Y7, Y7

	// The scales of rows 0 and 2, of 1 and 3, for both blocks.
	MOVWLZX      18(SI)(R12*2), AX
	MOVWLZX      18(SI)(R13*1), R15
	SHLQ         $16, AX
	SHLQ         $16, R15
	MOVW         18(SI), AX
	MOVW         18(SI)(R12*1), R15
	SHLQ         $16, AX
	SHLQ         $16, R15
	MOVW         (SI)(R12*2), AX
	MOVW         (SI)(R13*1), R15
	SHLQ         $16, AX
	SHLQ         $16, R15
	MOVW         (SI), AX
	MOVW         (SI)(R12*1), R15
	VMOVQ        AX, X8
	VMOVQ        R15, X10

	// Sums by twos: of halves, pairs, rows 0 and 2 side by side, pairs, blocks.
	VPADDW       Y1, Y0, Y0
	VPADDW       Y3, Y2, Y2
	VPADDW       Y5, Y4, Y4
	VPADDW       Y7, Y6, Y6
	VPMADDWD     Y14, Y0, Y0
	VPMADDWD     Y14, Y2, Y2
	VPMADDWD     Y14, Y4, Y4
	VPMADDWD     Y14, Y6, Y6
	VPBROADCASTQ (R10), Y5
	VBROADCASTSD (R9), Y7
	VPACKSSDW    Y2, Y0, Y0
	VPACKSSDW    Y6, Y4, Y4
	VPUNPCKLQDQ  X10, X8, X8
	VPSHUFD      $0x50, Y5, Y5
	VPERMILPS    $0x50, Y7, Y7
	VPMADDWD     Y14, Y0, Y0
	VPMADDWD     Y14, Y4, Y4
	VCVTPH2PS    X8, Y8
	VPSRAD       $4, Y5, Y5
	VPACKSSDW    Y4, Y0, Y0
	VPMADDWD     Y14, Y0, Y0
	VMULPS       Y7, Y8, Y8
	VPADDD       Y5, Y0, Y0
	VCVTDQ2PS    Y0, Y0
	VMULPS       Y8, Y0, Y0
	VPERMILPS    $0x0e, Y0, Y1
	VADDPS       Y0, Y15, Y15
	VADDPS       Y1, Y15, Y15
	ADDQ         $36, SI
	ADDQ         $64, R8
	ADDQ         $8, R9
	ADDQ         $8, R10
	DECQ         CX
	JNZ          blocks

	MOVQ         rows+16(FP), AX // a quarter of the rows, in bytes of dst
	VEXTRACTF128 $1, Y15, X1
	VMOVSS       X15, (DI)
	VMOVSS       X1, (DI)(AX*1)
	VEXTRACTPS   $1, X15, (DI)(AX*2)
	LEAQ         (AX)(AX*2), AX
	VEXTRACTPS   $1, X1, (DI)(AX*1)
	ADDQ         $4, DI
	DECQ         BX
	JNZ          row
	VZEROUPPER
	RET
