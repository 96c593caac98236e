// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package kernels

func add(dst, x []float32) {
	n := len(x) &^ 3
	if !useNEON || n == 0 {
		addGeneric(dst, x)
		return
	}
	addNEON(&dst[0], &x[0], n/4)
	addGeneric(dst[n:], x[n:])
}

//go:noescape
func addNEON(dst, x *float32, vectors int)
