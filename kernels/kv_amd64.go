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

func kvInt8Keys(dst []float32, scales []uint16, codes []int8, n int) {
	if !useAVX2 {
		kvInt8KeysGeneric(dst, scales, codes, n)
		return
	}
	hd := len(codes) / n
	for j := 0; j < hd; j += BlockLen {
		for i := 0; i < n; i += lanes { // the lines that the first goes over are near for the others
			at := j*n + i
			kvInt8KeysAVX2(&dst[at], &scales[j/BlockLen*n+i], &codes[at], min(hd-j, BlockLen), n)
		}
	}
}

func kvInt8Values(dst []float32, scales []uint16, codes []int8, n int) {
	if !useAVX2 {
		kvInt8ValuesGeneric(dst, scales, codes, n)
		return
	}
	kvInt8ValuesAVX2(&dst[0], &scales[0], &codes[0], len(codes)/n/lanes, n)
}

//go:noescape
func kvHalvesAVX2(dst *float32, src *uint16, groups int)

//go:noescape
func kvInt8KeysAVX2(dst *float32, scales *uint16, codes *int8, n, step int)

//go:noescape
func kvInt8ValuesAVX2(dst *float32, scales *uint16, codes *int8, groups, n int)
