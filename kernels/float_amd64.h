// SPDX-License-Identifier: Apache-2.0

// What the float32 operations share. Element i of a sum belongs to lane i%16:
// lanes 0-7 are one 256-bit register, 8-15 another.

// TAIL_MASK makes in m0, m1 the masks of the first r lanes, 0 <= r <= 16. Uses
// tmp.
#define TAIL_MASK(r, tmp, m0, m1) \
	LEAQ    ·mask+64(SB), tmp \
	NEGQ    r                 \
	VMOVDQU (tmp)(r*4), m0    \
	VMOVDQU 32(tmp)(r*4), m1  \
	NEGQ    r

// HALF_MASK makes in pairs and word the masks by which TAIL_HALVES reads r
// halves, 1 <= r <= 15, leaving r/2 in half. Uses tmp.
#define HALF_MASK(r, half, tmp, pairs, word) \
	LEAQ    ·wordMask+32(SB), tmp \
	NEGQ    r                     \
	VMOVDQU (tmp)(r*2), word      \
	NEGQ    r                     \
	MOVQ    r, half               \
	SHRQ    $1, half              \
	LEAQ    ·mask+64(SB), tmp     \
	NEGQ    half                  \
	VMOVDQU (tmp)(half*4), pairs  \
	NEGQ    half

// TAIL_HALVES reads r binary16 values at p as float32 to lo (lanes 0-7, of which
// xlo is the low half) and hi, the rest 0, touching nothing beyond them: whole
// pairs by mask, and the last value once more for odd r.
#define TAIL_HALVES(p, r, pairs, word, lo, xlo, hi, xhi) \
	VPMASKMOVD   (p), pairs, lo \
	VPBROADCASTW -2(p)(r*2), hi \
	VPAND        word, hi, hi   \
	VPOR         hi, lo, lo     \
	VEXTRACTI128 $1, lo, xhi    \
	VCVTPH2PS    xlo, lo        \
	VCVTPH2PS    xhi, hi

// FOLD sums the lanes of y0 and y1, 8, 4, 2, 1, to x0, the low part of y0. Uses
// x1, the low part of y1.
#define FOLD(y0, y1, x0, x1) \
	VADDPS       y1, y0, y0 \
	VEXTRACTF128 $1, y0, x1 \
	VADDPS       x1, x0, x0 \
	VPERMILPD    $1, x0, x1 \
	VADDPS       x1, x0, x0 \
	VMOVSHDUP    x0, x1     \
	VADDSS       x1, x0, x0

// EXP computes y = Exp(x) in eight lanes: the steps of exp.go in their order, then
// +Inf over expMax and 0 under expMin, NaN staying. r, t and n are scratch; tab
// holds the address of ·expTable.
#define EXP(x, y, r, t, n, tab) \
	VMULPS    0(tab), x, t          \
	VADDPS    32(tab), t, t         \
	VSUBPS    32(tab), t, n         \
	VMULPS    64(tab), n, y         \
	VSUBPS    y, x, r               \
	VMULPS    96(tab), n, y         \
	VSUBPS    y, r, r               \
	VMULPS    128(tab), r, y        \
	VADDPS    160(tab), y, y        \
	VMULPS    r, y, y               \
	VADDPS    192(tab), y, y        \
	VMULPS    r, y, y               \
	VADDPS    224(tab), y, y        \
	VMULPS    r, y, y               \
	VADDPS    256(tab), y, y        \
	VMULPS    r, r, n               \
	VMULPS    n, y, y               \
	VADDPS    r, y, y               \
	VADDPS    288(tab), y, y        \
	VPADDD    320(tab), t, t        \
	VPSLLD    $23, t, t             \
	VMULPS    t, y, y               \
	VCMPPS    $0x1e, 384(tab), x, n \
	VCMPPS    $0x15, 352(tab), x, t \
	VBLENDVPS n, 416(tab), y, y     \
	VANDPS    t, y, y

// EXP16 is EXP in sixteen lanes, with masks k1 and k2 as scratch. The chain of
// its steps is long: the wider register keeps twice as many values in flight.
#define EXP16(x, y, r, t, n, k1, k2, tab) \
	VMULPS.BCST  0(tab), x, t           \
	VADDPS.BCST  32(tab), t, t          \
	VSUBPS.BCST  32(tab), t, n          \
	VMULPS.BCST  64(tab), n, y          \
	VSUBPS       y, x, r                \
	VMULPS.BCST  96(tab), n, y          \
	VSUBPS       y, r, r                \
	VMULPS.BCST  128(tab), r, y         \
	VADDPS.BCST  160(tab), y, y         \
	VMULPS       r, y, y                \
	VADDPS.BCST  192(tab), y, y         \
	VMULPS       r, y, y                \
	VADDPS.BCST  224(tab), y, y         \
	VMULPS       r, y, y                \
	VADDPS.BCST  256(tab), y, y         \
	VMULPS       r, r, n                \
	VMULPS       n, y, y                \
	VADDPS       r, y, y                \
	VADDPS.BCST  288(tab), y, y         \
	VPADDD.BCST  320(tab), t, t         \
	VPSLLD       $23, t, t              \
	VCMPPS.BCST  $0x15, 352(tab), x, k1 \
	VCMPPS.BCST  $0x1e, 384(tab), x, k2 \
	VMULPS.Z     t, y, k1, y            \
	VBROADCASTSS 416(tab), k2, y
