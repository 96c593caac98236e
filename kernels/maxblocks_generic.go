// SPDX-License-Identifier: Apache-2.0

package kernels

// maxBlocksGeneric does whole blocks.
func maxBlocksGeneric(dst, x []float32) {
	for i := range dst {
		dst[i] = maxOf(x[i*MaxBlock:][:MaxBlock])
	}
}

// maxOf is the largest of x, at least one, or NaN.
func maxOf(x []float32) float32 {
	m := x[0]
	for _, v := range x[1:] {
		if v > m || v != v {
			m = v
		}
		if m != m {
			break
		}
	}
	return m
}
