// SPDX-License-Identifier: Apache-2.0

package kernels

import "fmt"

// Dot is the sum of a[i]*b[i] over 16 lanes: lane i%16 takes
// lane + float32(a[i]*b[i]), i ascending, from +0; then the lanes are folded
// 8, 4, 2, 1 as the package comment says. len(a) = len(b), any length.
func Dot(a, b []float32) float32 {
	if len(a) != len(b) {
		panic(fmt.Sprintf("kernels: Dot: lengths %d and %d", len(a), len(b)))
	}
	return dot(a, b)
}
