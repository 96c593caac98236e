// SPDX-License-Identifier: Apache-2.0

package kernels

func ropeHalfGeneric(x, cos, sin []float32) {
	h := len(cos)
	lo, hi := x[:h], x[h:][:h]
	for j, a := range lo {
		b := hi[j]
		lo[j] = float32(a*cos[j]) - float32(b*sin[j])
		hi[j] = float32(b*cos[j]) + float32(a*sin[j])
	}
}
