// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package kernels

func addScaled(dst, x []float32, w float32) {
	n := len(x) &^ 3
	if !useNEON || n == 0 {
		addScaledGeneric(dst, x, w)
		return
	}
	addScaledNEON(&dst[0], &x[0], w, n/4)
	addScaledGeneric(dst[n:], x[n:], w)
}

//go:noescape
func addScaledNEON(dst, x *float32, w float32, vectors int)
