// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package kernels

func maxBlocks(dst, x []float32) {
	if useNEON {
		maxBlocksNEON(&dst[0], &x[0], len(dst))
		return
	}
	maxBlocksGeneric(dst, x)
}

//go:noescape
func maxBlocksNEON(dst, x *float32, blocks int)
