// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"encoding/binary"
	"math"

	"windhover/kernels"
)

// A phase is a piece of the forward pass in which the workers need nothing of
// each other. It is cut into units (units.go), of which each worker has a share:
// units next to each other, so that it reads the weights as one long stream.
// Which worker does a unit does not matter to the result.
type phase uint8

const (
	phaseAttnNorm  phase = iota // by token: residual of the block before is in x
	phaseProduct                // by rows of the matrices in jobs
	phaseRope                   // by token, a single one by kv head: q/k norm, RoPE, into the cache
	phaseAttention              // by heads and runs of tokens, attention.go
	phaseAttnOut                // by token: attention output to int8
	phaseFFNNorm                // by token: norm
	phaseGatedPair              // by rows: gate and up, then SiLU(gate)*up
	phaseGated                  // by token: gated values to int8
	phaseFinalNorm              // by token of the head

	// Of a mixture of experts, moe_phases.go.
	phaseRoute   // by experts: the router's product
	phaseChoose  // by token: its experts
	phaseGather  // by expert: its tokens' input
	phaseExperts // by rows of the experts: gate and up, then SiLU(gate)*up
	phaseInner   // by expert: gated values to int8
	phaseDown    // by rows of down: all experts, into the residual
)

// operand is the right-hand side of a product: int8, or float32 in the
// reference path.
type operand struct {
	acts *kernels.Acts // nil in the reference path
	x    []float32     // [tokens][cols], what acts is made from
}

// product is one matrix and where its rows go, dst [tokens][stride].
type product struct {
	m      *kernels.Matrix
	dst    []float32
	stride int       // at least m.Rows
	sum    []float32 // if not nil, [tokens][stride]: takes dst added to it
}

// into is a product whose rows are all there is in dst.
func into(m *kernels.Matrix, dst []float32) product { return product{m: m, dst: dst, stride: m.Rows} }

// addTo is a product that is added to the residual x, by way of dst.
func addTo(x []float32, m *kernels.Matrix, dst []float32) product {
	return product{m: m, dst: dst, stride: m.Rows, sum: x}
}

const (
	unitOps  = 32 << 20 // multiply-adds a unit of a product, about: some ms
	unitRows = 16       // rows a unit is a multiple of; every group height divides it
)

// run does a phase that is cut by token. A single token stays on the calling
// goroutine, but for phaseRope: writing its keys, which are apart in the cache,
// takes longer than all its other small phases together.
func (s *state) run(p phase) {
	if p == phaseRope && s.tokens == 1 {
		s.start(p, s.cfg.KVHeads, false)
		return
	}
	s.start(p, s.tokens, s.tokens == 1)
}

// multiply does products that share their right-hand side.
func (s *state) multiply(in operand, jobs ...product) {
	s.in = in
	s.njobs = copy(s.jobs[:], jobs)
	rows := 0
	for i := range jobs {
		rows += jobs[i].m.Rows
	}
	s.chooseRows(rows, jobs[0].m.Cols)
	units := 0
	for i := range jobs {
		units += (jobs[i].m.Rows + s.unit - 1) / s.unit
	}
	s.start(phaseProduct, units, false)
}

// multiplyGated leaves SiLU(gate)*up in gate.dst.
func (s *state) multiplyGated(in operand, gate, up product) {
	s.in = in
	s.jobs[0], s.jobs[1] = gate, up
	s.chooseRows(gate.m.Rows, 2*gate.m.Cols)
	s.start(phaseGatedPair, (gate.m.Rows+s.unit-1)/s.unit, false)
}

// chooseRows sets s.unit for products of rows rows with all tokens.
func (s *state) chooseRows(rows, cols int) { s.unit = s.rowsOfUnit(rows, s.tokens*cols) }

// rowsOfUnit is how many of rows rows a unit has, each of which takes ops
// multiply-adds: so few that the workers end together and that a cancelled pass
// ends soon, else many.
func (s *state) rowsOfUnit(rows, ops int) int {
	share := rows / (4 * s.pool.Size())
	short := unitOps / ops
	if s.float {
		short /= 16 // about what it is slower by
	}
	return max(min(share, short)/unitRows, 1) * unitRows
}

// start runs a phase on all workers, or alone on this goroutine, unless the
// pass has failed already.
func (s *state) start(p phase, units int, alone bool) {
	if s.err != nil {
		return
	}
	if s.stop.Load() {
		s.err = errStopped
		return
	}
	s.phase = p
	s.units.begin(units)
	if alone {
		s.Run(0, 1)
	} else if err := s.pool.Run(s); err != nil {
		s.err = err
		return
	}
	if s.stop.Load() {
		s.err = errStopped
	}
}

// Run makes the state a task of the pool.
func (s *state) Run(worker, workers int) {
	from := 0
	for {
		u, ok := s.units.take(worker, workers, &from)
		if !ok || s.stop.Load() {
			return
		}
		s.do(worker, u)
	}
}

// do does unit u.
func (s *state) do(worker, u int) {
	switch s.phase {
	case phaseProduct:
		s.productUnit(worker, u)
	case phaseGatedPair:
		s.gatedUnit(worker, u)
	case phaseAttention:
		s.attentionUnit(worker, u)
	case phaseRoute, phaseChoose, phaseGather, phaseExperts, phaseInner, phaseDown:
		s.mixtureUnit(worker, u)
	default:
		s.tokenUnit(u)
	}
}

// tokenUnit does the phases that are cut by token.
func (s *state) tokenUnit(t int) {
	dim := s.cfg.Dim
	w := s.weights
	switch s.phase {
	case phaseAttnNorm:
		s.normalise(s.norm[t*dim:][:dim], s.x[t*dim:][:dim], w.attnNorm)
		s.quantise(s.inDim, t)
	case phaseRope:
		if s.tokens == 1 {
			s.ropeHeads(w, 0, t, t+1)
		} else {
			s.ropeHeads(w, t, 0, s.cfg.KVHeads)
		}
	case phaseAttnOut:
		s.quantise(s.inAtt, t)
	case phaseFFNNorm:
		s.normalise(s.norm[t*dim:][:dim], s.x[t*dim:][:dim], w.ffnNorm)
		s.quantise(s.inDim, t)
	case phaseGated:
		s.quantise(s.inFFN, t)
	case phaseFinalNorm:
		row := s.rows[t]
		s.normalise(s.norm[t*dim:][:dim], s.x[row*dim:][:dim], s.w.finalNorm)
		s.quantise(s.in, t)
	}
}

func (s *state) quantise(in operand, t int) {
	if in.acts != nil {
		in.acts.QuantizeRange(in.x, t, t+1)
	}
}

func (s *state) normalise(dst, x, w []float32) {
	if s.float {
		refNorm(dst, x, w, s.cfg.NormEps)
		return
	}
	kernels.RMSNorm(dst, x, w, s.cfg.NormEps)
}

// ropeHeads norms and turns kv heads g0 to g1-1 of a token and their query heads,
// and puts k and v in the sequence's page.
func (s *state) ropeHeads(w *layerWeights, t, g0, g1 int) {
	hd := s.cfg.HeadDim
	cos, sin := s.cos[t*hd/2:][:hd/2], s.sin[t*hd/2:][:hd/2]
	turn := func(head, norm []float32) {
		if s.cfg.QKNorm {
			s.normalise(head, head, norm)
		}
		if s.float {
			refRope(head, cos, sin)
			return
		}
		kernels.RopeHalf(head, cos, sin)
	}
	q, k, v := s.q[t*s.cfg.QO():], s.k[t*s.cfg.KO():], s.v[t*s.cfg.KO():]
	group := s.cfg.Heads / s.cfg.KVHeads
	for h := g0 * group; h < g1*group; h++ {
		turn(q[h*hd:][:hd], w.qNorm)
	}
	sp := &s.spans[s.spanOf[t]]
	pos := sp.pos + t - sp.row
	pg := sp.seq.pages[pos/kernels.AttnBlock]
	for g := g0; g < g1; g++ {
		turn(k[g*hd:][:hd], w.kNorm)
		s.kv.store(pg, s.layer, g, pos%kernels.AttnBlock, k[g*hd:][:hd], v[g*hd:][:hd])
	}
}

// productUnit does s.unit rows of one of the matrices.
func (s *state) productUnit(worker, u int) {
	for i := range s.jobs[:s.njobs] {
		job := &s.jobs[i]
		n := (job.m.Rows + s.unit - 1) / s.unit
		if u < n {
			r0, r1 := u*s.unit, min((u+1)*s.unit, job.m.Rows)
			s.rowsOf(job, worker, r0, r1)
			for t := 0; job.sum != nil && t < s.tokens; t++ {
				at := t * job.stride
				kernels.Add(job.sum[at+r0:at+r1], job.dst[at+r0:at+r1])
			}
			return
		}
		u -= n
	}
}

func (s *state) gatedUnit(worker, u int) {
	gate, up := &s.jobs[0], &s.jobs[1]
	r0, r1 := u*s.unit, min((u+1)*s.unit, gate.m.Rows)
	s.rowsOf(gate, worker, r0, r1)
	s.rowsOf(up, worker, r0, r1)
	for t := range s.tokens {
		g, v := gate.dst[t*gate.m.Rows:][r0:r1], up.dst[t*up.m.Rows:][r0:r1]
		if s.float {
			refSiluMul(g, v)
			continue
		}
		kernels.SiluMul(g, g, v)
	}
}

func (s *state) rowsOf(job *product, worker, r0, r1 int) {
	if s.float {
		row := s.row[worker*s.widest():][:job.m.Cols]
		refProduct(job.dst, job.stride, job.m, s.in.x, s.tokens, r0, r1, row)
		return
	}
	kernels.MatMul(job.dst, job.stride, job.m, s.in.acts, r0, r1)
}

// lookUp copies the embeddings of the pass's tokens to x.
func (s *state) lookUp() error {
	for i := range s.spans {
		sp := &s.spans[i]
		for t, id := range sp.tokens {
			if err := s.lookUpOne(s.x[(sp.row+t)*s.cfg.Dim:][:s.cfg.Dim], id); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *state) lookUpOne(dst []float32, id int32) error {
	src, err := s.w.res.embedding(id)
	if err != nil {
		return err
	}
	if s.w.embedF32 {
		src = src[:4*len(dst)]
		for i := range dst {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
		}
		return nil
	}
	src = src[:2*len(dst)]
	for i := range dst {
		dst[i] = kernels.F16ToF32(binary.LittleEndian.Uint16(src[2*i:]))
	}
	return nil
}
