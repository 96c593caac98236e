// SPDX-License-Identifier: Apache-2.0

//go:build (!amd64 && !arm64) || purego

package kernels

func matMul(dst []float32, ldd int, m *Matrix, a *Acts, row0, row1 int) {
	matMulGeneric(dst, ldd, m, a, row0, row1)
}

// prefetch fetches n bytes from data[from] on, where that can be asked for.
func prefetch(data []byte, from, n int) {}
