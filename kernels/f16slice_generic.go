// SPDX-License-Identifier: Apache-2.0

package kernels

func f32ToF16SliceGeneric(dst []uint16, src []float32) {
	for i, f := range src {
		dst[i] = F32ToF16(f)
	}
}

func f16ToF32SliceGeneric(dst []float32, src []uint16) {
	for i, h := range src {
		dst[i] = F16ToF32(h)
	}
}
