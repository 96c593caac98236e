// SPDX-License-Identifier: Apache-2.0

package kernels

// kvInt8KeysGeneric reads codes [hd][n] by scales [blocks][n], n a multiple of 16.
func kvInt8KeysGeneric(dst []float32, scales []uint16, codes []int8, n int) {
	for i, c := range codes {
		dst[i] = float32(c) * F16ToF32(scales[i/(BlockLen*n)*n+i%n])
	}
}

// kvInt8ValuesGeneric reads codes [n][w] by scales [n][blocks].
func kvInt8ValuesGeneric(dst []float32, scales []uint16, codes []int8, n int) {
	w, nb := len(codes)/n, len(scales)/n
	for i, c := range codes {
		dst[i] = float32(c) * F16ToF32(scales[i/w*nb+i%w/BlockLen])
	}
}
