// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package kernels

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
func kvInt8KeysAVX2(dst *float32, scales *uint16, codes *int8, hd int)

//go:noescape
func kvInt8ValuesAVX2(dst *float32, scales *uint16, codes *int8, groups int)
