// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package kernels

// kvHalves converts a multiple of 16 halves.
func kvHalves(dst []float32, src []uint16) { f16ToF32Slice(dst, src) }

func kvInt8Keys(dst []float32, scales []uint16, codes []int8) {
	if !useNEON {
		kvInt8KeysGeneric(dst, scales, codes)
		return
	}
	kvInt8KeysNEON(&dst[0], &scales[0], &codes[0], len(codes)/KVGroup)
}

func kvInt8Values(dst []float32, scales []uint16, codes []int8) {
	if !useNEON {
		kvInt8ValuesGeneric(dst, scales, codes)
		return
	}
	kvInt8ValuesNEON(&dst[0], &scales[0], &codes[0], len(codes)/KVGroup/lanes)
}

//go:noescape
func kvInt8KeysNEON(dst *float32, scales *uint16, codes *int8, hd int)

//go:noescape
func kvInt8ValuesNEON(dst *float32, scales *uint16, codes *int8, groups int)
