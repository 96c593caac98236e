// SPDX-License-Identifier: Apache-2.0

package kernels

func addGeneric(dst, x []float32) {
	for i, v := range x {
		dst[i] += v
	}
}
