// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package kernels

func ropeHalf(x, cos, sin []float32) {
	if h := len(cos); useAVX2 && h > 0 {
		ropeHalfAVX2(&x[0], &x[h], &cos[0], &sin[0], h)
		return
	}
	ropeHalfGeneric(x, cos, sin)
}

//go:noescape
func ropeHalfAVX2(lo, hi, cos, sin *float32, n int)
