// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package kernels

func matMul(dst []float32, ldd int, m *Matrix, a *Acts, row0, row1 int) {
	matMulGeneric(dst, ldd, m, a, row0, row1)
}
