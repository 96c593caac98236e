// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package kernels

func maxMagnitude(x []float32) float32 {
	n := len(x) &^ 15
	if !useNEON || n == 0 {
		return maxMagnitudeGeneric(x)
	}
	m := maxAbsNEON(&x[0], n/16)
	if n == len(x) {
		return m
	}
	return maxMagnitudeGeneric([]float32{m, maxMagnitudeGeneric(x[n:])})
}

func blockLoss(blocks []byte, x []float32, l Layout) (out [3]float32) {
	switch {
	case !useNEON || len(x) == 0:
		return blockLossGeneric(blocks, x, l)
	case l == Q8Row:
		blockLossQ8NEON(&out, &blocks[0], &x[0], len(x)/BlockLen)
	default:
		blockLossQ4NEON(&out, &blocks[0], &x[0], len(x)/BlockLen)
	}
	return out
}

//go:noescape
func maxAbsNEON(x *float32, blocks int) float32

//go:noescape
func blockLossQ8NEON(out *[3]float32, blocks *byte, x *float32, nb int)

//go:noescape
func blockLossQ4NEON(out *[3]float32, blocks *byte, x *float32, nb int)
