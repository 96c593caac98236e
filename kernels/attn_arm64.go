// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package kernels

// attnTail is where the columns beyond a multiple of 16 are padded with zeros.
type attnTail struct {
	q [lanes]float32
	//lint:ignore U1000 only the assembly writes and reads it
	k [lanes]uint16
}

func attnScores(scores, q []float32, k []uint16, hd int, scale float32) {
	if !useNEON || len(scores) == 0 {
		attnScoresGeneric(scores, q, k, hd, scale)
		return
	}
	n, rest := hd/lanes, hd%lanes
	var tail attnTail
	copy(tail.q[:], q[n*lanes:])
	attnScoresNEON(&scores[0], &q[0], &k[0], len(scores), n, rest, scale, &tail)
}

func attnAccumulate(out, probs []float32, v []uint16, hd int) {
	if !useNEON || len(probs) == 0 {
		attnAccumulateGeneric(out, probs, v, hd)
		return
	}
	j := 0
	for ; j+64 <= hd; j += 64 {
		attnAccumulate64NEON(&out[j], &probs[0], &v[j], len(probs), 2*hd)
	}
	for ; j+8 <= hd; j += 8 {
		attnAccumulate8NEON(&out[j], &probs[0], &v[j], len(probs), 2*hd)
	}
	for ; j < hd; j++ {
		for i, p := range probs {
			out[j] += float32(p * F16ToF32(v[i*hd+j]))
		}
	}
}

//go:noescape
func attnScoresNEON(scores, q *float32, k *uint16, n, blocks, rest int, scale float32, tail *attnTail)

//go:noescape
func attnAccumulate64NEON(out, probs *float32, v *uint16, n, stride int)

//go:noescape
func attnAccumulate8NEON(out, probs *float32, v *uint16, n, stride int)
