// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package kernels

import (
	"fmt"
	"testing"
)

// TestMatMulChunks crosses the borders of gemmChunk, which the shapes of
// TestMatMul are too small for, with every count of tokens left over by a tile
// and of rows left over by a row-major group.
func TestMatMulChunks(t *testing.T) {
	const cols = 64 * BlockLen
	eachImplementation(t, func(t *testing.T) {
		for _, l := range layouts {
			r := newRand(uint64(l) + 40)
			step := max(l.Rows(), 4)
			rows := gemmChunk/(cols/BlockLen*l.BlockBytes())/step*step + 2*step
			if l.Rows() == 1 {
				rows += 3
			}
			m := arrange(t, randBlocks(r, rows*cols/BlockLen, l.Q8(), "random"), rows, cols, l)
			for _, tokens := range []int{1, 9} {
				a := NewActs(tokens, cols)
				a.Quantize(randFloats(r, tokens*cols, "normal"), tokens)
				got, want := make([]float32, tokens*rows), make([]float32, tokens*rows)
				MatMul(got, rows, &m, a, 0, rows)
				matMulGeneric(want, rows, &m, a, 0, rows)
				sameBits(t, fmt.Sprintf("%v %dx%d, %d tokens", l, rows, cols, tokens), got, want)
			}
		}
	})
}
