// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package kernels

func dot(a, b []float32) float32 {
	if useAVX2 && len(a) > 0 {
		return dotAVX2(&a[0], &b[0], len(a))
	}
	return dotGeneric(a, b)
}

//go:noescape
func dotAVX2(a, b *float32, n int) float32
