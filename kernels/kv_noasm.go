// SPDX-License-Identifier: Apache-2.0

//go:build (!amd64 && !arm64) || purego

package kernels

// kvHalves converts a multiple of 16 halves.
func kvHalves(dst []float32, src []uint16) { f16ToF32Slice(dst, src) }

func kvInt8Keys(dst []float32, scales []uint16, codes []int8, n int) {
	kvInt8KeysGeneric(dst, scales, codes, n)
}

func kvInt8Values(dst []float32, scales []uint16, codes []int8, n int) {
	kvInt8ValuesGeneric(dst, scales, codes, n)
}
