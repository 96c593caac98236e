// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package kernels

func exps(dst, x []float32, top, t float32) {
	n := len(x) &^ 7
	if !useAVX2 || n == 0 {
		expsGeneric(dst, x, top, t)
		return
	}
	expsAVX2(&dst[0], &x[0], n/8, top, t)
	expsGeneric(dst[n:], x[n:], top, t)
}

//go:noescape
func expsAVX2(dst, x *float32, vectors int, top, t float32)
