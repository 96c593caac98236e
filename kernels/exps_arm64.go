// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package kernels

func exps(dst, x []float32, top, t float32) {
	n := len(x) &^ 3
	if !useNEON || n == 0 {
		expsGeneric(dst, x, top, t)
		return
	}
	expsNEON(&dst[0], &x[0], n/4, top, t)
	expsGeneric(dst[n:], x[n:], top, t)
}

//go:noescape
func expsNEON(dst, x *float32, vectors int, top, t float32)
