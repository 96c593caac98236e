// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"

// Constants of more than one file.

// spread repeats dword j in all of 128-bit lane j, for the low and for the high
// four dwords of a 256-bit register.
DATA ·spread+0(SB)/8, $0x0000000000000000
DATA ·spread+8(SB)/8, $0x0000000000000000
DATA ·spread+16(SB)/8, $0x0000000100000001
DATA ·spread+24(SB)/8, $0x0000000100000001
DATA ·spread+32(SB)/8, $0x0000000200000002
DATA ·spread+40(SB)/8, $0x0000000200000002
DATA ·spread+48(SB)/8, $0x0000000300000003
DATA ·spread+56(SB)/8, $0x0000000300000003
DATA ·spread+64(SB)/8, $0x0000000400000004
DATA ·spread+72(SB)/8, $0x0000000400000004
DATA ·spread+80(SB)/8, $0x0000000500000005
DATA ·spread+88(SB)/8, $0x0000000500000005
DATA ·spread+96(SB)/8, $0x0000000600000006
DATA ·spread+104(SB)/8, $0x0000000600000006
DATA ·spread+112(SB)/8, $0x0000000700000007
DATA ·spread+120(SB)/8, $0x0000000700000007
GLOBL ·spread(SB), RODATA|NOPTR, $128

// spread2 makes VPSHUFB repeat dword 0 in the low lane, dword 1 in the high one.
DATA ·spread2+0(SB)/8, $0x0302010003020100
DATA ·spread2+8(SB)/8, $0x0302010003020100
DATA ·spread2+16(SB)/8, $0x0706050407060504
DATA ·spread2+24(SB)/8, $0x0706050407060504
GLOBL ·spread2(SB), RODATA|NOPTR, $32
