// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"sync/atomic"
	"testing"

	"windhover/internal/testmodel"
	"windhover/kernels"
	"windhover/vqf"
)

// mixed is noisy with experts, whose widths and number are no multiples of what the
// kernels like.
func mixed() testmodel.Config {
	c := noisy()
	c.Experts, c.TopK, c.FFN = 11, 3, 96
	return c
}

func TestMixtureChunksAndThreadsGiveTheSameBits(t *testing.T) {
	path := testmodel.Write(t, mixed())
	tokens := noise(90)
	for _, family := range []string{"q8", "q4"} {
		for _, act := range activations() {
			t.Run(family+"/"+act, func(t *testing.T) {
				opt := Options{Family: family, Activations: act, Threads: 1}
				want := logitsOf(t, load(t, path, opt), tokens, 1) // single steps, one thread
				for threads := 1; threads <= cores(t); threads++ {
					opt.Threads = threads
					m := load(t, path, opt)
					for _, chunk := range []int{1, 2, 3, 7, 16, 33, 0} {
						sameBits(t, fmt.Sprintf("%d threads, chunk %d", threads, chunk), logitsOf(t, m, tokens, chunk), want)
					}
				}
			})
		}
	}
}

// One constant for every architecture and every set of kernels.
func TestMixtureBitsAreTheSameEverywhere(t *testing.T) {
	path := testmodel.Write(t, mixed())
	for family, want := range map[string]uint64{"q8": 0x4cd50dc11aaaeb93, "q4": 0x19dc88903b448dfb} {
		h := fnv.New64a()
		for _, v := range logitsOf(t, load(t, path, Options{Family: family}), noise(120), 0) {
			_ = binary.Write(h, binary.LittleEndian, v) // a hash takes everything
		}
		if got := h.Sum64(); got != want {
			t.Errorf("%s: logits have the digest %#x, want %#x", family, got, want)
		}
	}
}

func TestMixtureLayoutsGiveTheSameBits(t *testing.T) {
	tokens := noise(40)
	for _, family := range []string{"q8", "q4"} {
		var want []float32
		for _, layout := range []vqf.Layout{vqf.LayoutRow, vqf.Layout4x4, vqf.Layout8x8} {
			c := mixed()
			c.Q8, c.Q4 = layout, min(layout, vqf.Layout4x4)
			m := load(t, testmodel.Write(t, c), Options{Family: family})
			for _, chunk := range []int{1, 0} {
				got := logitsOf(t, m, tokens, chunk)
				if want == nil {
					want = got
				}
				sameBits(t, fmt.Sprintf("%s, chunk %d", m.Info().Layout, chunk), got, want)
			}
		}
	}
}

// sparing gives a few experts at a time, and counts what is asked for.
type sparing struct {
	residency
	most  int
	asked [][]int32 // by calls
}

func (r *sparing) experts(l int, ids []int32, stop *atomic.Bool) ([]expertWeights, error) {
	r.asked = append(r.asked, slices.Clone(ids))
	return r.residency.experts(l, ids[:min(r.most, len(ids))], stop)
}

// A residency with memory for a few experts gives the same bits; it is asked for
// those that some token of the pass chose and for no other, ascending.
func TestExpertsComeAFewAtATime(t *testing.T) {
	path := testmodel.Write(t, mixed())
	tokens := noise(40)
	for _, act := range activations() {
		want := logitsOf(t, load(t, path, Options{Activations: act}), tokens, 0)
		for _, most := range []int{1, 2, 3, 100} {
			for _, chunk := range []int{1, 5, 0} {
				m := load(t, path, Options{Activations: act})
				r := &sparing{residency: m.w.res, most: most}
				m.w.res = r
				var chosen [][]int32 // of a layer of a pass
				m.st.moe.routed = func(_ int, ids []int32) {
					chosen = append(chosen, slices.Compact(slices.Sorted(slices.Values(ids))))
				}
				sameBits(t, fmt.Sprintf("%s, %d experts at a time, chunk %d", act, most, chunk), logitsOf(t, m, tokens, chunk), want)
				var expect [][]int32
				for _, ids := range chosen {
					for ; len(ids) > 0; ids = ids[min(most, len(ids)):] {
						expect = append(expect, ids)
					}
				}
				if !slices.EqualFunc(r.asked, expect, slices.Equal[[]int32]) {
					t.Errorf("%s, %d at a time, chunk %d: asked for %v, chosen were %v", act, most, chunk, r.asked, chosen)
				}
			}
		}
	}
}

// Of equal probabilities the lower expert's is taken, also beside numbers that are
// none, which must not break anything.
func TestLargest(t *testing.T) {
	nan := float32(math.NaN())
	for _, c := range []struct {
		p    []float32
		want []int32
	}{
		{[]float32{1, 2, 3, 4}, []int32{3, 2}},
		{[]float32{4, 3, 2, 1}, []int32{0, 1}},
		{[]float32{1, 5, 5, 5}, []int32{1, 2}},
		{[]float32{0, 0, 0, 0}, []int32{0, 1}},
		{[]float32{5, 1, 5, 7, 5}, []int32{3, 0}},
		{[]float32{3}, []int32{0}},
		{[]float32{1, 1, 1, 2, 1, 2}, []int32{3, 5, 0}},
	} {
		got := make([]int32, len(c.want))
		if largest(got, c.p); !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.p, got, c.want)
		}
	}
	for _, p := range [][]float32{{nan, nan, nan, nan}, {1, nan, 3, nan}, {nan, 1, 2, 3}} {
		got := []int32{-1, -1}
		largest(got, p)
		if slices.Sort(got); got[0] < 0 || got[0] == got[1] || got[1] > 3 {
			t.Errorf("%v: %v", p, got)
		}
	}
}

// Every token of every expert has one row; several begin where the kernels can see
// them as one.
func TestGroup(t *testing.T) {
	c := Config{NExperts: 7, TopK: 3, MoEFFN: 32, Dim: 32}
	for _, tokens := range []int{1, 2, 5, 40} {
		m := newMixture(&c, 40, false)
		for i := range tokens {
			for j := range c.TopK {
				m.ids[i*c.TopK+j] = int32((i*i+2*j)%3 + 2*j)
				m.weights[i*c.TopK+j] = float32(i*10 + j)
			}
		}
		m.group(tokens)
		seen := map[float32]bool{}
		row := 0
		for i, e := range m.used {
			list, first := m.tokensOf(e)
			if first%kernels.RowsAlign != 0 || first < row || i > 0 && m.used[i-1] >= e || len(list) == 0 || !slices.IsSorted(list) {
				t.Errorf("%d tokens: expert %d: tokens %v from row %d on, %d are taken", tokens, e, list, first, row)
			}
			row = first + len(list)
			for i, token := range list {
				w := m.weight[first+i]
				if seen[w] || int32(w)/10 != token || m.ids[int(token)*c.TopK+int(w)%10] != e {
					t.Errorf("%d tokens: row %d: token %d with weight %v", tokens, first+i, token, w)
				}
				seen[w] = true
			}
		}
		if len(seen) != tokens*c.TopK || row != m.pairs || row > c.pairRows(tokens) {
			t.Errorf("%d tokens: %d pairs in %d rows, %d counted, room for %d", tokens, len(seen), row, m.pairs, c.pairRows(tokens))
		}
	}
}

func TestMixtureConfig(t *testing.T) {
	base := vqf.Arch{
		Dim: 64, NLayers: 1, NHeads: 2, NKVHeads: 1, HeadDim: 32, FFNDim: 4 * 32, VocabSize: 8, MaxSeqLen: 16,
		RopeTheta: 1e4, NormEps: 1e-6, NExperts: 4, TopK: 2, MoEFFN: 32,
	}
	c, err := configOf(base, vqf.FlagMoE)
	if err != nil || c.FFN != 64 || c.NExperts != 4 || c.TopK != 2 || c.MoEFFN != 32 {
		t.Errorf("%+v, %v", c, err)
	}
	for name, edit := range map[string]func(*vqf.Arch){
		"no experts":    func(a *vqf.Arch) { a.NExperts, a.FFNDim = 0, 64 },
		"none computes": func(a *vqf.Arch) { a.TopK = 0 },
		"too many":      func(a *vqf.Arch) { a.TopK = 5 },
		"absurd":        func(a *vqf.Arch) { a.NExperts, a.FFNDim = 5000, 5000*32 },
		"width":         func(a *vqf.Arch) { a.MoEFFN, a.FFNDim = 48, 4*48 },
		"product":       func(a *vqf.Arch) { a.FFNDim = 5 * 32 },
		"shared":        func(a *vqf.Arch) { a.SharedExperts = 1 },
	} {
		a := base
		edit(&a)
		if _, err := configOf(a, vqf.FlagMoE); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// The figures are what a token reads: of each stack the chosen experts' part.
func TestMixtureFootprint(t *testing.T) {
	c := mixed()
	f, err := vqf.Open(testmodel.Write(t, c), vqf.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cfg, err := configOf(f.Arch(), f.Flags())
	if err != nil {
		t.Fatal(err)
	}
	w := footprintOf(f, &cfg, "q8")
	one := int64(3 * c.Dim * c.FFN / kernels.BlockLen * kernels.Q8BlockBytes)
	matrices := int64(2*c.Dim*c.HeadDim*(c.Heads+c.KVHeads)) / kernels.BlockLen * kernels.Q8BlockBytes
	lm := int64(c.Dim*c.Vocab) / kernels.BlockLen * kernels.Q8BlockBytes
	if want := int64(c.Layers)*(matrices+int64(c.TopK)*one+int64(4*c.Experts*c.Dim)) + lm; w.touch != want {
		t.Errorf("a token reads %d bytes, want %d", w.touch, want)
	}
	if w.expert < one || w.expert > one+3*2*slotPage(false) {
		t.Errorf("an expert has %d bytes, want %d", w.expert, one)
	}
	if need, err := Estimate(f.Path(), Options{Family: "q8"}); err != nil || need.Touched != w.touch {
		t.Errorf("the estimate says %d bytes a token, want %d; %v", need.Touched, w.touch, err)
	}
}

// A pass with rows of several sequences, some of which share experts, gives each the
// bits it has alone.
func TestMixtureRowsAreAlone(t *testing.T) {
	path := testmodel.Write(t, mixed())
	for _, family := range []string{"q8", "q4"} {
		for _, act := range activations() {
			m := load(t, path, Options{Family: family, Activations: act, Sequences: 6, CacheBytes: 16 << 20})
			vocab := m.cfg.Vocab
			var prompts [][]int32
			var want [][]float32
			for i := range 6 {
				p := noise(60)[7*i:][:2+3*i]
				prompts = append(prompts, p)
				all := logitsOf(t, m, p, 0)
				want = append(want, slices.Clone(all[len(all)-vocab:]))
			}
			for _, last := range []int{1, 2, 5} { // tokens of each in the second pass, where there are more
				seqs := make([]*sequence, len(prompts))
				var spans [2][]span
				var rows []int
				row := 0
				for i, p := range prompts {
					seqs[i] = newSequence(m.kv, m.st.size.ctx)
					if !seqs[i].grow(len(p)) {
						t.Fatal("no pages")
					}
					at := max(len(p)-last, 1)
					spans[0] = append(spans[0], span{seq: seqs[i], tokens: p[:at]})
					spans[1] = append(spans[1], span{seq: seqs[i], tokens: p[at:], pos: at})
					row += len(p) - at
					rows = append(rows, row-1)
				}
				for _, list := range spans {
					if err := m.st.forward(list); err != nil {
						t.Fatal(err)
					}
				}
				if err := m.st.head(rows); err != nil {
					t.Fatal(err)
				}
				for i := range prompts {
					sameBits(t, fmt.Sprintf("%s, %s, sequence %d, %d tokens at last", family, act, i, last), m.st.logits[i*vocab:][:vocab], want[i])
					seqs[i].cut(0)
				}
			}
		}
	}
}
