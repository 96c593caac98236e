// SPDX-License-Identifier: Apache-2.0

package kernels

// kvInt8KeysGeneric reads codes [hd][KVGroup] by scales [blocks][KVGroup].
func kvInt8KeysGeneric(dst []float32, scales []uint16, codes []int8) {
	for i, c := range codes {
		dst[i] = float32(c) * F16ToF32(scales[i/(BlockLen*KVGroup)*KVGroup+i%KVGroup])
	}
}

// kvInt8ValuesGeneric reads codes [KVGroup][w] by scales [KVGroup][blocks].
func kvInt8ValuesGeneric(dst []float32, scales []uint16, codes []int8) {
	w, nb := len(codes)/KVGroup, len(scales)/KVGroup
	for i, c := range codes {
		dst[i] = float32(c) * F16ToF32(scales[i/w*nb+i%w/BlockLen])
	}
}
