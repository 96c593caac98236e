// SPDX-License-Identifier: Apache-2.0

package kernels

func attnScoresGeneric(scores, q []float32, k []uint16, hd int, scale float32) {
	for i := range scores {
		row := k[i*hd:][:hd]
		var l [lanes]float32
		for j, h := range row {
			l[j%lanes] += float32(q[j] * F16ToF32(h))
		}
		scores[i] = fold(&l) * scale
	}
}

func attnAccumulateGeneric(out, probs []float32, v []uint16, hd int) {
	for i, p := range probs {
		row := v[i*hd:][:hd]
		for j, h := range row {
			out[j] += float32(p * F16ToF32(h))
		}
	}
}
