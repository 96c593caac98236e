// SPDX-License-Identifier: Apache-2.0

//go:build (!amd64 && !arm64) || purego

package kernels

type packed struct{}

// initPack allocates the packed copies that the tiled kernels read.
func (*packed) initPack(maxTokens, cols int) {}

// packActs fills them for tokens [from,to); workers call it at the same time
// for disjoint ranges, a.Tokens being set.
func (*packed) packActs(a *Acts, from, to int) {}

func (*packed) rows(from, n, cols int) packed { return packed{} }

func quantizeActs(q []int8, d []float32, sum []int32, x []float32) {
	quantizeActsGeneric(q, d, sum, x)
}
