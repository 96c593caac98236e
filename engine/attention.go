// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"sync/atomic"

	"windhover/kernels"
)

// Attention of a chunk is cut into units: all query heads of a kv head, for a run
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

// attentionPlan is how a chunk is cut.
type attentionPlan struct {
	tokens int // in a run
	runs   int
	blocks int // of all positions
	heads  int // kv heads of a unit that is a block; 0 where units are runs
}

// planAttention cuts a chunk of tokens at pos.
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
	plan  attentionPlan
	tiles []*kernels.AttnTile // [workers]
	acc   []kernels.AttnPart  // [workers] rows of a run
	block []kernels.AttnPart  // [workers] the same

	// A single token, where kv heads are cut by blocks.
	parts kernels.AttnPart // [blocks of the context][heads]
	left  []atomic.Int32   // [kvHeads] blocks to do

	scores []float32 // [workers][ctx], reference path only
}

func newAttention(c *Config, workers, ctx, chunk int, float bool) attention {
	if float {
		return attention{scores: make([]float32, workers*ctx)}
	}
	group := c.Heads / c.KVHeads
	rows := min(runTokens(group), chunk) * group
	a := attention{
		left:  make([]atomic.Int32, c.KVHeads),
		parts: kernels.NewAttnPart(kvPages(ctx)*c.Heads, c.HeadDim),
	}
	for range workers {
		a.tiles = append(a.tiles, kernels.NewAttnTile(rows, c.HeadDim))
		a.acc = append(a.acc, kernels.NewAttnPart(rows, c.HeadDim))
		a.block = append(a.block, kernels.NewAttnPart(rows, c.HeadDim))
	}
	return a
}

// attentionBytes is about what newAttention allocates.
func attentionBytes(c *Config, workers, ctx, chunk int, float bool) int64 {
	if float {
		return 4 * int64(workers) * int64(ctx)
	}
	group := c.Heads / c.KVHeads
	rows := min(runTokens(group), chunk) * group
	return int64(workers)*(kernels.AttnTileBytes(rows, c.HeadDim)+2*kernels.AttnPartBytes(rows, c.HeadDim)) +
		int64(kvPages(ctx))*kernels.AttnPartBytes(c.Heads, c.HeadDim)
}

// attend computes the attention of the pass's tokens.
func (s *state) attend() {
	a := &s.attn
	a.plan = planAttention(s.cfg, s.pos, s.tokens, s.pool.Size())
	if s.float {
		a.plan.heads = 0
	}
	for i := range a.left {
		a.left[i].Store(int32(a.plan.blocks))
	}
	s.start(phaseAttention, a.plan.units(s.cfg), false)
}

// attentionUnit does one unit. A kv head's runs follow each other while its keys
// and values are in a near cache, those that see the most positions first.
func (s *state) attentionUnit(worker, u int) {
	p := &s.attn.plan
	if p.heads > 0 {
		n := p.parts(s.cfg)
		from := u % n * p.heads
		for g := from; g < min(from+p.heads, s.cfg.KVHeads); g++ {
			s.attentionOfBlock(worker, g, u/n)
		}
		return
	}
	g, run := u/p.runs, p.runs-1-u%p.runs
	if s.float {
		s.attentionFloat(worker, g, run)
		return
	}
	s.attentionRun(worker, g, run)
}

// attentionRun does a run of tokens.
func (s *state) attentionRun(worker, g, run int) {
	a, group := &s.attn, s.cfg.Heads/s.cfg.KVHeads
	t0 := run * a.plan.tokens
	tokens := min(a.plan.tokens, s.tokens-t0)
	rows := tokens * group
	s.queries(worker, g, t0, tokens)
	acc, block := a.acc[worker].Rows(0, rows), a.block[worker].Rows(0, rows)
	for at := 0; at < s.pos+t0+tokens; at += kernels.AttnBlock {
		seen := s.pos + t0 + 1 - at // by the first token
		if at == 0 {
			s.attentionBlock(worker, acc, g, at, seen)
			continue
		}
		s.attentionBlock(worker, block, g, at, seen)
		first := max(1-seen, 0) * group
		acc.Rows(first, rows).Merge(block.Rows(first, rows))
	}
	for r := range rows {
		acc.Result(r, s.att[s.headAt(g, t0+r/group, r%group):][:s.cfg.HeadDim])
	}
}

// attentionOfBlock does a block of a single token, and the merging if it is the
// last.
func (s *state) attentionOfBlock(worker, g, block int) {
	a, group := &s.attn, s.cfg.Heads/s.cfg.KVHeads
	part := func(block int) kernels.AttnPart {
		at := block*s.cfg.Heads + g*group
		return a.parts.Rows(at, at+group)
	}
	s.queries(worker, g, 0, 1)
	at := block * kernels.AttnBlock
	s.attentionBlock(worker, part(block), g, at, s.pos+1-at)
	if a.left[g].Add(-1) > 0 {
		return
	}
	acc := part(0)
	for b := 1; b < a.plan.blocks; b++ {
		acc.Merge(part(b))
	}
	for h := range group {
		acc.Result(h, s.att[s.headAt(g, 0, h):][:s.cfg.HeadDim])
	}
}

// attentionBlock computes the block from position at for the rows of dst, of
// which the first token sees seen positions.
func (s *state) attentionBlock(worker int, dst kernels.AttnPart, g, at, seen int) {
	k, v := s.kv.block(s.layer, g, at/kernels.AttnBlock)
	s.attn.tiles[worker].Block(dst, s.kv.kind.KV, k, v, seen, s.cfg.Heads/s.cfg.KVHeads)
}

// queries sets the rows of a tile: tokens in sequence, their heads together.
func (s *state) queries(worker, g, t0, tokens int) {
	group := s.cfg.Heads / s.cfg.KVHeads
	for r := range tokens * group {
		s.attn.tiles[worker].SetQuery(r, s.q[s.headAt(g, t0+r/group, r%group):][:s.cfg.HeadDim], s.scale)
	}
}

// headAt is where query head h of kv head g of a token begins in q and att.
func (s *state) headAt(g, token, h int) int {
	return token*s.cfg.QO() + (g*(s.cfg.Heads/s.cfg.KVHeads)+h)*s.cfg.HeadDim
}

// attentionFloat does a run in the reference path.
func (s *state) attentionFloat(worker, g, run int) {
	hd, ctx := s.cfg.HeadDim, s.kv.ctx
	base := s.kv.at(s.layer, g, 0)
	t0 := run * s.attn.plan.tokens
	for t := t0; t < min(t0+s.attn.plan.tokens, s.tokens); t++ {
		n := s.pos + t + 1
		for h := range s.cfg.Heads / s.cfg.KVHeads {
			at := s.headAt(g, t, h)
			refAttention(s.att[at:at+hd], s.attn.scores[worker*ctx:][:n], s.q[at:at+hd], s.kv.k32[base:][:n*hd], s.kv.v32[base:][:n*hd], s.scale)
		}
	}
}
