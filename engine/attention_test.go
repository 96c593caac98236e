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
		kv, err := newKVCache(&c, ctx, kind)
		if err != nil {
			t.Fatal(err)
		}
		s := newState(&c, &weights{}, pool, kv, most, false)
		s.layer = 1
		key, value := make([]float32, c.HeadDim), make([]float32, c.HeadDim)
		for pos := range ctx {
			for g := range c.KVHeads {
				fill(key)
				fill(value)
				kv.grow(pos + 1)
				kv.store(1, g, pos, key, value)
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
					s.pos, s.tokens = pos, tokens
					fill(s.q)
					fill(s.att) // what is left of an earlier layer
					p := planAttention(&c, pos, tokens, workers)
					s.attn.plan = p
					what := fmt.Sprintf("%+v, %d tokens at %d, %d workers, plan %+v", c, tokens, pos, workers, p)
					if p.tokens*(c.Heads/c.KVHeads) > max(attnRows, c.Heads/c.KVHeads) || tokens == 1 && p.units(&c) < min(attnUnits*workers, c.KVHeads*p.blocks) {
						t.Errorf("%s: too large, or too few", what)
					}
					for g := range s.attn.left {
						s.attn.left[g].Store(int32(p.blocks))
					}
					for _, u := range r.Perm(p.units(&c)) {
						s.attentionUnit(0, u)
					}
					for i := range tokens {
						for h := range c.Heads {
							at := i*c.QO() + h*c.HeadDim
							tile.SetQuery(0, s.q[at:][:c.HeadDim], s.scale)
							for from := 0; from <= pos+i; from += kernels.AttnBlock {
								dst := block
								if from == 0 {
									dst = acc
								}
								k, v := kv.block(1, h/(c.Heads/c.KVHeads), from/kernels.AttnBlock)
								tile.Block(dst, kind.KV, k, v, pos+i+1-from, 1)
								if from > 0 {
									acc.Merge(block)
								}
							}
							acc.Result(0, out)
							sameBits(t, fmt.Sprintf("%s: token %d, head %d", what, i, h), s.att[at:][:c.HeadDim], out)
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
