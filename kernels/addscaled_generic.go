// SPDX-License-Identifier: Apache-2.0

package kernels

func addScaledGeneric(dst, x []float32, w float32) {
	for i, v := range x {
		dst[i] += float32(w * v)
	}
}
