// SPDX-License-Identifier: Apache-2.0

package kernels

import "fmt"

// MaxAbs returns the largest magnitude in x, 0 if there is nothing: infinity is
// above every number, and NaN above infinity.
func MaxAbs(x []float32) float32 { return maxMagnitude(x) }

// BlockError tells what storing x as row-major blocks in layout l, Q8Row or
// Q4Row, took away: with w the stored values, lost is the sum of (x-w)^2, all
// that of x^2, and most the largest |x-w|. len(x) is a multiple of 32, blocks
// are finite. w and x-w are each one rounded float32 operation, and so are the
// squares; the sums have 16 lanes, as all sums here do.
func BlockError(blocks []byte, x []float32, l Layout) (lost, all, most float32) {
	if l != Q8Row && l != Q4Row || len(x)%BlockLen != 0 || len(blocks) != len(x)/BlockLen*l.BlockBytes() {
		panic(fmt.Sprintf("kernels: BlockError: %d bytes in layout %v of %d values", len(blocks), l, len(x)))
	}
	s := blockLoss(blocks, x, l)
	return s[0], s[1], s[2]
}
