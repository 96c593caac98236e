// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"sync/atomic"

	"windhover/kernels"
)

// state is what a forward pass works on. Everything is allocated at load, for as
// many rows as a pass may have; a single step uses the first row of each buffer.
type state struct {
	cfg   *Config
	w     *weights
	pool  *kernels.Pool
	kv    *pagePool
	size  sizes
	freqs []float64 // [headDim/2] inverse frequencies of the rotary embedding
	scale float32   // of attention scores: 1/sqrt(headDim)
	float bool      // the reference path of reference.go

	x        []float32 // [rows][dim] residual stream
	norm     []float32 // [rows][dim] normalised input of a matrix
	q        []float32 // [rows][heads*headDim]
	k, v     []float32 // [rows][kvHeads*headDim]
	att      []float32 // [rows][heads*headDim] attention output
	proj     []float32 // [rows][dim] what a block adds to x
	gate, up []float32 // [rows][ffn]
	cos, sin []float32 // [rows][headDim/2]
	logits   []float32 // [rows that have some][vocab]
	spanOf   []int32   // [rows] the span that a row belongs to
	row      []float32 // [workers][widest matrix]; reference path only

	inDim  operand // [rows][dim], norm in int8
	inAtt  operand // [rows][heads*headDim], att in int8
	inFFN  operand // [rows][ffn], gate in int8
	inHead operand // [rows that have logits][dim], norm in int8, for the head

	// The phase in hand, set before the workers start.
	phase   phase
	layer   int
	weights *layerWeights // of that layer
	spans   []span        // of this pass
	tokens  int           // rows of this pass, or of its head
	rows    []int         // of x that the head works on
	in      operand
	jobs    [3]product
	njobs   int
	unit    int // rows a unit of a product
	attn    attention
	moe     *mixture // nil for a dense model
	units   unitsOf
	err     error       // first failure of the pass
	stop    atomic.Bool // set from outside: leave the pass as soon as possible

	// trace, when set by a test, sees x [tokens][dim] before each layer, before
	// the final norm (layer = Layers) and after it (layer = Layers+1).
	trace func(layer int, x []float32)

	axes      axes       // of the rotary embedding, for pictures
	gathering *gathering // inputs of the matrices go there too, importance.go; else nil
}

// headRows is the number of rows that get logits at once in an evaluation.
const headRows = 16

// newState allocates.
func newState(c *Config, w *weights, pool *kernels.Pool, kv *pagePool, size sizes) *state {
	s := &state{cfg: c, w: w, pool: pool, kv: kv, size: size, float: size.float}
	s.freqs = kernels.RopeFreqs(float64(c.RopeTheta), c.HeadDim)
	s.scale = attnScale(c.HeadDim)
	workers, rows := pool.Size(), size.rows()
	s.units.shares = make([]share, workers)
	floats := func(n int) []float32 { return make([]float32, n) }
	s.x, s.norm, s.proj = floats(rows*c.Dim), floats(rows*c.Dim), floats(rows*c.Dim)
	s.q, s.att = floats(rows*c.QO()), floats(rows*c.QO())
	s.k, s.v = floats(rows*c.KO()), floats(rows*c.KO())
	inner, cols := c.innerShape(rows)
	s.gate, s.up = floats(inner*cols), floats(inner*cols)
	s.moe = newMixture(c, rows, size.float)
	s.cos, s.sin = floats(rows*c.HeadDim/2), floats(rows*c.HeadDim/2)
	s.spanOf = make([]int32, rows)
	s.attn = newAttention(c, workers, size)
	s.logits = floats(size.logits() * c.Vocab)
	s.inDim, s.inAtt, s.inFFN = operand{x: s.norm}, operand{x: s.att}, operand{x: s.gate}
	if s.float {
		s.row = floats(workers * s.widest())
		return s
	}
	s.inDim.acts, s.inAtt.acts = kernels.NewActs(rows, c.Dim), kernels.NewActs(rows, c.QO())
	s.inFFN.acts, s.inHead.acts = kernels.NewActs(inner, cols), kernels.NewActs(size.logits(), c.Dim)
	return s
}

// growHead makes room for the logits of rows at once, for evaluations.
func (s *state) growHead(rows int) {
	if rows*s.cfg.Vocab <= len(s.logits) {
		return
	}
	s.logits = make([]float32, rows*s.cfg.Vocab)
	if !s.float {
		s.inHead.acts = kernels.NewActs(rows, s.cfg.Dim)
	}
}

func (s *state) widest() int { return max(s.cfg.Dim, s.cfg.QO(), s.cfg.FFN) }

// scratchBytes is about what newState and newScratch allocate.
func scratchBytes(c *Config, workers int, size sizes) int64 {
	rows, logits := int64(size.rows()), int64(size.logits())
	bytes := 4*rows*int64(3*c.Dim+2*c.QO()+2*c.KO()+c.HeadDim) + 4*logits*int64(c.Vocab)
	if !size.float {
		bytes += actsBytes(size.rows(), c.Dim+c.QO()) + actsBytes(size.logits(), c.Dim)
	}
	return bytes + innerBytes(c, size.rows(), size.float) + attentionBytes(c, workers, size) + samplerBytes(c.Vocab, size.sequences)
}

// actsBytes is about what kernels.NewActs allocates: codes once plain and once
// packed, scales and sums likewise, and what single tokens take.
func actsBytes(rows, cols int) int64 {
	return int64(rows) * int64(cols) * (2*(kernels.BlockLen+8) + 4) / kernels.BlockLen
}
