// SPDX-License-Identifier: Apache-2.0

package kernels

import "fmt"

// AttnScores computes scores[i] = Dot(q, k[i]) * scale for the len(scores)
// positions of k, binary16 [n][hd] with the positions of one head one after the
// other; q holds hd values.
func AttnScores(scores, q []float32, k []uint16, hd int, scale float32) {
	checkAttn("AttnScores", len(scores), len(q), len(k), hd)
	attnScores(scores, q, k, hd, scale)
}

// AttnAccumulate computes out[j] += float32(probs[i]*v[i][j]) for the
// positions i ascending; v is binary16 [n][hd], out holds hd values.
func AttnAccumulate(out, probs []float32, v []uint16, hd int) {
	checkAttn("AttnAccumulate", len(probs), len(out), len(v), hd)
	attnAccumulate(out, probs, v, hd)
}

func checkAttn(op string, n, head, cache, hd int) {
	if hd < 1 || head != hd || cache < n*hd {
		panic(fmt.Sprintf("kernels: %s: %d positions of %d values, head of %d, cache of %d", op, n, hd, head, cache))
	}
}
