// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"windhover/internal/testmodel"
	"windhover/kernels"
)

// fakePages is a tree whose pages hold the labels themselves, as keys, so that a
// wrong page shows.
type fakePages struct {
	*testing.T
	pool *pagePool
	tree *prefixTree
}

func newFakePages(t *testing.T, pages int) *fakePages {
	pool, err := newPagePool(&Config{Layers: 1, Heads: 1, KVHeads: 1, HeadDim: 4}, pages, kvKind{wide: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pool.close(); err != nil {
			t.Error(err)
		}
	})
	return &fakePages{t, pool, newPrefixTree(pool)}
}

// know computes a sequence and ends it.
func (f *fakePages) know(labels []int32) {
	q := f.begin(labels)
	f.compute(q, labels)
	f.tree.end(q)
}

// begin is a new sequence of labels, as much of it as is kept.
func (f *fakePages) begin(labels []int32) *sequence {
	q := newSequence(f.pool, 4096)
	f.tree.begin(q, labels)
	if !slices.Equal(q.labels, labels[:q.len()]) {
		f.Errorf("begun with %v of %v", q.labels, labels)
	}
	f.check(q)
	return q
}

// compute adds labels, in pieces; false when there is no page.
func (f *fakePages) compute(q *sequence, labels []int32) bool {
	for len(labels) > 0 {
		n := min(len(labels), 100)
		for !q.grow(q.len() + n) {
			if !f.tree.evict() {
				return false
			}
		}
		for i, l := range labels[:n] {
			pos := q.len() + i
			v := []float32{float32(l), float32(pos), 0, 0}
			f.pool.store(q.pages[pos/kernels.AttnBlock], 0, 0, pos%kernels.AttnBlock, v, v)
		}
		q.computed(labels[:n])
		f.tree.keep(q)
		labels = labels[n:]
	}
	f.check(q)
	return true
}

// check holds a sequence's pages against its labels.
func (f *fakePages) check(q *sequence) {
	f.Helper()
	for pos, l := range q.labels {
		k, _ := f.pool.block(q.pages[pos/kernels.AttnBlock], 0, 0)
		if at := floatsOf(k)[pos%kernels.AttnBlock*4:]; at[0] != float32(l) || at[1] != float32(pos) {
			f.Fatalf("position %d has label %v of %v, want %d", pos, at[0], at[1], l)
		}
	}
}

// account holds every page against who has it.
func (f *fakePages) account(open ...*sequence) {
	f.Helper()
	refs := map[*page]int{}
	for _, q := range open {
		for _, pg := range q.pages {
			refs[pg]++
		}
	}
	for i, n := range f.tree.all {
		refs[n.page]++
		if n.index != i || len(n.labels) > n.page.fill || len(n.children) > 0 && len(n.labels) < kernels.AttnBlock {
			f.Errorf("node %d of %d labels, index %d, fill %d, %d children", i, len(n.labels), n.index, n.page.fill, len(n.children))
		}
	}
	kept := 0
	for _, n := range f.tree.all {
		kept += len(n.labels)
	}
	if n := int(f.tree.kept.Load()); n != kept {
		f.Errorf("%d positions kept, said are %d", kept, n)
	}
	free := 0
	for i := range f.pool.list {
		pg := &f.pool.list[i]
		if pg.refs != refs[pg] {
			f.Fatalf("page %d: %d refs, %d have it", i, pg.refs, refs[pg])
		}
		if pg.refs == 0 {
			free++
		}
	}
	if free != len(f.pool.free) {
		f.Errorf("%d pages free, %d in the list", free, len(f.pool.free))
	}
}

func labelsOf(seed, n int) []int32 {
	list := make([]int32, n)
	for i := range list {
		list[i] = int32(seed*1000 + i)
	}
	return list
}

func TestPrefixIsShared(t *testing.T) {
	f := newFakePages(t, 16)
	text := labelsOf(1, 600)
	a := f.begin(text)
	if a.len() != 0 {
		t.Fatalf("%d of nothing", a.len())
	}
	f.compute(a, text)
	// Its whole pages are there while it is in work, the rest when it has ended.
	b := f.begin(text)
	if b.len() != 512 || f.pool.inUse() != 3 {
		t.Errorf("%d positions in %d pages, want 512 in 3", b.len(), f.pool.inUse())
	}
	f.tree.end(a)
	c := f.begin(append(slices.Clone(text), 7, 8))
	if c.len() != 600 || f.pool.inUse() != 3 {
		t.Errorf("%d positions in %d pages, want 600 in 3: the last one is continued", c.len(), f.pool.inUse())
	}
	// The second to continue it gets a copy; so does who departs in a page.
	d := f.begin(append(slices.Clone(text), 7, 9))
	e := f.begin(append(slices.Clone(text[:300]), 5))
	if d.len() != 600 || e.len() != 300 || f.pool.inUse() != 5 {
		t.Errorf("%d and %d positions in %d pages, want 600 and 300 in 5", d.len(), e.len(), f.pool.inUse())
	}
	f.compute(c, []int32{7, 8})
	f.compute(d, []int32{7, 9})
	f.compute(e, labelsOf(2, 300))
	for _, q := range []*sequence{b, c, d, e} {
		f.check(q)
	}
	f.account(b, c, d, e)
	for _, q := range []*sequence{b, c, d, e} {
		f.tree.end(q)
	}
	f.account()
	for _, want := range [][]int32{append(slices.Clone(text), 7, 8), append(slices.Clone(text), 7, 9), append(slices.Clone(text[:300]), labelsOf(2, 300)...)} {
		if q := f.begin(want); q.len() != len(want) {
			t.Errorf("%d of %d kept", q.len(), len(want))
		} else {
			f.tree.end(q)
		}
	}
	f.account()
}

// The longest unused goes first, what it stands on after it, and what is in use
// never.
func TestPrefixEviction(t *testing.T) {
	f := newFakePages(t, 6)
	for i := range 3 {
		f.know(labelsOf(i, 500))
	}
	f.tree.end(f.begin(labelsOf(0, 500))) // used again
	q := f.begin(labelsOf(9, 200))
	f.compute(q, labelsOf(9, 200)) // takes the page of 1
	if n := f.begin(labelsOf(1, 500)); n.len() != 256 {
		t.Errorf("%d kept of the oldest, want its first page", n.len())
	} else {
		f.tree.end(n)
	}
	f.account(q)
	used := f.begin(labelsOf(2, 500)) // continues the second page
	for f.tree.evict() {
	}
	f.account(q, used)
	f.check(used)
	if f.pool.inUse() != 3 {
		t.Errorf("%d pages in use, want 3", f.pool.inUse())
	}
	f.tree.end(q)
	f.tree.end(used)
	if n := f.tree.evictable(); n != 3 {
		t.Errorf("%d can be evicted, want 3", n)
	}
}

// Whatever comes in whatever order, each sequence has its own text.
func TestPrefixAtRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	f := newFakePages(t, 24)
	type work struct {
		q    *sequence
		text []int32
	}
	var open []work
	var past [][]int32
	shared := 0
	for range 3000 {
		switch {
		case len(open) < 4 && r.IntN(2) == 0:
			text := labelsOf(r.IntN(3), r.IntN(700))
			if len(past) > 0 && r.IntN(4) > 0 {
				old := past[r.IntN(len(past))]
				text = append(slices.Clone(old[:r.IntN(len(old)+1)]), labelsOf(r.IntN(50), r.IntN(300))...)
			}
			text = text[:min(len(text), 1000)]
			q := f.begin(text)
			shared += q.len()
			open = append(open, work{q, text})
		case len(open) > 0:
			i := r.IntN(len(open))
			w := open[i]
			if rest := w.text[w.q.len():]; len(rest) > 0 && r.IntN(8) > 0 && f.compute(w.q, rest[:1+r.IntN(len(rest))]) {
				continue
			}
			past = append(past, w.text[:w.q.len()])
			f.tree.end(w.q)
			open = slices.Delete(open, i, i+1)
		}
		var qs []*sequence
		for _, w := range open {
			f.check(w.q)
			qs = append(qs, w.q)
		}
		f.account(qs...)
	}
	if shared < 50000 {
		t.Errorf("only %d positions shared", shared)
	}
}

// The follow-up turn of a conversation of 2000 tokens computes what is new, and
// answers what it would answer without.
func TestFollowUpComputesWhatIsNew(t *testing.T) {
	c := noisy()
	c.MaxSeq = 4096
	path := testmodel.Write(t, c)
	n := 2000
	if testing.Short() { // minutes under emulation
		n = 600
	}
	for _, kv := range []string{"f16", "int8"} {
		m := load(t, path, Options{KV: kv, Chunk: 64})
		talk := slices.Clone(noise(n))
		for turn := range 3 {
			req := Request{Tokens: talk, MaxTokens: 20, IgnoreEOS: true, Raw: true, Sampling: Sampling{Temperature: 1, Seed: 3}}
			rows := 0
			m.st.trace = func(layer int, _ []float32) {
				if layer == 0 {
					rows += m.st.tokens
				}
			}
			got, err := m.Generate(context.Background(), req, nil)
			if err != nil {
				t.Fatal(err)
			}
			settle(t, m)
			m.st.trace = nil
			if turn > 0 && (got.Usage.Cached != len(talk)-31 || rows != 31+19) {
				t.Errorf("%s, turn %d: %d of %d cached, %d rows computed; want all but 31, and 50", kv, turn, got.Usage.Cached, len(talk), rows)
			}
			if want := tokensOf(t, load(t, path, Options{KV: kv}), req); !slices.Equal(got.Tokens, want) {
				t.Errorf("%s, turn %d: %v, without what was kept %v", kv, turn, got.Tokens, want)
			}
			talk = append(append(talk, got.Tokens...), noise(30)...)
		}
	}
}

// A beginning that requests share is computed once and held once.
func TestSystemPromptIsHeldOnce(t *testing.T) {
	c := noisy()
	c.MaxSeq = 2048
	m := load(t, testmodel.Write(t, c), Options{Chunk: 64})
	system := noise(1030)
	for i := range 4 {
		res, err := m.Generate(context.Background(), Request{Tokens: append(slices.Clone(system), int32(i), 9, 9), MaxTokens: 3, IgnoreEOS: true, Raw: true}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if want := min(i, 1) * 1030; res.Usage.Cached != want {
			t.Errorf("request %d: %d cached, want %d", i, res.Usage.Cached, want)
		}
	}
	settle(t, m)
	if n := m.kv.inUse(); n != 4+4 {
		t.Errorf("%d pages in use, want 4 that are shared and one for each", n)
	}
}
