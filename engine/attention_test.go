// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"windhover/kernels"
)

// However attention is cut, it is scores, softmax and sum over the whole cache.
func TestAttentionUnitsGiveTheWhole(t *testing.T) {
	const ctx, pos = 700, 400
	pool, err := kernels.NewPool([]int{firstCPU(t)}, false)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	r := rand.New(rand.NewPCG(1, 2))
	for _, c := range []Config{
		{Heads: 1, KVHeads: 1, HeadDim: 128}, {Heads: 9, KVHeads: 3, HeadDim: 64}, {Heads: 32, KVHeads: 8, HeadDim: 128},
		{Heads: 14, KVHeads: 2, HeadDim: 16}, {Heads: 40, KVHeads: 2, HeadDim: 32},
	} {
		c.Dim, c.FFN, c.Vocab, c.Layers = 32, 32, 32, 2
		kv, err := newKVCache(&c, ctx, false)
		if err != nil {
			t.Fatal(err)
		}
		s := newState(&c, &weights{}, pool, kv, 70, false)
		fill := func(x []float32) {
			for i := range x {
				x[i] = float32(r.NormFloat64())
			}
		}
		row := make([]float32, c.HeadDim)
		for i := 0; i < len(kv.k16); i += c.HeadDim {
			fill(row)
			kernels.F32ToF16Slice(kv.k16[i:][:c.HeadDim], row)
			fill(row)
			kernels.F32ToF16Slice(kv.v16[i:][:c.HeadDim], row)
		}
		s.layer, s.pos = 1, pos
		for _, tokens := range []int{1, 2, 5, 16, 33, 70} {
			for _, workers := range []int{1, 2, 4, 8} {
				s.tokens, s.plan = tokens, planAttention(&c, tokens, workers)
				fill(s.q)
				fill(s.att) // what is left of an earlier layer
				if p := s.plan; p.heads*p.tokens > scoreRows || tokens == 1 && p.units(&c) < min(2*workers, c.Heads/2) {
					t.Errorf("%+v, %d tokens, %d workers: plan %+v", c, tokens, workers, p)
				}
				for u := range s.plan.units(&c) {
					s.attentionUnit(0, u)
				}
				want, out := make([]float32, ctx), make([]float32, c.HeadDim)
				for i := range tokens {
					for h := range c.Heads {
						n := pos + i + 1
						at := kv.at(1, h/(c.Heads/c.KVHeads), 0)
						kernels.AttnScores(want[:n], s.q[i*c.QO()+h*c.HeadDim:][:c.HeadDim], kv.k16[at:], c.HeadDim, s.scale)
						kernels.Softmax(want[:n])
						clear(out)
						kernels.AttnAccumulate(out, want[:n], kv.v16[at:], c.HeadDim)
						sameBits(t, fmt.Sprintf("%+v, token %d of %d, head %d, %d workers", c, i, tokens, h, workers),
							s.att[i*c.QO()+h*c.HeadDim:][:c.HeadDim], out)
					}
				}
			}
		}
		if err := kv.close(); err != nil {
			t.Error(err)
		}
	}
}
