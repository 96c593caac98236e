// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package kernels

func ropeHalf(x, cos, sin []float32) {
	h := len(cos)
	n := h &^ 3
	if !useNEON || n == 0 {
		ropeHalfGeneric(x, cos, sin)
		return
	}
	ropeHalfNEON(&x[0], &x[h], &cos[0], &sin[0], n/4)
	for j := n; j < h; j++ {
		a, b := x[j], x[j+h]
		x[j] = float32(a*cos[j]) - float32(b*sin[j])
		x[j+h] = float32(b*cos[j]) + float32(a*sin[j])
	}
}

//go:noescape
func ropeHalfNEON(lo, hi, cos, sin *float32, vectors int)
