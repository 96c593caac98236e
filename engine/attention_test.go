// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"windhover/kernels"
)

// However attention is cut, it is the blocks of each row, merged in order.
func TestAttentionUnitsGiveTheWhole(t *testing.T) {
	const ctx, most = 1300, 70
	pool, err := kernels.NewPool([]int{firstCPU(t)}, false)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	r := rand.New(rand.NewPCG(1, 2))
	fill := func(x []float32) {
		for i := range x {
			x[i] = float32(r.NormFloat64())
		}
	}
	for i, c := range []Config{
		{Heads: 1, KVHeads: 1, HeadDim: 128}, {Heads: 9, KVHeads: 3, HeadDim: 64}, {Heads: 32, KVHeads: 8, HeadDim: 128},
		{Heads: 14, KVHeads: 2, HeadDim: 16}, {Heads: 40, KVHeads: 2, HeadDim: 20},
	} {
		c.Dim, c.FFN, c.Vocab, c.Layers = 32, 32, 32, 2
		kind := kvKind{KV: kernels.KV(i % 2)}
		kv, err := newPagePool(&c, kvPages(ctx), kind)
		if err != nil {
			t.Fatal(err)
		}
		s := newState(&c, &weights{}, pool, kv, sizes{ctx: ctx, chunk: most, sequences: 3})
		seq := newSequence(kv, ctx)
		seq.grow(ctx)
		s.layer = 1
		key, value := make([]float32, c.HeadDim), make([]float32, c.HeadDim)
		for pos := range ctx {
			for g := range c.KVHeads {
				fill(key)
				fill(value)
				kv.store(seq.pages[pos/kernels.AttnBlock], 1, g, pos%kernels.AttnBlock, key, value)
			}
		}
		tile := kernels.NewAttnTile(1, c.HeadDim)
		acc, block := kernels.NewAttnPart(1, c.HeadDim), kernels.NewAttnPart(1, c.HeadDim)
		out := make([]float32, c.HeadDim)
		for _, pos := range []int{0, 200, 256, 1023, 1229} {
			for _, tokens := range []int{1, 5, 33, most} {
				if tokens > 5 && pos > 300 {
					continue // takes long and cuts no other way
				}
				for _, workers := range []int{1, 8} {
					fill(s.q)
					fill(s.att) // what is left of an earlier layer
					all := make([]int32, tokens)
					spans := []span{{tokens: all[:1], pos: 700}, {tokens: all, pos: pos}, {tokens: all[:1], pos: 30}}
					units := 0
					for i := range spans {
						sp := &spans[i]
						sp.seq, sp.unit = seq, units
						sp.plan = planAttention(&c, sp.pos, len(sp.tokens), workers)
						units += sp.plan.units(&c)
						for g := range c.KVHeads {
							s.attn.left[i*c.KVHeads+g].Store(int32(sp.plan.blocks))
						}
					}
					p := spans[1].plan
					what := fmt.Sprintf("%+v, %d tokens at %d, %d workers, plan %+v", c, tokens, pos, workers, p)
					if p.tokens*(c.Heads/c.KVHeads) > max(attnRows, c.Heads/c.KVHeads) || tokens == 1 && p.units(&c) < min(attnUnits*workers, c.KVHeads*p.blocks) {
						t.Errorf("%s: too large, or too few", what)
					}
					s.begin(spans)
					for _, u := range r.Perm(units) {
						s.attentionUnit(0, u)
					}
					for i := range s.tokens {
						sp := &spans[s.spanOf[i]]
						last := sp.pos + i - sp.row
						for h := range c.Heads {
							at := i*c.QO() + h*c.HeadDim
							tile.SetQuery(0, s.q[at:][:c.HeadDim], s.scale)
							for from := 0; from <= last; from += kernels.AttnBlock {
								dst := block
								if from == 0 {
									dst = acc
								}
								k, v := kv.block(seq.pages[from/kernels.AttnBlock], 1, h/(c.Heads/c.KVHeads))
								tile.Block(dst, kind.KV, k, v, last+1-from, 1)
								if from > 0 {
									acc.Merge(block)
								}
							}
							acc.Result(0, out)
							sameBits(t, fmt.Sprintf("%s: row %d, head %d", what, i, h), s.att[at:][:c.HeadDim], out)
						}
					}
				}
			}
		}
		if err := kv.close(); err != nil {
			t.Error(err)
		}
	}
}
