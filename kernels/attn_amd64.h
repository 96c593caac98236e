// SPDX-License-Identifier: Apache-2.0

// What the products of attention with 64 columns share: a row of sums is z0-z3.
// One value of a row of a is spread over x and multiplied by the columns of b in
// Z24-Z27.

#define MUL4(a, x, z0, z1, z2, z3) \
	VBROADCASTSS a, x      \
	VFMADD231PS  Z24, x, z0 \
	VFMADD231PS  Z25, x, z1 \
	VFMADD231PS  Z26, x, z2 \
	VFMADD231PS  Z27, x, z3

#define ZERO4(z0, z1, z2, z3) \
	VPXORD z0, z0, z0 \
	VPXORD z1, z1, z1 \
	VPXORD z2, z2, z2 \
	VPXORD z3, z3, z3

// A row of sums from and to AX, which goes on to the next.
#define LOAD4(z0, z1, z2, z3) \
	VMOVUPS 0(AX), z0   \
	VMOVUPS 64(AX), z1  \
	VMOVUPS 128(AX), z2 \
	VMOVUPS 192(AX), z3 \
	ADDQ    R13, AX

#define STORE4(z0, z1, z2, z3) \
	VMOVUPS z0, 0(AX)   \
	VMOVUPS z1, 64(AX)  \
	VMOVUPS z2, 128(AX) \
	VMOVUPS z3, 192(AX) \
	ADDQ    R13, AX

