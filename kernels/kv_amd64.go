// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package kernels

// kvHalves converts a multiple of 16 halves.
func kvHalves(dst []float32, src []uint16) {
	if !useAVX2 {
		f16ToF32SliceGeneric(dst, src)
		return
	}
	kvHalvesAVX2(&dst[0], &src[0], len(src)/lanes)
}

func kvInt8Keys(dst []float32, scales []uint16, codes []int8) {
	if !useAVX2 {
		kvInt8KeysGeneric(dst, scales, codes)
		return
	}
	kvInt8KeysAVX2(&dst[0], &scales[0], &codes[0], len(codes)/KVGroup)
}

func kvInt8Values(dst []float32, scales []uint16, codes []int8) {
	if !useAVX2 {
		kvInt8ValuesGeneric(dst, scales, codes)
		return
	}
	kvInt8ValuesAVX2(&dst[0], &scales[0], &codes[0], len(codes)/KVGroup/lanes)
}

//go:noescape
func kvHalvesAVX2(dst *float32, src *uint16, groups int)

//go:noescape
func kvInt8KeysAVX2(dst *float32, scales *uint16, codes *int8, hd int)

//go:noescape
func kvInt8ValuesAVX2(dst *float32, scales *uint16, codes *int8, groups int)
