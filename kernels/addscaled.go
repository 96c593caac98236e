// SPDX-License-Identifier: Apache-2.0

package kernels

// AddScaled computes dst[i] = dst[i] + float32(w*x[i]).
func AddScaled(dst, x []float32, w float32) {
	checkLen("AddScaled", len(dst), len(x))
	addScaled(dst, x, w)
}
