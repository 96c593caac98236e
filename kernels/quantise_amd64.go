// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package kernels

func quantizeQ8(dst []byte, src []float32) {
	if useAVX2 && len(src) > 0 {
		quantizeQ8AVX2(&dst[0], &src[0], len(src)/BlockLen)
		return
	}
	quantizeQ8Generic(dst, src)
}

func quantizeQ4(dst []byte, src []float32) {
	if useAVX2 && len(src) > 0 {
		quantizeQ4AVX2(&dst[0], &src[0], len(src)/BlockLen)
		return
	}
	quantizeQ4Generic(dst, src)
}

//go:noescape
func quantizeQ8AVX2(dst *byte, src *float32, nb int)

//go:noescape
func quantizeQ4AVX2(dst *byte, src *float32, nb int)
