// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package kernels

func addScaled(dst, x []float32, w float32) {
	if useAVX2 && len(x) > 0 {
		addScaledAVX2(&dst[0], &x[0], w, len(x))
		return
	}
	addScaledGeneric(dst, x, w)
}

//go:noescape
func addScaledAVX2(dst, x *float32, w float32, n int)
