// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"math"

	"windhover/kernels"
)

// The decoder, for every token t at position p, in the order it is computed:
//
//	x = embed[t]
//	for each layer:
//	    h = RMSNorm(x) * attn_norm
//	    q, k, v = Wq h, Wk h, Wv h
//	    q, k = RMSNorm by head * q_norm, k_norm      (Qwen3 only)
//	    q, k = RoPE(q, p), RoPE(k, p)
//	    cache[layer][p] = k, v
//	    a = for each head: softmax(q·K / sqrt(headDim)) V over positions 0..p
//	    x += Wo a
//	    h = RMSNorm(x) * ffn_norm
//	    x += Wdown (SiLU(Wgate h) * Wup h)
//	logits = Wlm (RMSNorm(x) * final_norm)
//
// Query head i reads kv head i / (heads/kvHeads). Each line is one phase that
// all workers run together (phases.go), int8 where a matrix follows; a single
// token does the small ones on the calling goroutine, where waking the others
// would take longer than the work.

// errStopped is how a pass ends whose s.stop was set.
var errStopped = errors.New("engine: stopped")

// forward computes tokens at positions pos, pos+1, … and leaves their residual
// in s.x: at most a chunk, and pos+len(tokens) at most the context. After an
// error, errStopped or a page fault, the cache entries from pos on are not to
// be used.
func (s *state) forward(tokens []int32, pos int) error {
	s.begin(len(tokens), pos)
	if err := s.lookUp(tokens); err != nil {
		return err
	}
	s.rotations()
	for l := range s.w.layers {
		w, err := s.w.res.layer(l, &s.stop)
		if err != nil {
			return err
		}
		s.layer, s.weights = l, w
		s.show(l, s.x)

		s.run(phaseAttnNorm)
		s.gather(inputAttn, s.norm)
		s.multiply(s.inDim, into(&w.q, s.q), into(&w.k, s.k), into(&w.v, s.v))
		s.run(phaseRope)
		s.attend()
		s.run(phaseAttnOut)
		s.gather(inputOut, s.att)
		s.multiply(s.inAtt, addTo(s.x, &w.o, s.proj))

		s.run(phaseFFNNorm)
		s.gather(inputFFN, s.norm)
		s.multiplyGated(s.inDim, into(&w.gate, s.gate), into(&w.up, s.up))
		s.run(phaseGated)
		s.gather(inputDown, s.gate)
		s.multiply(s.inFFN, addTo(s.x, &w.down, s.proj))
		if s.err != nil {
			return s.err
		}
	}
	s.show(s.cfg.Layers, s.x)
	return nil
}

// head computes the logits of rows from to from+n-1 of the last pass, n at most
// headRows: s.logits[i*vocab:] are those of row from+i.
func (s *state) head(from, n int) error {
	s.rows, s.tokens = from, n
	in := s.inHead
	in.x = s.norm[from*s.cfg.Dim:]
	if in.acts != nil {
		in.acts.SetTokens(n)
	}
	s.in = in
	s.run(phaseFinalNorm)
	s.show(s.cfg.Layers+1, s.norm[from*s.cfg.Dim:])
	for i := range s.w.res.parts() {
		m, row, err := s.w.res.head(i, &s.stop)
		if err != nil {
			return err
		}
		s.multiply(in, product{m: m, dst: s.logits[row:], stride: s.cfg.Vocab})
	}
	return s.err
}

// begin sets the pass up for n tokens from pos.
func (s *state) begin(n, pos int) {
	s.tokens, s.pos, s.err = n, pos, nil
	s.kv.grow(pos + n)
	for _, in := range []operand{s.inDim, s.inAtt, s.inFFN} {
		if in.acts != nil {
			in.acts.SetTokens(n)
		}
	}
}

// rotations fills the rows of the rotary tables for the pass's positions.
func (s *state) rotations() {
	half := s.cfg.HeadDim / 2
	for t := range s.tokens {
		kernels.RopeRow(s.cos[t*half:][:half], s.sin[t*half:][:half], s.freqs, s.pos+t)
	}
}

// show hands values to a test that watches.
func (s *state) show(layer int, x []float32) {
	if s.trace != nil && s.err == nil {
		s.trace(layer, x[:s.tokens*s.cfg.Dim])
	}
}

// attnScale is the factor of attention scores.
func attnScale(headDim int) float32 { return float32(1 / math.Sqrt(float64(headDim))) }
