// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package kernels

func maxBlocks(dst, x []float32) {
	if useAVX2 {
		maxBlocksAVX2(&dst[0], &x[0], len(dst))
		return
	}
	maxBlocksGeneric(dst, x)
}

//go:noescape
func maxBlocksAVX2(dst, x *float32, blocks int)
