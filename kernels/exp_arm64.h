// SPDX-License-Identifier: Apache-2.0

// Exp on four lanes, by the steps of exp.go, for the files that include this.

// Its constants, one row a register: log2e, ln2Hi, ln2Lo, expC6 in one, then
// magic, expC5, expC4, expC3, expC2, 1.0, the integer 127, expMin, expMax, +Inf
// and a spare row in all lanes of theirs.
DATA expTable<>+0(SB)/8, $0x3F3180003FB8AA3B
DATA expTable<>+8(SB)/8, $0x3AB511F9B95E8083
DATA expTable<>+16(SB)/8, $0x4B4000004B400000
DATA expTable<>+24(SB)/8, $0x4B4000004B400000
DATA expTable<>+32(SB)/8, $0x3C091D053C091D05
DATA expTable<>+40(SB)/8, $0x3C091D053C091D05
DATA expTable<>+48(SB)/8, $0x3D2AAC793D2AAC79
DATA expTable<>+56(SB)/8, $0x3D2AAC793D2AAC79
DATA expTable<>+64(SB)/8, $0x3E2AAA493E2AAA49
DATA expTable<>+72(SB)/8, $0x3E2AAA493E2AAA49
DATA expTable<>+80(SB)/8, $0x3EFFFFFE3EFFFFFE
DATA expTable<>+88(SB)/8, $0x3EFFFFFE3EFFFFFE
DATA expTable<>+96(SB)/8, $0x3F8000003F800000
DATA expTable<>+104(SB)/8, $0x3F8000003F800000
DATA expTable<>+112(SB)/8, $0x0000007F0000007F
DATA expTable<>+120(SB)/8, $0x0000007F0000007F
DATA expTable<>+128(SB)/8, $0xC2AEAC4FC2AEAC4F
DATA expTable<>+136(SB)/8, $0xC2AEAC4FC2AEAC4F
DATA expTable<>+144(SB)/8, $0x42B0BD7142B0BD71
DATA expTable<>+152(SB)/8, $0x42B0BD7142B0BD71
DATA expTable<>+160(SB)/8, $0x7F8000007F800000
DATA expTable<>+168(SB)/8, $0x7F8000007F800000
DATA expTable<>+176(SB)/8, $0x0000000000000000
DATA expTable<>+184(SB)/8, $0x0000000000000000
GLOBL expTable<>(SB), RODATA|NOPTR, $192

// The constants into V20-V30. V31 is the spare row.
#define EXPLOAD(ptr) \
	MOVD  $expTable<>(SB), ptr; \
	FLDPQ (ptr), (F20, F21); \
	FLDPQ 32(ptr), (F22, F23); \
	FLDPQ 64(ptr), (F24, F25); \
	FLDPQ 96(ptr), (F26, F27); \
	FLDPQ 128(ptr), (F28, F29); \
	FLDPQ 160(ptr), (F30, F31)

// q = Exp(x). t, r and u are scratch; T, Q and U name t, q and u as the Go
// assembler does. x may be NaN: no comparison takes it.
#define EXP(x, t, r, q, u, T, Q, U) \
	FMULE(t, x, 20, 0); \
	FADDV(t, t, 21); \
	FSUBV(r, t, 21); \
	FMULE(q, r, 20, 1); \
	FSUBV(q, x, q); \
	FMULE(r, r, 20, 2); \
	FSUBV(r, q, r); \
	FMULE(q, r, 20, 3); \
	FADDV(q, q, 22); \
	FMULV(q, q, r); \
	FADDV(q, q, 23); \
	FMULV(q, q, r); \
	FADDV(q, q, 24); \
	FMULV(q, q, r); \
	FADDV(q, q, 25); \
	FMULV(u, r, r); \
	VADD V27.S4, T.S4, T.S4; \
	FMULV(q, q, u); \
	VSHL $23, T.S4, T.S4; \
	FADDV(q, q, r); \
	FCMGTV(u, x, 29); \
	FADDV(q, q, 26); \
	FMULV(q, q, t); \
	VBIT U.B16, V30.B16, Q.B16; \
	FCMGTV(u, 28, x); \
	BICB(q, q, u)
