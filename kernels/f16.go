// SPDX-License-Identifier: Apache-2.0

package kernels

import "math"

// F16ToF32 converts an IEEE 754 binary16 value, exactly.
func F16ToF32(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	exp := uint32(h>>10) & 0x1F
	man := uint32(h & 0x3FF)
	switch exp {
	case 0: // zero or subnormal: man * 2^-24, exact in float32
		f := float32(man) * 0x1p-24
		return math.Float32frombits(math.Float32bits(f) | sign)
	case 0x1F: // infinity, NaN (made quiet, payload kept, as SIMD converts)
		if man != 0 {
			man |= 0x200
		}
		return math.Float32frombits(sign | 0x7F800000 | man<<13)
	}
	return math.Float32frombits(sign | (exp+112)<<23 | man<<13)
}

// F32ToF16 converts to binary16 rounding to nearest even, with subnormals;
// every NaN becomes sign|0x7E00 (docs/FORMAT.md section 7.1, RNE).
func F32ToF16(f float32) uint16 {
	b := math.Float32bits(f)
	sign := uint16(b>>16) & 0x8000
	b &= 0x7FFFFFFF
	switch {
	case b > 0x7F800000:
		return sign | 0x7E00
	case b >= 0x47800000: // 65536 and up
		return sign | 0x7C00
	case b < 0x33000000: // below 2^-25
		return sign
	case b < 0x38800000: // below 2^-14: subnormal
		shift := 126 - b>>23 // 24-bit mantissa to units of 2^-24
		man := b&0x7FFFFF | 0x800000
		half := uint32(1) << (shift - 1)
		h := man >> shift
		if rest := man & (half<<1 - 1); rest > half || rest == half && h&1 == 1 {
			h++
		}
		return sign | uint16(h)
	}
	// The carry of the rounding may run into the exponent, and from the
	// largest exponent to infinity, as it should.
	h := (b - 112<<23 + 0xFFF + b>>13&1) >> 13
	return sign | uint16(h)
}

// F32ToF16Trunc converts to binary16 by dropping mantissa bits; magnitudes
// under 2^-14 become signed zero, those from 65536 up, infinities and NaN become
// signed infinity (docs/FORMAT.md section 7.1, TRUNC). Embedding tables are
// stored so.
func F32ToF16Trunc(f float32) uint16 {
	b := math.Float32bits(f)
	sign := uint16(b>>16) & 0x8000
	b &= 0x7FFFFFFF
	switch {
	case b < 0x38800000:
		return sign
	case b >= 0x47800000:
		return sign | 0x7C00
	}
	return sign | uint16((b-112<<23)>>13)
}
