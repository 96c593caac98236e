// SPDX-License-Identifier: Apache-2.0

package kernels

import "fmt"

// Add computes dst[i] += x[i].
func Add(dst, x []float32) {
	if len(dst) != len(x) {
		panic(fmt.Sprintf("kernels: Add: lengths %d and %d", len(dst), len(x)))
	}
	add(dst, x)
}
