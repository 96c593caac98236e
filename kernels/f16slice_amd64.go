// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package kernels

func f32ToF16Slice(dst []uint16, src []float32) {
	if useAVX2 && len(src) > 0 {
		f32ToF16AVX2(&dst[0], &src[0], len(src))
		return
	}
	f32ToF16SliceGeneric(dst, src)
}

func f16ToF32Slice(dst []float32, src []uint16) {
	if useAVX2 && len(src) > 0 {
		f16ToF32AVX2(&dst[0], &src[0], len(src))
		return
	}
	f16ToF32SliceGeneric(dst, src)
}

//go:noescape
func f32ToF16AVX2(dst *uint16, src *float32, n int)

//go:noescape
func f16ToF32AVX2(dst *float32, src *uint16, n int)
