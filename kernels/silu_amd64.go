// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package kernels

func siluMul(dst, gate, up []float32) {
	switch {
	case len(dst) == 0:
	case useAVX512:
		siluMulAVX512(&dst[0], &gate[0], &up[0], len(dst))
	case useAVX2:
		siluMulAVX2(&dst[0], &gate[0], &up[0], len(dst))
	default:
		siluMulGeneric(dst, gate, up)
	}
}

//go:noescape
func siluMulAVX2(dst, gate, up *float32, n int)

//go:noescape
func siluMulAVX512(dst, gate, up *float32, n int)
