// SPDX-License-Identifier: Apache-2.0

//go:build (!amd64 && !arm64) || purego

package kernels

func maxMagnitude(x []float32) float32 { return maxMagnitudeGeneric(x) }

func blockLoss(blocks []byte, x []float32, l Layout) [3]float32 {
	return blockLossGeneric(blocks, x, l)
}
