// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"
#include "neon_arm64.h"

// func sumWordsNEON(p *byte, steps, ahead int) uint64
//
// The sum of the words of steps >= 1 times 256 bytes; lines that lie ahead bytes
// on are fetched, unless ahead is 0.
//
// R0 p  R1 steps left  R2 p + ahead, 0 for none
// V0-V3 sums   V16-V31 words
TEXT ·sumWordsNEON(SB), NOSPLIT, $0-32
	MOVD p+0(FP), R0
	MOVD steps+8(FP), R1
	MOVD ahead+16(FP), R2
	VEOR V0.B16, V0.B16, V0.B16
	VEOR V1.B16, V1.B16, V1.B16
	VEOR V2.B16, V2.B16, V2.B16
	VEOR V3.B16, V3.B16, V3.B16
	CBZ  R2, step
	ADD  R0, R2, R2

step:
	CBZ  R2, fetched
	PRFM (R2), PLDL1STRM
	PRFM 64(R2), PLDL1STRM
	PRFM 128(R2), PLDL1STRM
	PRFM 192(R2), PLDL1STRM
	ADD  $256, R2

fetched:
	FLDPQ   0(R0), (F16, F17)
	FLDPQ   32(R0), (F18, F19)
	FLDPQ   64(R0), (F20, F21)
	FLDPQ   96(R0), (F22, F23)
	FLDPQ   128(R0), (F24, F25)
	FLDPQ   160(R0), (F26, F27)
	FLDPQ   192(R0), (F28, F29)
	FLDPQ   224(R0), (F30, F31)
	ADD     $256, R0
	SUBS    $1, R1
	VADD    V16.D2, V0.D2, V0.D2
	VADD    V17.D2, V1.D2, V1.D2
	VADD    V18.D2, V2.D2, V2.D2
	VADD    V19.D2, V3.D2, V3.D2
	VADD    V20.D2, V0.D2, V0.D2
	VADD    V21.D2, V1.D2, V1.D2
	VADD    V22.D2, V2.D2, V2.D2
	VADD    V23.D2, V3.D2, V3.D2
	VADD    V24.D2, V0.D2, V0.D2
	VADD    V25.D2, V1.D2, V1.D2
	VADD    V26.D2, V2.D2, V2.D2
	VADD    V27.D2, V3.D2, V3.D2
	VADD    V28.D2, V0.D2, V0.D2
	VADD    V29.D2, V1.D2, V1.D2
	VADD    V30.D2, V2.D2, V2.D2
	VADD    V31.D2, V3.D2, V3.D2
	BNE     step

	VADD V1.D2, V0.D2, V0.D2
	VADD V3.D2, V2.D2, V2.D2
	VADD V2.D2, V0.D2, V0.D2
	VMOV V0.D[0], R0
	VMOV V0.D[1], R1
	ADD  R1, R0, R0
	MOVD R0, ret+24(FP)
	RET
