// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"math"
	"slices"

	"windhover/kernels"
)

// The router of a mixture of experts says for every token which of the layer's
// experts compute, and what each one's result counts:
//
//	r = Wrouter h, in float32                    one kernels.Dot an expert
//	p = exp(r - largest r)                       softmax, but for the common divisor
//	the TopK largest p; of equal ones those of the lower expert
//	weight = p / sum of the chosen p, experts ascending
//
// Its weights are as the model has them, and so is h: which experts compute is
// decided by differences that int8 would drown.

// routeExperts is how many experts a unit of the router does: their rows stay in a
// near cache while all tokens pass.
const routeExperts = 4

// routeUnit computes r for routeExperts experts and all tokens.
func (s *state) routeUnit(u int) {
	c, m := s.cfg, s.moe
	for t := range s.tokens {
		h := s.norm[t*c.Dim:][:c.Dim]
		for e := u * routeExperts; e < min((u+1)*routeExperts, c.NExperts); e++ {
			w := s.weights.router[e*c.Dim:][:c.Dim]
			if s.float {
				m.scores[t*c.NExperts+e] = refDot(w, h)
			} else {
				m.scores[t*c.NExperts+e] = kernels.Dot(w, h)
			}
		}
	}
}

// chooseUnit chooses the experts of a token.
func (s *state) chooseUnit(t int) {
	c, m := s.cfg, s.moe
	p := m.scores[t*c.NExperts:][:c.NExperts]
	top := float32(math.Inf(-1))
	for _, r := range p {
		top = max(top, r)
	}
	if s.float {
		for e, r := range p {
			p[e] = float32(math.Exp(float64(r - top)))
		}
	} else {
		kernels.Exps(p, p, top, 1)
	}
	ids := m.ids[t*c.TopK:][:c.TopK]
	largest(ids, p)
	slices.Sort(ids)
	var sum float32
	for _, e := range ids {
		sum += p[e]
	}
	for i, e := range ids {
		m.weights[t*c.TopK+i] = p[e] / sum
	}
}

// largest sets ids to the indices of the largest values, of equal ones the lower
// index; which they are among values that are no numbers does not matter.
func largest(ids []int32, p []float32) {
	n := 0
	for e, v := range p {
		i := n
		for i > 0 && v > p[ids[i-1]] {
			i--
		}
		if i == len(ids) {
			continue
		}
		n = min(n+1, len(ids))
		copy(ids[i+1:n], ids[i:])
		ids[i] = int32(e)
	}
}
