// SPDX-License-Identifier: Apache-2.0

package kernels

func expsGeneric(dst, x []float32, top, t float32) {
	for i, v := range x {
		dst[i] = Exp((v - top) / t)
	}
}
