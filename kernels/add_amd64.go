// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package kernels

func add(dst, x []float32) {
	if useAVX2 && len(x) > 0 {
		addAVX2(&dst[0], &x[0], len(x))
		return
	}
	addGeneric(dst, x)
}

//go:noescape
func addAVX2(dst, x *float32, n int)
