// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package kernels

// kvHalves converts a multiple of 16 halves.
func kvHalves(dst []float32, src []uint16) { f16ToF32Slice(dst, src) }

func kvInt8Keys(dst []float32, scales []uint16, codes []int8, n int) {
	if !useNEON {
		kvInt8KeysGeneric(dst, scales, codes, n)
		return
	}
	hd := len(codes) / n
	for j := 0; j < hd; j += BlockLen {
		for i := 0; i < n; i += lanes { // the lines that the first goes over are near for the others
			at := j*n + i
			kvInt8KeysNEON(&dst[at], &scales[j/BlockLen*n+i], &codes[at], min(hd-j, BlockLen), n)
		}
	}
}

func kvInt8Values(dst []float32, scales []uint16, codes []int8, n int) {
	if !useNEON {
		kvInt8ValuesGeneric(dst, scales, codes, n)
		return
	}
	kvInt8ValuesNEON(&dst[0], &scales[0], &codes[0], len(codes)/n/lanes, n)
}

//go:noescape
func kvInt8KeysNEON(dst *float32, scales *uint16, codes *int8, n, step int)

//go:noescape
func kvInt8ValuesNEON(dst *float32, scales *uint16, codes *int8, groups, n int)
