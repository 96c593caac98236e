// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"slices"
	"testing"

	"windhover/internal/testmodel"
	"windhover/kernels"
)

// hand is a scheduler of a model with the pages of one context of three, whose turns
// the test does.
type hand struct {
	*scheduler
	t *testing.T
}

func newHand(t *testing.T, opt Options) *hand {
	t.Helper()
	c := long()
	c.MaxSeq = 3 * kernels.AttnBlock
	opt.NoTokenizer, opt.Threads = true, 1
	m := load(t, testmodel.Write(t, c), opt)
	if len(m.kv.list) != 3 {
		t.Fatalf("%d pages, want 3", len(m.kv.list))
	}
	return &hand{byHand(m), t}
}

// add queues a request of a client of its own, whose prompt begins like no other's.
func (h *hand) add(prompt, max, priority int) *generation {
	h.t.Helper()
	tokens := noise(prompt)
	tokens[0] = int32(h.arrivals % testmodel.Vocab)
	return h.request(Request{Tokens: tokens, MaxTokens: max, Client: fmt.Sprint(h.arrivals), Priority: priority})
}

func (h *hand) request(req Request) *generation {
	h.t.Helper()
	req.IgnoreEOS = true
	g, err := h.m.newGeneration(req)
	if err != nil {
		h.t.Fatal(err)
	}
	queueQuietly(h.scheduler, g)
	return g
}

// until does turns until a request is over.
func (h *hand) until(g *generation) {
	h.t.Helper()
	for !g.over {
		if !h.turn() {
			h.t.Fatal("nothing is done for a request")
		}
	}
}

// rest does the turns that are left, and looks whether each request got the tokens that
// it gets alone.
func (h *hand) rest(list ...*generation) {
	h.t.Helper()
	for h.turn() {
	}
	for i, g := range list {
		if !g.over || g.finish != FinishLength {
			h.t.Fatalf("request %d: over %v, %q, %v", i, g.over, g.finish, g.err)
		}
		for h.tree.evict() {
		}
		alone := h.request(g.req)
		h.until(alone)
		if !slices.Equal(g.ids(), alone.ids()) {
			h.t.Errorf("request %d gives %v, alone %v", i, g.ids(), alone.ids())
		}
	}
}

// Pages that a less urgent one has, or was let in for, keep no urgent one waiting.
func TestUrgentTakesPages(t *testing.T) {
	h := newHand(t, Options{Sequences: 4})
	low := h.add(400, 300, 9)
	for range 10 {
		h.turn()
	}
	high := h.add(300, 5, 0)
	h.until(high)
	if low.over || len(low.ids()) > 20 {
		t.Errorf("the urgent one was answered behind %d tokens of the other", len(low.ids()))
	}
	h.rest(low, high)
}

// Whole pages that both have count once.
func TestUrgentSharesPages(t *testing.T) {
	h := newHand(t, Options{Sequences: 4})
	text := noise(600)
	low := h.request(Request{Tokens: text, MaxTokens: 100, Client: "both", Priority: 9})
	for len(low.ids()) == 0 {
		h.turn()
	}
	other := slices.Clone(text[:530])
	other[520]++
	high := h.request(Request{Tokens: other, MaxTokens: 5, Client: "both"})
	h.until(high)
	if low.over || high.cached != 520 {
		t.Errorf("%d tokens of the prompt were cached, want 520; the less urgent one has ended: %v", high.cached, low.over)
	}
	h.rest(low, high)
}

// Nobody has to be put back for pages that are there already.
func TestSharedPagesCountOnce(t *testing.T) {
	h := newHand(t, Options{Sequences: 4})
	text := noise(300)
	first := h.request(Request{Tokens: text, MaxTokens: 20, Client: "both", Priority: 5})
	for len(first.ids()) == 0 {
		h.turn()
	}
	second := h.request(Request{Tokens: append(text[:kernels.AttnBlock:kernels.AttnBlock], noise(100)...), MaxTokens: 20, Client: "both", Priority: 5})
	h.turn()
	if len(h.active) != 2 {
		t.Errorf("%d in work, of two that need three pages together", len(h.active))
	}
	h.rest(first, second)
}

// What an urgent one was let in for is not taken while its prompt is computed.
func TestUrgentKeepsWhatItLacks(t *testing.T) {
	h := newHand(t, Options{Sequences: 4, Chunk: 40})
	low := h.add(250, 300, 9)
	for len(low.ids()) == 0 {
		h.turn()
	}
	high := h.add(500, 5, 0)
	h.turn()
	if len(h.active) != 2 {
		t.Fatalf("%d in work, want both", len(h.active))
	}
	h.until(high)
	if low.over || len(low.ids()) > 20 {
		t.Errorf("the urgent one was answered behind %d tokens of the other", len(low.ids()))
	}
	h.rest(low, high)
}

// Nobody is put back in vain: neither for pages, where those of the less urgent would
// not be enough, nor for a place, where pages lack.
func TestNobodyYieldsInVain(t *testing.T) {
	for _, sequences := range []int{2, 4} {
		h := newHand(t, Options{Sequences: sequences})
		first, low := h.add(400, 30, 5), h.add(100, 30, 9)
		for len(low.ids()) == 0 {
			h.turn()
		}
		second := h.add(600, 5, 5)
		said := len(low.ids())
		for range 5 {
			h.turn()
		}
		if len(low.ids()) != said+5 || second.seq != nil {
			t.Errorf("%d sequences: the less urgent one said %d tokens in 5 turns, the one that waits is in work: %v", sequences, len(low.ids())-said, second.seq != nil)
		}
		h.rest(first, low, second)
	}
}

// Whoever waits is passed by so many, for a place and with his prompt; of a client one
// request at a time counts them.
func TestNobodyIsPassedForEver(t *testing.T) {
	for _, sequences := range []int{1, 2} {
		h := newHand(t, Options{Sequences: sequences, Chunk: 32})
		begun := map[*generation]int{}
		var low []*generation
		for i := range 2 {
			tokens := noise(64)
			tokens[0] = int32(i)
			low = append(low, h.request(Request{Tokens: tokens, MaxTokens: 1, Client: "low", Priority: 9}))
		}
		for n := 0; len(begun) < len(low); n++ {
			if n > 500 {
				t.Fatalf("%d sequences: five hundred more urgent ones went by", sequences)
			}
			h.add(32, 1, 5) // a chunk, and the answer with it
			h.turn()
			for _, g := range low {
				if _, ok := begun[g]; !ok && g.over {
					begun[g] = n
				}
			}
		}
		most := (9 - 5 + 1) * patience
		if a, b := begun[low[0]], begun[low[1]]; a < most-2*patience || a > most+2 || b < a+most-2*patience || b > a+most+2 {
			t.Errorf("%d sequences: answered after %d and %d more urgent ones", sequences, a, b)
		}
		h.rest(low...)
	}
}

// Where a text begins with the token that is to stand there, it does so when it was cut.
func TestTruncateKeepsBOS(t *testing.T) {
	m := load(t, testmodel.Write(t, testmodel.Default()), Options{})
	const bos = 7
	m.meta.BosID = bos
	text := append([]int32{bos}, noise(300)...)
	end := func(n int) []int32 { return text[len(text)-n:] }
	for _, c := range []struct {
		policy string
		tokens []int32
		max    int
		want   []int32
	}{
		{TruncateOldest, text, 56, slices.Concat(text[:1], end(199))},
		{TruncateOldest, text[1:], 56, end(200)},
		{TruncateOldest, text[:200], 56, text[:200]},
		{TruncateOldest, text, 254, slices.Concat(text[:1], end(1))},
		{TruncateOldest, text, 255, end(1)}, // nothing to go on from, else
		{TruncateMiddle, text, 56, slices.Concat(text[:50], end(150))},
		{TruncateMiddle, text, 253, slices.Concat(text[:1], end(2))},
		{TruncateMiddle, text[1:], 253, end(3)},
		{TruncateMiddle, text, 255, end(1)},
	} {
		g, err := m.newGeneration(Request{Tokens: c.tokens, MaxTokens: c.max, Truncate: c.policy})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(g.prompt, c.want) {
			t.Errorf("%s of %d tokens with %d to come: %v, want %v", c.policy, len(c.tokens), c.max, g.prompt, c.want)
		}
	}
}
