// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"

// func cpuid0() (b, d, c uint32)
//
// Leaf 0: the twelve letters of the vendor.
TEXT ·cpuid0(SB), NOSPLIT, $0-12
	XORL  AX, AX
	XORL  CX, CX
	CPUID
	MOVL  BX, b+0(FP)
	MOVL  DX, d+4(FP)
	MOVL  CX, c+8(FP)
	RET
