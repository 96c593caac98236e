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

// mask+64-4*r starts with r (0 to 16) dwords of ones, then zeros.
DATA ·mask+0(SB)/8, $0xffffffffffffffff
DATA ·mask+8(SB)/8, $0xffffffffffffffff
DATA ·mask+16(SB)/8, $0xffffffffffffffff
DATA ·mask+24(SB)/8, $0xffffffffffffffff
DATA ·mask+32(SB)/8, $0xffffffffffffffff
DATA ·mask+40(SB)/8, $0xffffffffffffffff
DATA ·mask+48(SB)/8, $0xffffffffffffffff
DATA ·mask+56(SB)/8, $0xffffffffffffffff
DATA ·mask+64(SB)/8, $0
DATA ·mask+72(SB)/8, $0
DATA ·mask+80(SB)/8, $0
DATA ·mask+88(SB)/8, $0
DATA ·mask+96(SB)/8, $0
DATA ·mask+104(SB)/8, $0
DATA ·mask+112(SB)/8, $0
DATA ·mask+120(SB)/8, $0
GLOBL ·mask(SB), RODATA|NOPTR, $128

// wordMask+32-2*r has ones in word r-1 (r 1 to 16) of the 16 that follow.
DATA ·wordMask+0(SB)/8, $0
DATA ·wordMask+8(SB)/8, $0
DATA ·wordMask+16(SB)/8, $0
DATA ·wordMask+24(SB)/8, $0xffff000000000000
DATA ·wordMask+32(SB)/8, $0
DATA ·wordMask+40(SB)/8, $0
DATA ·wordMask+48(SB)/8, $0
DATA ·wordMask+56(SB)/8, $0
GLOBL ·wordMask(SB), RODATA|NOPTR, $64

// The constants of Exp (exp.go), eight times each.
DATA ·expTable+0(SB)/8, $0x3fb8aa3b3fb8aa3b // log2e
DATA ·expTable+8(SB)/8, $0x3fb8aa3b3fb8aa3b
DATA ·expTable+16(SB)/8, $0x3fb8aa3b3fb8aa3b
DATA ·expTable+24(SB)/8, $0x3fb8aa3b3fb8aa3b
DATA ·expTable+32(SB)/8, $0x4b4000004b400000 // magic
DATA ·expTable+40(SB)/8, $0x4b4000004b400000
DATA ·expTable+48(SB)/8, $0x4b4000004b400000
DATA ·expTable+56(SB)/8, $0x4b4000004b400000
DATA ·expTable+64(SB)/8, $0x3f3180003f318000 // ln2Hi
DATA ·expTable+72(SB)/8, $0x3f3180003f318000
DATA ·expTable+80(SB)/8, $0x3f3180003f318000
DATA ·expTable+88(SB)/8, $0x3f3180003f318000
DATA ·expTable+96(SB)/8, $0xb95e8083b95e8083 // ln2Lo
DATA ·expTable+104(SB)/8, $0xb95e8083b95e8083
DATA ·expTable+112(SB)/8, $0xb95e8083b95e8083
DATA ·expTable+120(SB)/8, $0xb95e8083b95e8083
DATA ·expTable+128(SB)/8, $0x3ab511f93ab511f9 // C6
DATA ·expTable+136(SB)/8, $0x3ab511f93ab511f9
DATA ·expTable+144(SB)/8, $0x3ab511f93ab511f9
DATA ·expTable+152(SB)/8, $0x3ab511f93ab511f9
DATA ·expTable+160(SB)/8, $0x3c091d053c091d05 // C5
DATA ·expTable+168(SB)/8, $0x3c091d053c091d05
DATA ·expTable+176(SB)/8, $0x3c091d053c091d05
DATA ·expTable+184(SB)/8, $0x3c091d053c091d05
DATA ·expTable+192(SB)/8, $0x3d2aac793d2aac79 // C4
DATA ·expTable+200(SB)/8, $0x3d2aac793d2aac79
DATA ·expTable+208(SB)/8, $0x3d2aac793d2aac79
DATA ·expTable+216(SB)/8, $0x3d2aac793d2aac79
DATA ·expTable+224(SB)/8, $0x3e2aaa493e2aaa49 // C3
DATA ·expTable+232(SB)/8, $0x3e2aaa493e2aaa49
DATA ·expTable+240(SB)/8, $0x3e2aaa493e2aaa49
DATA ·expTable+248(SB)/8, $0x3e2aaa493e2aaa49
DATA ·expTable+256(SB)/8, $0x3efffffe3efffffe // C2
DATA ·expTable+264(SB)/8, $0x3efffffe3efffffe
DATA ·expTable+272(SB)/8, $0x3efffffe3efffffe
DATA ·expTable+280(SB)/8, $0x3efffffe3efffffe
DATA ·expTable+288(SB)/8, $0x3f8000003f800000 // one
DATA ·expTable+296(SB)/8, $0x3f8000003f800000
DATA ·expTable+304(SB)/8, $0x3f8000003f800000
DATA ·expTable+312(SB)/8, $0x3f8000003f800000
DATA ·expTable+320(SB)/8, $0x0000007f0000007f // 127
DATA ·expTable+328(SB)/8, $0x0000007f0000007f
DATA ·expTable+336(SB)/8, $0x0000007f0000007f
DATA ·expTable+344(SB)/8, $0x0000007f0000007f
DATA ·expTable+352(SB)/8, $0xc2aeac4fc2aeac4f // expMin
DATA ·expTable+360(SB)/8, $0xc2aeac4fc2aeac4f
DATA ·expTable+368(SB)/8, $0xc2aeac4fc2aeac4f
DATA ·expTable+376(SB)/8, $0xc2aeac4fc2aeac4f
DATA ·expTable+384(SB)/8, $0x42b0bd7142b0bd71 // expMax
DATA ·expTable+392(SB)/8, $0x42b0bd7142b0bd71
DATA ·expTable+400(SB)/8, $0x42b0bd7142b0bd71
DATA ·expTable+408(SB)/8, $0x42b0bd7142b0bd71
DATA ·expTable+416(SB)/8, $0x7f8000007f800000 // inf
DATA ·expTable+424(SB)/8, $0x7f8000007f800000
DATA ·expTable+432(SB)/8, $0x7f8000007f800000
DATA ·expTable+440(SB)/8, $0x7f8000007f800000
GLOBL ·expTable(SB), RODATA|NOPTR, $448

// packOrder puts dwords of two lanes, packed twice, in order.
DATA ·packOrder+0(SB)/8, $0x0000000400000000
DATA ·packOrder+8(SB)/8, $0x0000000500000001
DATA ·packOrder+16(SB)/8, $0x0000000600000002
DATA ·packOrder+24(SB)/8, $0x0000000700000003
GLOBL ·packOrder(SB), RODATA|NOPTR, $32
