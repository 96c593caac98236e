// SPDX-License-Identifier: Apache-2.0

package engine

import "windhover/kernels"

// Attention of a chunk is cut into units: some query heads of one kv head, for a
// run of tokens. A unit goes over the cache in blocks of positions that stay in
// the nearest cache while all its heads and tokens use them, so that long
// contexts are read from memory once a unit. Every sum still runs over the
// positions in order; blocks do not change a bit.
const (
	scoreRows  = 16       // heads times tokens a unit has at most, when a head is one row
	blockBytes = 32 << 10 // of keys, or of values, in a block
)

// attentionPlan is how a chunk is cut.
type attentionPlan struct {
	heads  int // query heads a unit, of one kv head
	parts  int // units that share a kv head and a run of tokens
	tokens int // in a run
	runs   int
	block  int // positions
}

// planAttention cuts finer than kv heads only when there would be too few units
// to keep the workers busy.
func planAttention(c *Config, tokens, workers int) attentionPlan {
	group := c.Heads / c.KVHeads
	p := attentionPlan{heads: min(group, scoreRows), block: max(blockBytes/2/c.HeadDim, 1)}
	p.cut(group, tokens)
	for p.heads > 1 && p.units(c) < 2*workers {
		p.heads = (p.heads + 1) / 2
		p.cut(group, tokens)
	}
	return p
}

func (p *attentionPlan) cut(group, tokens int) {
	p.parts = (group + p.heads - 1) / p.heads
	p.tokens = max(scoreRows/p.heads, 1)
	p.runs = (tokens + p.tokens - 1) / p.tokens
}

func (p *attentionPlan) units(c *Config) int { return c.KVHeads * p.parts * p.runs }

// attentionUnit does one unit. The last runs, which see the most positions, come
// first.
func (s *state) attentionUnit(worker, u int) {
	c, p, hd := s.cfg, &s.plan, s.cfg.HeadDim
	group := c.Heads / c.KVHeads
	g, part, run := u%c.KVHeads, u/c.KVHeads%p.parts, p.runs-1-u/c.KVHeads/p.parts
	h0, t0 := part*p.heads, run*p.tokens
	heads, tokens := min(p.heads, group-h0), min(p.tokens, s.tokens-t0)
	base := s.kv.at(s.layer, g, 0)

	// each calls f for every head and token of the unit: row is its row of
	// scores, q and out are its parts of s.q and s.att, n is what it sees.
	each := func(f func(row, q, out []float32, n int)) {
		for i := range heads * tokens {
			t, h := t0+i/heads, g*group+h0+i%heads
			at := t*c.QO() + h*hd
			row := s.scores[(worker*scoreRows+i)*s.kv.ctx:][:s.kv.ctx]
			f(row, s.q[at:at+hd], s.att[at:at+hd], s.pos+t+1)
		}
	}
	if s.float {
		each(func(row, q, out []float32, n int) {
			refAttention(out, row[:n], q, s.kv.k32[base:][:n*hd], s.kv.v32[base:][:n*hd], s.scale)
		})
		return
	}
	last := s.pos + t0 + tokens
	for from := 0; from < last; from += p.block {
		each(func(row, q, _ []float32, n int) {
			if to := min(from+p.block, n); from < to {
				kernels.AttnScores(row[from:to], q, s.kv.k16[base+from*hd:base+to*hd], hd, s.scale)
			}
		})
	}
	each(func(row, _, out []float32, n int) {
		kernels.Softmax(row[:n])
		clear(out)
	})
	for from := 0; from < last; from += p.block {
		each(func(row, _, out []float32, n int) {
			if to := min(from+p.block, n); from < to {
				kernels.AttnAccumulate(out, row[from:to], s.kv.v16[base+from*hd:base+to*hd], hd)
			}
		})
	}
}
