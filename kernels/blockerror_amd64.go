// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package kernels

func maxMagnitude(x []float32) float32 {
	if useAVX2 && len(x) > 0 {
		return maxAbsAVX2(&x[0], len(x))
	}
	return maxMagnitudeGeneric(x)
}

func blockLoss(blocks []byte, x []float32, l Layout) (out [3]float32) {
	switch {
	case !useAVX2 || len(x) == 0:
		return blockLossGeneric(blocks, x, l)
	case l == Q8Row:
		blockLossQ8AVX2(&out, &blocks[0], &x[0], len(x)/BlockLen)
	default:
		blockLossQ4AVX2(&out, &blocks[0], &x[0], len(x)/BlockLen)
	}
	return out
}

//go:noescape
func maxAbsAVX2(x *float32, n int) float32

//go:noescape
func blockLossQ8AVX2(out *[3]float32, blocks *byte, x *float32, nb int)

//go:noescape
func blockLossQ4AVX2(out *[3]float32, blocks *byte, x *float32, nb int)
