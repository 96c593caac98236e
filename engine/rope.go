// SPDX-License-Identifier: Apache-2.0

package engine

import "math"

// Rotary position embedding, half-split form: element i of a head is paired
// with element i + headDim/2, and the pair is turned by the angle
// pos * theta^(-2i/headDim), i in [0, headDim/2).
//
// Definition of the tables: the inverse frequency and the angle are float64,
// and so are their cosine and sine; only those are rounded to float32. A row
// depends on its position alone, so it does not matter with which others it is
// computed.
//
// Qwen3-VL's interleaved M-RoPE takes the position of each pair from one of
// three axes. Text has the same position on all three, so that for text it is
// this.

// ropeFreqs returns theta^(-2i/headDim) for i in [0, headDim/2).
func ropeFreqs(theta float64, headDim int) []float64 {
	freqs := make([]float64, headDim/2)
	for i := range freqs {
		freqs[i] = math.Pow(theta, -2*float64(i)/float64(headDim))
	}
	return freqs
}

// ropeRow fills one row of the tables, cos and sin [headDim/2], for pos.
func ropeRow(cos, sin []float32, freqs []float64, pos int) {
	for i, f := range freqs {
		s, c := math.Sincos(float64(pos) * f)
		cos[i], sin[i] = float32(c), float32(s)
	}
}
