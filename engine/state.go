// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"sync/atomic"

	"windhover/kernels"
)

// state is what a forward pass works on. Everything is allocated at load, for
// a chunk of tokens; a single step uses the first row of each buffer.
type state struct {
	cfg   *Config
	w     *weights
	pool  *kernels.Pool
	kv    *kvCache
	freqs []float64 // [headDim/2] inverse frequencies of the rotary embedding
	scale float32   // of attention scores: 1/sqrt(headDim)
	float bool      // the reference path of reference.go

	x        []float32 // [chunk][dim] residual stream
	norm     []float32 // [chunk][dim] normalised input of a matrix
	q        []float32 // [chunk][heads*headDim]
	k, v     []float32 // [chunk][kvHeads*headDim]
	att      []float32 // [chunk][heads*headDim] attention output
	proj     []float32 // [chunk][dim] what a block adds to x
	gate, up []float32 // [chunk][ffn]
	cos, sin []float32 // [chunk][headDim/2]
	logits   []float32 // [headRows][vocab]
	row      []float32 // [workers][widest matrix]; reference path only

	inDim  operand // [chunk][dim], norm in int8
	inAtt  operand // [chunk][heads*headDim], att in int8
	inFFN  operand // [chunk][ffn], gate in int8
	inHead operand // [headRows][dim], norm in int8, for the head

	// The phase in hand, set before the workers start.
	phase   phase
	layer   int
	weights *layerWeights // of that layer
	tokens  int           // in this pass
	pos     int           // position of the first token
	rows    int           // first row of x that the head works on
	in      operand
	jobs    [3]product
	njobs   int
	unit    int // rows a unit of a product
	attn    attention
	units   unitsOf
	err     error       // first failure of the pass
	stop    atomic.Bool // set from outside: leave the pass as soon as possible

	// trace, when set by a test, sees x [tokens][dim] before each layer, before
	// the final norm (layer = Layers) and after it (layer = Layers+1).
	trace func(layer int, x []float32)

	gathering *gathering // inputs of the matrices go there too, importance.go; else nil
}

// headRows is the number of rows that get logits at once in an evaluation.
const headRows = 16

// newState allocates for chunk tokens at once, and the logits of one row.
func newState(c *Config, w *weights, pool *kernels.Pool, kv *kvCache, chunk int, float bool) *state {
	s := &state{cfg: c, w: w, pool: pool, kv: kv, float: float}
	s.freqs = kernels.RopeFreqs(float64(c.RopeTheta), c.HeadDim)
	s.scale = attnScale(c.HeadDim)
	workers := pool.Size()
	s.units.shares = make([]share, workers)
	floats := func(n int) []float32 { return make([]float32, n) }
	s.x, s.norm, s.proj = floats(chunk*c.Dim), floats(chunk*c.Dim), floats(chunk*c.Dim)
	s.q, s.att = floats(chunk*c.QO()), floats(chunk*c.QO())
	s.k, s.v = floats(chunk*c.KO()), floats(chunk*c.KO())
	s.gate, s.up = floats(chunk*c.FFN), floats(chunk*c.FFN)
	s.cos, s.sin = floats(chunk*c.HeadDim/2), floats(chunk*c.HeadDim/2)
	s.attn = newAttention(c, workers, kv.ctx, chunk, float)
	s.logits = floats(c.Vocab)
	s.inDim, s.inAtt, s.inFFN = operand{x: s.norm}, operand{x: s.att}, operand{x: s.gate}
	if float {
		s.row = floats(workers * s.widest())
		return s
	}
	s.inDim.acts, s.inAtt.acts = kernels.NewActs(chunk, c.Dim), kernels.NewActs(chunk, c.QO())
	s.inFFN.acts, s.inHead.acts = kernels.NewActs(chunk, c.FFN), kernels.NewActs(1, c.Dim)
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

// scratchBytes is about what newState and newSampler allocate.
func scratchBytes(c *Config, workers, ctx, chunk int, float bool) int64 {
	perToken := 4 * (3*c.Dim + 2*c.QO() + 2*c.KO() + 2*c.FFN + c.HeadDim)
	if !float {
		// Codes once plain and once packed, scales and sums likewise.
		perToken += (c.Dim + c.QO() + c.FFN) * 2 * (kernels.BlockLen + 8) / kernels.BlockLen
	}
	return int64(chunk)*int64(perToken) + 4*int64(c.Vocab) + attentionBytes(c, workers, ctx, chunk, float) + samplerBytes(c.Vocab)
}
