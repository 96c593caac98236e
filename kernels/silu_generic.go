// SPDX-License-Identifier: Apache-2.0

package kernels

func siluMulGeneric(dst, gate, up []float32) {
	for i, g := range gate {
		dst[i] = float32(g/(1+Exp(-g))) * up[i]
	}
}
