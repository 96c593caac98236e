// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"

// func prefetchLines(p *byte, lines int)
//
// Asks for lines > 0 cache lines of 64 bytes from p on, into the second cache.
// Changes nothing.
//
// SI p   CX lines left
TEXT ·prefetchLines(SB), NOSPLIT, $0-16
	MOVQ p+0(FP), SI
	MOVQ lines+8(FP), CX

line:
	PREFETCHT1 (SI)
	ADDQ       $64, SI
	DECQ       CX
	JNZ        line
	RET
