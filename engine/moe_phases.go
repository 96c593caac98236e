// SPDX-License-Identifier: Apache-2.0

package engine

import "windhover/kernels"

// mixture adds the experts' part of a layer to x, from s.norm and s.inDim. The
// residency hears which experts it takes before the first of them is read, and may
// give them a few at a time.
func (s *state) mixture() {
	m, c := s.moe, s.cfg
	s.start(phaseRoute, (c.NExperts+routeExperts-1)/routeExperts, false)
	s.start(phaseChoose, s.tokens, s.tokens == 1)
	if s.err != nil {
		return
	}
	m.group(s.tokens)
	if m.routed != nil {
		m.routed(s.layer, m.ids[:s.tokens*c.TopK])
	}
	if s.inFFN.acts != nil {
		m.in.SetTokens(m.pairs)
		s.inFFN.acts.SetTokens(m.pairs)
	}
	for at := 0; at < len(m.used) && s.err == nil; at += len(m.experts) {
		m.batch = m.used[at:]
		m.experts, s.err = s.w.res.experts(s.layer, m.batch, &s.stop)
		if s.err != nil {
			return
		}
		m.batch = m.batch[:len(m.experts)]
		s.expertsOfBatch()
	}
}

// expertsOfBatch computes with the experts in hand.
func (s *state) expertsOfBatch() {
	m, c := s.moe, s.cfg
	n, most := len(m.batch), 0
	for _, e := range m.batch {
		most = max(most, int(m.count[e]))
	}
	if most > 1 && !s.float {
		s.start(phaseGather, n, false)
	}
	s.unit = min(s.rowsOfUnit(n*c.MoEFFN, most*2*c.Dim), c.MoEFFN)
	s.start(phaseExperts, n*s.expertUnits(), false)
	s.start(phaseInner, n, s.tokens == 1)
	s.gatherWindows()
	s.chooseRows(c.Dim, c.FFN)
	s.start(phaseDown, (c.Dim+s.unit-1)/s.unit, false)
}

// gatherWindows sees whether down of the experts in hand are windows that one token is
// multiplied by, which are then read together.
func (s *state) gatherWindows() {
	m := s.moe
	m.windows = m.windows[:0]
	if s.tokens > 1 || s.float {
		return
	}
	for i, e := range m.batch {
		w, row := &m.experts[i], int(m.first[e])
		if w.left != nil || w.down.Pitch == 0 {
			m.windows = m.windows[:0]
			return
		}
		m.windows = append(m.windows, kernels.Product{Matrix: w.down, Acts: s.inFFN.acts.Rows(row, 1), Weight: m.weight[row]})
	}
}

// expertUnits is how many units the rows of an expert's gate are.
func (s *state) expertUnits() int { return (s.cfg.MoEFFN + s.unit - 1) / s.unit }

// mixtureUnit does unit u of a phase of the mixture.
func (s *state) mixtureUnit(worker, u int) {
	m := s.moe
	switch s.phase {
	case phaseRoute:
		s.routeUnit(u)
	case phaseChoose:
		s.chooseUnit(u)
	case phaseGather:
		tokens, first := m.tokensOf(m.batch[u])
		for i, t := range tokens {
			if len(tokens) > 1 {
				m.in.CopyRow(first+i, s.inDim.acts, int(t))
			}
		}
	case phaseExperts:
		n := s.expertUnits()
		s.expertUnit(worker, u/n, u%n*s.unit)
	case phaseInner:
		if tokens, first := m.tokensOf(m.batch[u]); !s.float {
			s.inFFN.acts.QuantizeRange(s.gate, first, first+len(tokens))
		}
	case phaseDown:
		s.downUnit(worker, u*s.unit)
	}
}

// expertUnit does rows of gate and up of an expert in hand, from r0 on.
func (s *state) expertUnit(worker, i, r0 int) {
	m, c, w := s.moe, s.cfg, &s.moe.experts[i]
	r1 := min(r0+s.unit, c.MoEFFN)
	tokens, first := m.tokensOf(m.batch[i])
	gate, up := s.gate[first*c.MoEFFN:], s.up[first*c.MoEFFN:]
	if s.float {
		row := s.row[worker*s.widest():][:c.Dim]
		for i, t := range tokens {
			g, v, h := gate[i*c.MoEFFN:], up[i*c.MoEFFN:], s.norm[int(t)*c.Dim:]
			refProduct(g, c.MoEFFN, &w.gate, h, 1, r0, r1, row)
			refProduct(v, c.MoEFFN, &w.up, h, 1, r0, r1, row)
			refSiluMul(g[r0:r1], v[r0:r1])
		}
		return
	}
	in := s.inDim.acts
	if len(tokens) > 1 {
		in = m.in
	} else {
		first = int(tokens[0])
	}
	acts := in.Rows(first, len(tokens))
	kernels.MatMul(gate, c.MoEFFN, &w.gate, &acts, r0, r1)
	kernels.MatMul(up, c.MoEFFN, &w.up, &acts, r0, r1)
	for i := range tokens {
		g, v := gate[i*c.MoEFFN:][r0:r1], up[i*c.MoEFFN:][r0:r1]
		kernels.SiluMul(g, g, v)
	}
}

// downUnit does rows of down from r0 on, of all experts in hand one after the other,
// and adds them to x. Results of an expert are in the first rows of proj meanwhile.
func (s *state) downUnit(worker, r0 int) {
	m, c := s.moe, s.cfg
	r1 := min(r0+s.unit, c.Dim)
	if len(m.windows) > 0 {
		kernels.AddProducts(s.x, s.proj, m.windows, r0, r1)
		return
	}
	for i, e := range m.batch {
		tokens, first := m.tokensOf(e)
		down := &m.experts[i].down
		if w := &m.experts[i]; w.left != nil {
			down.CopyRows(w.packed.Data, r0, r1)
			w.left.Add(int32(r0 - r1))
			down = w.packed
		}
		if s.float {
			row := s.row[worker*s.widest():][:c.MoEFFN]
			refProduct(s.proj, c.Dim, down, s.gate[first*c.MoEFFN:], len(tokens), r0, r1, row)
		} else {
			acts := s.inFFN.acts.Rows(first, len(tokens))
			kernels.MatMul(s.proj, c.Dim, down, &acts, r0, r1)
		}
		for i, t := range tokens {
			x, y, w := s.x[int(t)*c.Dim:][r0:r1], s.proj[i*c.Dim:][r0:r1], m.weight[first+i]
			if s.float {
				refAddScaled(x, y, w)
			} else {
				kernels.AddScaled(x, y, w)
			}
		}
	}
}
