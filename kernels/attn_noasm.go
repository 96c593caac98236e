// SPDX-License-Identifier: Apache-2.0

//go:build (!amd64 && !arm64) || purego

package kernels

func attnScores(scores, q []float32, k []uint16, hd int, scale float32) {
	attnScoresGeneric(scores, q, k, hd, scale)
}

func attnAccumulate(out, probs []float32, v []uint16, hd int) {
	attnAccumulateGeneric(out, probs, v, hd)
}
