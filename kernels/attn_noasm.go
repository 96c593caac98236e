// SPDX-License-Identifier: Apache-2.0

//go:build (!amd64 && !arm64) || purego

package kernels

const attnDirect = 0

func attnProduct(p floatProduct) { attnProductGeneric(p) }

// attnReadsInt8: there is no product with codes as they are.
func attnReadsInt8(int, int) bool { return false }

func attnKeysInt8(floatProduct, []float32, []byte) { panic("kernels: internal error: keys in int8") }

func attnValuesInt8(floatProduct, []float32, []byte) {
	panic("kernels: internal error: values in int8")
}

func attnWeights(x []float32) (m, l float32) { return attnWeightsGeneric(x) }

func attnScale(dst, src []float32, c float32) { attnScaleGeneric(dst, src, c) }

func attnMerge(o, block []float32, c, d float32) { attnMergeGeneric(o, block, c, d) }
