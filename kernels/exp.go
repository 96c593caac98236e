// SPDX-License-Identifier: Apache-2.0

package kernels

import "math"

// The steps of Exp. ln2Hi has 9 significant bits, so that n*ln2Hi is exact;
// expC2 to expC6 minimise the relative error over |r| <= 0.3467 (3.1e-9 before
// rounding).
const (
	expMin = -87.33654 // results below the smallest normal number are 0
	expMax = 88.37     // 2^n stays finite: n <= 127
	log2e  = 0x1.715476p+0
	ln2Hi  = 0x1.63p-1
	ln2Lo  = -0x1.bd0106p-13
	magic  = 0x1.8p+23 // adding it rounds to an integer in the low bits
	expC2  = 0x1.fffffcp-2
	expC3  = 0x1.555492p-3
	expC4  = 0x1.5558f2p-5
	expC5  = 0x1.123a0ap-7
	expC6  = 0x1.6a23f2p-10
)

// Exp is e to the x within 1 unit in the last place, by float32 multiplications and
// additions only, in this order, each step rounded:
//
//	t = x*log2e + magic; n = t - magic          nearest integer
//	r = (x - n*ln2Hi) - n*ln2Lo
//	q = (((C6*r + C5)*r + C4)*r + C3)*r + C2
//	y = ((q*(r*r)) + r) + 1
//	result = y * 2^n, where 2^n has the bits (bits(t)+127) << 23
//
// x < expMin gives 0, x > expMax +Inf, NaN NaN. Exp(0) is 1 exactly.
func Exp(x float32) float32 {
	switch {
	case x < expMin:
		return 0
	case x > expMax:
		return float32(math.Inf(1))
	case x != x:
		return x
	}
	t := float32(x*log2e) + magic
	n := t - magic
	r := x - float32(n*ln2Hi)
	r -= float32(n * ln2Lo)
	q := float32(expC6*r) + expC5
	q = float32(q*r) + expC4
	q = float32(q*r) + expC3
	q = float32(q*r) + expC2
	y := float32(q*float32(r*r)) + r
	y++
	return y * math.Float32frombits((math.Float32bits(t)+127)<<23)
}
