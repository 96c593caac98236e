// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package kernels

func siluMul(dst, gate, up []float32) {
	if useAVX2 && len(dst) > 0 {
		siluMulAVX2(&dst[0], &gate[0], &up[0], len(dst))
		return
	}
	siluMulGeneric(dst, gate, up)
}

//go:noescape
func siluMulAVX2(dst, gate, up *float32, n int)
