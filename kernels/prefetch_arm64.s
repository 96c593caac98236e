// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"

// func prefetchLines(p *byte, lines int)
//
// Asks for lines > 0 cache lines of 64 bytes from p on. Changes nothing.
//
// R0 p  R1 lines left
TEXT ·prefetchLines(SB), NOSPLIT, $0-16
	MOVD p+0(FP), R0
	MOVD lines+8(FP), R1

line:
	PRFM (R0), PLDL1KEEP
	ADD  $64, R0
	SUBS $1, R1
	BNE  line
	RET
