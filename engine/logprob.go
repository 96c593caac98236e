// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"math"

	"windhover/kernels"
)

// remember keeps the raw logits of a token for logprob: pick changes them.
func (s *sampler) remember(logits []float32) {
	if s.raw == nil {
		s.scratch.raw = make([]float32, len(s.cand))
	}
	copy(s.raw, logits)
}

// logprob is that of a token by the logits that were remembered, with those of the
// top best ones. The sum is over float32 shares of the best logit, in float64 by
// id, so that it has the same bits everywhere.
func (s *sampler) logprob(id int32, top int) (Logprob, error) {
	best, err := argmax(s.raw, s.most)
	if err != nil {
		return Logprob{}, err
	}
	most := s.raw[best]
	sum := 0.0
	var block [shareBlock]float32
	for at := 0; at < len(s.raw); at += shareBlock {
		w := block[:min(shareBlock, len(s.raw)-at)]
		kernels.Exps(w, s.raw[at:at+len(w)], most, 1)
		for _, v := range w {
			sum += float64(v)
		}
	}
	norm := naturalLog(sum)
	value := func(logit float32) float32 {
		return float32(max(float64(logit)-float64(most)-norm, -math.MaxFloat32))
	}
	l := Logprob{ID: id, Value: value(s.raw[id])}
	if top > 0 {
		for _, c := range s.top(s.raw, top) {
			l.Top = append(l.Top, Logprob{ID: c.id, Value: value(c.logit)})
		}
	}
	return l, nil
}

// naturalLog is the natural logarithm of a positive finite number, each step rounded, so
// that no machine fuses any: with x = m·2^e and m from 1/√2 to √2 it is
// e·ln 2 + 2·artanh((m-1)/(m+1)), the series to the 23rd power.
func naturalLog(x float64) float64 {
	m, e := math.Frexp(x)
	if m < math.Sqrt2/2 {
		m, e = 2*m, e-1
	}
	s := (m - 1) / (m + 1)
	z := float64(s * s)
	p := 0.0
	for k := 23; k >= 1; k -= 2 {
		p = float64(p*z) + 1/float64(k)
	}
	return float64(float64(e)*math.Ln2) + float64(float64(2*s)*p)
}
