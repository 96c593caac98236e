// SPDX-License-Identifier: Apache-2.0

package kernels

import "math"

// fma32 is a*b + c rounded once, as the fused instructions of both
// architectures compute it.
//
// The product is exact in float64, and the rounding of the float64 sum to
// float32 is that of the exact sum, unless the sum lies half way between two
// float32: then what it lost decides.
func fma32(a, b, c float32) float32 {
	p, d := float64(a)*float64(b), float64(c)
	s := p + d
	u := math.Float64bits(s)
	if u&(1<<29-1) != 1<<28 && math.Abs(s) >= 0x1p-126 {
		return float32(s)
	}
	// The error of the sum, exactly; then s is made odd on the side of it, so
	// that no float32 boundary is met by chance.
	t := s - p
	e := (p - (s - t)) + (d - t)
	if e != 0 && u&1 == 0 {
		if e > 0 == (s > 0) {
			u++
		} else {
			u--
		}
		s = math.Float64frombits(u)
	}
	return float32(s)
}
