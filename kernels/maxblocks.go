// SPDX-License-Identifier: Apache-2.0

package kernels

import "fmt"

// MaxBlock is the number of values that [MaxBlocks] takes together.
const MaxBlock = 64

// MaxBlocks makes dst[i] the largest of the values x[64*i:64*i+64], of which the
// last block may have fewer; NaN if one of them is NaN. Of zeros, which are
// equal, it may be either. len(dst) is len(x)/64, rounded up.
func MaxBlocks(dst, x []float32) {
	if len(dst) != (len(x)+MaxBlock-1)/MaxBlock {
		panic(fmt.Sprintf("kernels: MaxBlocks: %d values in %d blocks", len(x), len(dst)))
	}
	n := len(x) / MaxBlock
	if n > 0 {
		maxBlocks(dst[:n], x[:n*MaxBlock])
	}
	if n < len(dst) {
		dst[n] = maxOf(x[n*MaxBlock:])
	}
}
