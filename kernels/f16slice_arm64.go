// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package kernels

func f32ToF16Slice(dst []uint16, src []float32) {
	n := len(src) &^ 7
	if !useNEON || n == 0 {
		f32ToF16SliceGeneric(dst, src)
		return
	}
	f32ToF16NEON(&dst[0], &src[0], n/8)
	f32ToF16SliceGeneric(dst[n:], src[n:])
}

func f16ToF32Slice(dst []float32, src []uint16) {
	n := len(src) &^ 7
	if !useNEON || n == 0 {
		f16ToF32SliceGeneric(dst, src)
		return
	}
	f16ToF32NEON(&dst[0], &src[0], n/8)
	f16ToF32SliceGeneric(dst[n:], src[n:])
}

//go:noescape
func f32ToF16NEON(dst *uint16, src *float32, blocks int)

//go:noescape
func f16ToF32NEON(dst *float32, src *uint16, blocks int)
