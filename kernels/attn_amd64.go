// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package kernels

func attnScores(scores, q []float32, k []uint16, hd int, scale float32) {
	if useAVX2 && len(scores) > 0 {
		attnScoresAVX2(&scores[0], &q[0], &k[0], len(scores), hd, scale)
		return
	}
	attnScoresGeneric(scores, q, k, hd, scale)
}

func attnAccumulate(out, probs []float32, v []uint16, hd int) {
	if useAVX2 && len(probs) > 0 {
		attnAccumulateAVX2(&out[0], &probs[0], &v[0], len(probs), hd)
		return
	}
	attnAccumulateGeneric(out, probs, v, hd)
}

//go:noescape
func attnScoresAVX2(scores, q *float32, k *uint16, n, hd int, scale float32)

//go:noescape
func attnAccumulateAVX2(out, probs *float32, v *uint16, n, hd int)
