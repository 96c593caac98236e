// SPDX-License-Identifier: Apache-2.0

package kernels

import "fmt"

// RopeHalf rotates one head in place, half-split (NeoX) form: with h =
// len(x)/2 and j < h,
//
//	x[j]   = float32(x[j]*cos[j]) - float32(x[j+h]*sin[j])
//	x[j+h] = float32(x[j+h]*cos[j]) + float32(x[j]*sin[j])
//
// both from the old values. cos and sin hold h values.
func RopeHalf(x, cos, sin []float32) {
	if len(cos) != len(sin) || len(x) != 2*len(cos) {
		panic(fmt.Sprintf("kernels: RopeHalf: %d values, %d cosines, %d sines", len(x), len(cos), len(sin)))
	}
	ropeHalf(x, cos, sin)
}
