// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"sync/atomic"

	"windhover/kernels"
)

// Attention of a span is cut into units: all query heads of a kv head, for a run
// of tokens, go over the cache together, so that keys and values are read and
// converted once for all of them. A single token has one run only; where it sees
// several blocks of positions, a unit is a block for some kv heads, which follow
// each other in memory, and whoever ends a kv head merges its blocks. The kernels
// define attention by such blocks (kernels/attn.go), so that none of this changes
// a bit.
const (
	attnRows      = 192 // heads times tokens of a unit, about
	attnRowsLeast = 12  // under which a run is not cut to make more units
	attnUnits     = 4   // units a worker, about, and at least where a token's heads and blocks allow
)

// attentionPlan is how a span is cut.
type attentionPlan struct {
	tokens int // in a run
	runs   int
	blocks int // of all positions
	heads  int // kv heads of a unit that is a block; 0 where units are runs
}

// planAttention cuts a span of tokens at pos.
func planAttention(c *Config, pos, tokens, workers int) attentionPlan {
	group := c.Heads / c.KVHeads
	p := attentionPlan{tokens: runTokens(group), blocks: kvPages(pos + tokens)}
	cut := func(n int) bool {
		p.tokens = n
		p.runs = (tokens + n - 1) / n
		return c.KVHeads*p.runs < attnUnits*workers
	}
	for cut(min(p.tokens, tokens)) && p.tokens > 1 && p.tokens/2*group >= attnRowsLeast {
		p.tokens /= 2
	}
	if tokens == 1 && p.blocks > 1 {
		for p.heads = c.KVHeads; p.heads > 1 && p.units(c) < 4*attnUnits*workers; {
			p.heads = (p.heads + 1) / 2
		}
	}
	return p
}

// runTokens is the most tokens in a run.
func runTokens(group int) int { return max(attnRows/group, 1) }

func (p *attentionPlan) units(c *Config) int {
	if p.heads > 0 {
		return p.blocks * p.parts(c)
	}
	return c.KVHeads * p.runs
}

// parts is the number of units of a block.
func (p *attentionPlan) parts(c *Config) int { return (c.KVHeads + p.heads - 1) / p.heads }

// attention is what the workers need for it.
type attention struct {
	tiles []*kernels.AttnTile // [workers]
	acc   []kernels.AttnPart  // [workers] rows of a run
	block []kernels.AttnPart  // [workers] the same

	// Single tokens, where kv heads are cut by blocks.
	parts  kernels.AttnPart // [spans][blocks of the context][heads]
	left   []atomic.Int32   // [spans][kvHeads] blocks to do
	blocks int              // of the context

	// The reference path's.
	scores [][]float32 // [workers][ctx]
	keys   [][]float32 // [workers][ctx][headDim] of a head
	values [][]float32 // the same
}

func newAttention(c *Config, workers int, size sizes) attention {
	var a attention
	if size.float {
		for range workers {
			a.scores = append(a.scores, make([]float32, size.ctx))
			a.keys = append(a.keys, make([]float32, size.ctx*c.HeadDim))
			a.values = append(a.values, make([]float32, size.ctx*c.HeadDim))
		}
		return a
	}
	group := c.Heads / c.KVHeads
	rows := min(runTokens(group), size.chunk) * group
	a.blocks = kvPages(size.ctx)
	a.left = make([]atomic.Int32, size.sequences*c.KVHeads)
	a.parts = kernels.NewAttnPart(size.sequences*a.blocks*c.Heads, c.HeadDim)
	for range workers {
		a.tiles = append(a.tiles, kernels.NewAttnTile(rows, c.HeadDim))
		a.acc = append(a.acc, kernels.NewAttnPart(rows, c.HeadDim))
		a.block = append(a.block, kernels.NewAttnPart(rows, c.HeadDim))
	}
	return a
}

// attentionBytes is about what newAttention allocates.
func attentionBytes(c *Config, workers int, size sizes) int64 {
	if size.float {
		return 4 * int64(workers) * int64(size.ctx) * int64(1+2*c.HeadDim)
	}
	group := c.Heads / c.KVHeads
	rows := min(runTokens(group), size.chunk) * group
	return int64(workers)*(kernels.AttnTileBytes(rows, c.HeadDim)+2*kernels.AttnPartBytes(rows, c.HeadDim)) +
		int64(size.sequences)*int64(kvPages(size.ctx))*kernels.AttnPartBytes(c.Heads, c.HeadDim)
}

// attend computes the attention of the pass's tokens.
func (s *state) attend() {
	units := 0
	for i := range s.spans {
		sp := &s.spans[i]
		sp.plan = planAttention(s.cfg, sp.pos, len(sp.tokens), s.pool.Size())
		if s.float {
			sp.plan.heads = 0
		}
		if sp.plan.heads > 0 {
			for g := range s.cfg.KVHeads {
				s.attn.left[i*s.cfg.KVHeads+g].Store(int32(sp.plan.blocks))
			}
		}
		sp.unit = units
		units += sp.plan.units(s.cfg)
	}
	s.start(phaseAttention, units, false)
}

// attentionUnit does one unit. A kv head's runs follow each other while its keys
// and values are in a near cache, those that see the most positions first.
func (s *state) attentionUnit(worker, u int) {
	i := len(s.spans) - 1
	for s.spans[i].unit > u {
		i--
	}
	sp := &s.spans[i]
	p := &sp.plan
	u -= sp.unit
	if p.heads > 0 {
		n := p.parts(s.cfg)
		from := u % n * p.heads
		for g := from; g < min(from+p.heads, s.cfg.KVHeads); g++ {
			s.attentionOfBlock(worker, i, g, u/n)
		}
		return
	}
	g, run := u/p.runs, p.runs-1-u%p.runs
	if s.float {
		s.attentionFloat(worker, sp, g, run)
		return
	}
	s.attentionRun(worker, sp, g, run)
}

// attentionRun does a run of a span's tokens.
func (s *state) attentionRun(worker int, sp *span, g, run int) {
	a, group := &s.attn, s.cfg.Heads/s.cfg.KVHeads
	t0 := run * sp.plan.tokens
	tokens := min(sp.plan.tokens, len(sp.tokens)-t0)
	rows := tokens * group
	s.queries(worker, g, sp.row+t0, tokens)
	acc, block := a.acc[worker].Rows(0, rows), a.block[worker].Rows(0, rows)
	for at := 0; at < sp.pos+t0+tokens; at += kernels.AttnBlock {
		seen := sp.pos + t0 + 1 - at // by the first token
		if at == 0 {
			s.attentionBlock(worker, acc, sp, g, at, seen)
			continue
		}
		s.attentionBlock(worker, block, sp, g, at, seen)
		first := max(1-seen, 0) * group
		acc.Rows(first, rows).Merge(block.Rows(first, rows))
	}
	for r := range rows {
		acc.Result(r, s.att[s.headAt(g, sp.row+t0+r/group, r%group):][:s.cfg.HeadDim])
	}
}

// attentionOfBlock does a block of span i, which is a single token, and the
// merging if it is the last.
func (s *state) attentionOfBlock(worker, i, g, block int) {
	a, group, sp := &s.attn, s.cfg.Heads/s.cfg.KVHeads, &s.spans[i]
	part := func(block int) kernels.AttnPart {
		at := (i*a.blocks+block)*s.cfg.Heads + g*group
		return a.parts.Rows(at, at+group)
	}
	s.queries(worker, g, sp.row, 1)
	at := block * kernels.AttnBlock
	s.attentionBlock(worker, part(block), sp, g, at, sp.pos+1-at)
	if a.left[i*s.cfg.KVHeads+g].Add(-1) > 0 {
		return
	}
	acc := part(0)
	for b := 1; b < sp.plan.blocks; b++ {
		acc.Merge(part(b))
	}
	for h := range group {
		acc.Result(h, s.att[s.headAt(g, sp.row, h):][:s.cfg.HeadDim])
	}
}

// attentionBlock computes the block from position at for the rows of dst, of
// which the first token sees seen positions.
func (s *state) attentionBlock(worker int, dst kernels.AttnPart, sp *span, g, at, seen int) {
	k, v := s.kv.block(sp.seq.pages[at/kernels.AttnBlock], s.layer, g)
	s.attn.tiles[worker].Block(dst, s.kv.kind.KV, k, v, seen, s.cfg.Heads/s.cfg.KVHeads)
}

// queries sets the rows of a tile: rows of the pass from row on, their heads
// together.
func (s *state) queries(worker, g, row, n int) {
	group := s.cfg.Heads / s.cfg.KVHeads
	for r := range n * group {
		s.attn.tiles[worker].SetQuery(r, s.q[s.headAt(g, row+r/group, r%group):][:s.cfg.HeadDim], s.scale)
	}
}

// headAt is where query head h of kv head g of a row begins in q and att.
func (s *state) headAt(g, row, h int) int {
	return row*s.cfg.QO() + (g*(s.cfg.Heads/s.cfg.KVHeads)+h)*s.cfg.HeadDim
}

// attentionFloat does a run in the reference path, on a copy of the head's keys
// and values in one piece.
func (s *state) attentionFloat(worker int, sp *span, g, run int) {
	hd := s.cfg.HeadDim
	t0 := run * sp.plan.tokens
	t1 := min(t0+sp.plan.tokens, len(sp.tokens))
	keys, values := s.attn.keys[worker], s.attn.values[worker]
	for at := 0; at < sp.pos+t1; at += kernels.AttnBlock {
		k, v := s.kv.block(sp.seq.pages[at/kernels.AttnBlock], s.layer, g)
		n := min(kernels.AttnBlock, sp.pos+t1-at) * hd
		copy(keys[at*hd:], floatsOf(k)[:n])
		copy(values[at*hd:], floatsOf(v)[:n])
	}
	for t := t0; t < t1; t++ {
		n := sp.pos + t + 1
		for h := range s.cfg.Heads / s.cfg.KVHeads {
			at := s.headAt(g, sp.row+t, h)
			refAttention(s.att[at:at+hd], s.attn.scores[worker][:n], s.q[at:at+hd], keys[:n*hd], values[:n*hd], s.scale)
		}
	}
}
