// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"math"
)

// The decoder, for every token t at position p of its sequence, in the order it is
// computed:
//
//	x = embed[t], or what the vision tower made of a place of a picture
//	for each layer:
//	    h = RMSNorm(x) * attn_norm
//	    q, k, v = Wq h, Wk h, Wv h
//	    q, k = RMSNorm by head * q_norm, k_norm      (Qwen3 only)
//	    q, k = RoPE(q, p), RoPE(k, p)
//	    pages[p/256][layer][p%256] = k, v
//	    a = for each head: softmax(q·K / sqrt(headDim)) V over positions 0..p
//	    x += Wo a
//	    h = RMSNorm(x) * ffn_norm
//	    x += Wdown (SiLU(Wgate h) * Wup h)           (a mixture of experts: moe.go)
//	logits = Wlm (RMSNorm(x) * final_norm)
//
// Query head i reads kv head i / (heads/kvHeads). Each line is one phase that
// all workers run together (phases.go), int8 where a matrix follows; a single
// token does the small ones on the calling goroutine, where waking the others
// would take longer than the work.

// errStopped is how a pass ends whose s.stop was set.
var errStopped = errors.New("engine: stopped")

// forward computes the tokens of spans, each behind what is in its sequence's
// pages, and leaves their residual in s.x, span after span: at most as many rows
// as the state has room for, and as many spans as sequences. After an error,
// errStopped or a page fault, what it wrote to the pages is not to be used.
func (s *state) forward(spans []span) error {
	s.begin(spans)
	if err := s.lookUp(); err != nil {
		return err
	}
	s.look()
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
		if s.moe != nil {
			s.mixture()
		} else {
			s.multiplyGated(s.inDim, into(&w.gate, s.gate), into(&w.up, s.up))
			s.run(phaseGated)
			s.gather(inputDown, s.gate)
			s.multiply(s.inFFN, addTo(s.x, &w.down, s.proj))
		}
		if s.err != nil {
			return s.err
		}
		s.deepen(l)
	}
	s.show(s.cfg.Layers, s.x)
	return nil
}

// head computes the logits of some rows of the last pass, at most as many as there
// is room for: s.logits[i*vocab:] are those of rows[i].
func (s *state) head(rows []int) error {
	s.rows, s.tokens = rows, len(rows)
	in := s.inHead
	in.x = s.norm
	if in.acts != nil {
		in.acts.SetTokens(len(rows))
	}
	s.in = in
	s.run(phaseFinalNorm)
	s.show(s.cfg.Layers+1, s.norm)
	for i := range s.w.res.parts() {
		m, row, err := s.w.res.head(i, &s.stop)
		if err != nil {
			return err
		}
		s.multiply(in, product{m: m, dst: s.logits[row:], stride: s.cfg.Vocab})
	}
	return s.err
}

// normed computes what the head would see of some rows of the last pass, [rows][dim],
// until the next pass.
func (s *state) normed(rows []int) ([]float32, error) {
	s.rows, s.tokens = rows, len(rows)
	s.in = operand{x: s.norm}
	s.run(phaseFinalNorm)
	return s.norm[:len(rows)*s.cfg.Dim], s.err
}

// show hands values to a test that watches.
func (s *state) show(layer int, x []float32) {
	if s.trace != nil && s.err == nil {
		s.trace(layer, x[:s.tokens*s.cfg.Dim])
	}
}

// attnScale is the factor of attention scores.
func attnScale(headDim int) float32 { return float32(1 / math.Sqrt(float64(headDim))) }
