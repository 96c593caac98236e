// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package kernels

func siluMul(dst, gate, up []float32) {
	n := len(gate) &^ 3
	if !useNEON || n == 0 {
		siluMulGeneric(dst, gate, up)
		return
	}
	siluMulNEON(&dst[0], &gate[0], &up[0], n/4)
	siluMulGeneric(dst[n:], gate[n:], up[n:])
}

//go:noescape
func siluMulNEON(dst, gate, up *float32, vectors int)
