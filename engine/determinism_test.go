// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"testing"

	"windhover/internal/testmodel"
	"windhover/kernels"
	"windhover/vqf"
)

// The determinism contract: these must agree bit for bit.

// noisy is a model in which every part matters to the logits. Its widths are no
// multiples of what the kernels like.
func noisy() testmodel.Config {
	c := testmodel.Default()
	c.Random, c.Mode = true, vqf.ModeDual
	c.Layers, c.Heads, c.KVHeads, c.HeadDim, c.Dim, c.FFN = 3, 6, 2, 32, 160, 224
	return c
}

// long is noisy with room for more than a block of attention.
func long() testmodel.Config {
	c := noisy()
	c.MaxSeq = 2 * kernels.AttnBlock
	return c
}

// noise is a sequence of tokens.
func noise(n int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32((i*i*31 + i*7 + 3) % testmodel.Vocab)
	}
	return ids
}

func sameBits(t *testing.T, what string, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d values, want %d", what, len(got), len(want))
	}
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("%s: value %d is %v (%#x), want %v (%#x)", what, i,
				got[i], math.Float32bits(got[i]), want[i], math.Float32bits(want[i]))
		}
	}
}

// cores is the number of CPUs a pool can be made of here.
func cores(t testing.TB) int {
	t.Helper()
	topo, err := kernels.DetectTopology()
	if err != nil {
		t.Fatal(err)
	}
	return len(topo.All)
}

func TestChunksAndThreadsGiveTheSameBits(t *testing.T) {
	path := testmodel.Write(t, long())
	check := func(opt Options, tokens []int32, chunks ...int) {
		t.Run(opt.Family+"/"+opt.Activations+"/"+opt.KV, func(t *testing.T) {
			opt.Threads = 1
			want := logitsOf(t, load(t, path, opt), tokens, 1) // single steps, one thread
			for threads := 1; threads <= cores(t); threads++ {
				opt.Threads = threads
				m := load(t, path, opt)
				for _, chunk := range chunks {
					sameBits(t, fmt.Sprintf("%d threads, chunk %d", threads, chunk), logitsOf(t, m, tokens, chunk), want)
				}
			}
		})
	}
	for _, family := range []string{"q8", "q4"} {
		for _, act := range activations() {
			check(Options{Family: family, Activations: act}, noise(100), 1, 2, 3, 7, 16, 17, 33, 64, 99, 0)
		}
	}
	// Over a block of attention.
	for _, kv := range []string{"f16", "int8"} {
		check(Options{Family: "q8", KV: kv}, noise(300), 1, 7, 64, 0)
	}
}

// One constant for every architecture and every set of kernels. (Rotary tables
// and this model's noise come from package math in float64, of which a last bit
// may depend on the architecture; rounding to float32 hides it here.)
func TestBitsAreTheSameEverywhere(t *testing.T) {
	path := testmodel.Write(t, long())
	for _, c := range []struct {
		family, kv string
		want       uint64
	}{{"q8", "f16", 0xf0dfe71058606fab}, {"q8", "int8", 0x98c847ef95ee5b99}, {"q4", "f16", 0x9c08eb4504fcfd9}} {
		h := fnv.New64a()
		for _, v := range logitsOf(t, load(t, path, Options{Family: c.family, KV: c.kv}), noise(300), 0) {
			_ = binary.Write(h, binary.LittleEndian, v) // a hash takes everything
		}
		if got := h.Sum64(); got != c.want {
			t.Errorf("%s, %s: logits have the digest %#x, want %#x", c.family, c.kv, got, c.want)
		}
	}
}

func TestPrefillLeavesTheCacheOfSingleSteps(t *testing.T) {
	path := testmodel.Write(t, noisy())
	tokens := noise(77)
	for _, kv := range []string{"f16", "int8"} {
		var caches [2][]byte
		for i, chunk := range []int{1, 0} {
			m := load(t, path, Options{KV: kv})
			logitsOf(t, m, tokens, chunk)
			for l := range m.cfg.Layers {
				for g := range m.cfg.KVHeads {
					k, v := m.kv.block(&m.kv.list[0], l, g)
					caches[i] = append(append(caches[i], k...), v...)
				}
			}
		}
		if !slices.Equal(caches[0], caches[1]) {
			t.Errorf("%s: keys and values differ", kv)
		}
		if !slices.ContainsFunc(caches[0], func(h byte) bool { return h != 0 }) {
			t.Errorf("%s: the cache is empty", kv)
		}
	}
}

func TestLayoutsGiveTheSameBits(t *testing.T) {
	tokens := noise(40)
	for _, family := range []string{"q8", "q4"} {
		var want []float32
		for _, layout := range []vqf.Layout{vqf.LayoutRow, vqf.Layout4x4, vqf.Layout8x8} {
			c := noisy()
			c.Q8, c.Q4 = layout, min(layout, vqf.Layout4x4)
			// Without a tokenizer nothing says which of the two layouts that have
			// no flag a Q8 file is in: the reader must tell from the bytes.
			m := load(t, testmodel.Write(t, c), Options{Family: family})
			name := m.Info().Layout
			if wantName := family + " " + min(layout, map[string]vqf.Layout{"q8": vqf.Layout8x8, "q4": vqf.Layout4x4}[family]).String(); name != wantName {
				t.Errorf("layout %q, want %q", name, wantName)
			}
			for _, chunk := range []int{1, 0} {
				got := logitsOf(t, m, tokens, chunk)
				if want == nil {
					want = got
				}
				sameBits(t, fmt.Sprintf("%s, chunk %d", name, chunk), got, want)
			}
		}
	}
}

func TestPrefixReuseGivesTheSameTokens(t *testing.T) {
	path := testmodel.Write(t, noisy())
	ctx := context.Background()
	sampling := Sampling{Temperature: 1, TopK: 40, TopP: 0.95, Seed: 7}
	prompts := [][]int32{noise(60), append(noise(50), 9, 9, 9), noise(30), append(noise(60), 5), noise(60)}
	cached := []int{0, 50, 29, 60, 59}

	used := load(t, path, Options{Chunk: 16, CacheBytes: 16 << 20})
	for i, p := range prompts {
		req := Request{Tokens: p, MaxTokens: 20, Sampling: sampling, IgnoreEOS: true, Raw: true}
		got, err := used.Generate(ctx, req, nil)
		if err != nil {
			t.Fatal(err)
		}
		fresh := load(t, path, Options{Chunk: 64})
		want, err := fresh.Generate(ctx, req, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got.Tokens, want.Tokens) {
			t.Errorf("prompt %d: tokens %v, want %v", i, got.Tokens, want.Tokens)
		}
		if got.Usage.Cached != cached[i] || want.Usage.Cached != 0 {
			t.Errorf("prompt %d: %d cached and %d in a fresh model, want %d and 0", i, got.Usage.Cached, want.Usage.Cached, cached[i])
		}
	}
}

// The answer itself is in the cache: a conversation that goes on computes only
// what is new.
func TestConversationReusesTheAnswer(t *testing.T) {
	m := load(t, testmodel.Write(t, noisy()), Options{})
	req := Request{Tokens: noise(20), MaxTokens: 10, IgnoreEOS: true, Raw: true}
	first, err := m.Generate(context.Background(), req, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Tokens = append(append(slices.Clone(req.Tokens), first.Tokens...), noise(5)...)
	second, err := m.Generate(context.Background(), req, nil)
	if err != nil {
		t.Fatal(err)
	}
	// The last token of the answer was never computed.
	if got, want := second.Usage.Cached, 20+10-1; got != want {
		t.Errorf("%d cached, want %d", got, want)
	}
}

func TestSeeds_P115(t *testing.T) {
	m := load(t, testmodel.Write(t, noisy()), Options{})
	run := func(seed uint64) []int32 {
		res, err := m.Generate(context.Background(), Request{
			Tokens: noise(10), MaxTokens: 30, IgnoreEOS: true, Raw: true,
			Sampling: Sampling{Temperature: 1.5, TopP: 0.99, MinP: 0.001, RepeatPenalty: 1.1, Seed: seed},
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return res.Tokens
	}
	a, b, c := run(1), run(1), run(2)
	if !slices.Equal(a, b) {
		t.Errorf("seed 1 gave %v, then %v", a, b)
	}
	if slices.Equal(a, c) {
		t.Errorf("seeds 1 and 2 gave the same 30 tokens %v", a)
	}
}

// byHand ends the scheduler's goroutine, so that the test can do its turns.
func byHand(m *Model) *scheduler {
	m.sched.close()
	return m.sched
}

// queueQuietly puts a request in the queue of a scheduler that is done by hand.
func queueQuietly(s *scheduler, g *generation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.arrivals++
	g.arrival = s.arrivals
	s.open(g)
	s.waiting = append(s.waiting, g)
}

func TestDecodeAllocatesNothing(t *testing.T) {
	for _, family := range []string{"q8", "q4"} {
		for _, requests := range []int{1, 3} {
			m := load(t, testmodel.Write(t, noisy()), Options{Family: family, NoTokenizer: true, CacheBytes: 16 << 20})
			s := byHand(m)
			for i := range requests {
				g, err := m.newGeneration(Request{
					Tokens: noise(20 + i), MaxTokens: 100, IgnoreEOS: true,
					Sampling: Sampling{Temperature: 1, TopK: 20, TopP: 0.9, RepeatPenalty: 1.1},
				})
				if err != nil {
					t.Fatal(err)
				}
				queueQuietly(s, g)
			}
			for range 3 {
				s.turn()
			}
			said := len(s.active[0].all)
			got := testing.AllocsPerRun(50, func() { s.turn() })
			if n := len(s.active[0].all) - said; got != 0 || n != 51 {
				t.Errorf("%s, %d requests: %v allocations a pass, want 0, and %d tokens in 51", family, requests, got, n)
			}
			for s.turn() {
			}
		}
	}
}
