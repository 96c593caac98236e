// SPDX-License-Identifier: Apache-2.0

//go:build (!amd64 && !arm64) || purego

package kernels

const attnDirect = 0

func attnProduct(p floatProduct) { attnProductGeneric(p) }

func attnWeights(x []float32) (m, l float32) { return attnWeightsGeneric(x) }

func attnMerge(o, block []float32, c, d float32) { attnMergeGeneric(o, block, c, d) }
