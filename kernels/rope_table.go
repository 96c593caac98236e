// SPDX-License-Identifier: Apache-2.0

package kernels

import "math"

// Rotary position embedding, half-split form: element i of a head is paired
// with element i + headDim/2, and the pair is turned by the angle
// pos * theta^(-2i/headDim), i in [0, headDim/2).
//
// Definition of the tables: the inverse frequency and the angle are float64,
// and so are their cosine and sine; only those are rounded to float32. Every
// float64 step here is rounded by itself: package math would do, but it is
// compiled with fused multiply-adds on arm64 and without on amd64, and a table
// entry that lies near the middle of two float32 values then comes out
// differently. A row depends on its position alone, so it does not matter with
// which others it is computed.
//
// Qwen3-VL's interleaved M-RoPE takes the position of each pair from one of
// three axes. Text has the same position on all three, so that for text it is
// this.

// RopeFreqs returns theta^(-2i/headDim) for i in [0, headDim/2), as powers of
// theta^(-2/headDim). The relative error is below 1e-13.
func RopeFreqs(theta float64, headDim int) []float64 {
	n := headDim / 2
	freqs := make([]float64, n)
	if n == 0 {
		return freqs
	}
	step := root(1/theta, n)
	freqs[0] = 1
	for i := 1; i < n; i++ {
		freqs[i] = float64(freqs[i-1] * step)
	}
	return freqs
}

// root returns the n-th root of x > 0 by bisection between powers of two, down
// to neighbouring numbers.
func root(x float64, n int) float64 {
	lo, hi := 1.0, 1.0
	for power(lo, n) > x {
		lo /= 2
	}
	for power(hi, n) < x {
		hi *= 2
	}
	for {
		mid := lo + (hi-lo)/2
		if mid <= lo || mid >= hi {
			return lo
		}
		if power(mid, n) <= x {
			lo = mid
		} else {
			hi = mid
		}
	}
}

func power(x float64, n int) float64 {
	p := 1.0
	for range n {
		p = float64(p * x)
	}
	return p
}

// RopeRow fills one row of the tables, cos and sin [len(freqs)], for position pos:
// what [RopeHalf] takes.
func RopeRow(cos, sin []float32, freqs []float64, pos int) {
	for i, f := range freqs {
		s, c := sincos(float64(float64(pos) * f))
		cos[i], sin[i] = float32(c), float32(s)
	}
}

// Half of pi in three parts. The first two end in 20 zero bits, so that their
// products with a quadrant count below 2^20 are exact.
const (
	halfPi1 = 1.5707963267341256e+00 // 0x3FF921FB54400000
	halfPi2 = 6.0771005063039660e-11 // 0x3DD0B4611A600000
	halfPi3 = 2.0222662487959506e-21 // 0x3BA3198A2E037073
)

// sincos returns sine and cosine of x in [0, 1.6e6], each to within 2e-15: far
// closer than float32 can tell, the rare entry next to the middle of two float32
// values excepted.
func sincos(x float64) (sin, cos float64) {
	k := math.Floor(float64(x*(2/math.Pi)) + 0.5)
	r := x - float64(k*halfPi1)
	r = r - float64(k*halfPi2)
	r = r - float64(k*halfPi3)
	s, c := sinPoly(r), cosPoly(r)
	switch int(k) & 3 {
	case 0:
		return s, c
	case 1:
		return c, -s
	case 2:
		return -s, -c
	default:
		return -c, s
	}
}

// sinPoly is the Taylor series of sine up to x^17; |x| <= pi/4, where the rest
// is below 1e-19.
func sinPoly(x float64) float64 {
	z := float64(x * x)
	p := 1.0 / 355687428096000
	for _, c := range [...]float64{-1.0 / 1307674368000, 1.0 / 6227020800, -1.0 / 39916800, 1.0 / 362880, -1.0 / 5040, 1.0 / 120, -1.0 / 6, 1} {
		p = float64(p*z) + c
	}
	return float64(p * x)
}

// cosPoly is the Taylor series of cosine up to x^18.
func cosPoly(x float64) float64 {
	z := float64(x * x)
	p := -1.0 / 6402373705728000
	for _, c := range [...]float64{1.0 / 20922789888000, -1.0 / 87178291200, 1.0 / 479001600, -1.0 / 3628800, 1.0 / 40320, -1.0 / 720, 1.0 / 24, -1.0 / 2, 1} {
		p = float64(p*z) + c
	}
	return p
}
