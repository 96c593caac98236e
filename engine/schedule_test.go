// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	"windhover/internal/testmodel"
	"windhover/kernels"
)

// throng is requests of many kinds: alike and unlike beginnings, short and over
// pages, greedy and drawn, of some clients and priorities.
func throng(n int) []Request {
	r := rand.New(rand.NewPCG(5, 6))
	var list []Request
	for i := range n {
		prompt := slices.Clone(noise(300)[:1+r.IntN(290)])
		for k := r.IntN(2) * len(prompt) / 2; k < len(prompt) && i%3 > 0; k += 1 + r.IntN(9) {
			prompt[k] = int32(r.IntN(testmodel.Vocab))
		}
		req := Request{
			Tokens: prompt, MaxTokens: 1 + r.IntN(60), IgnoreEOS: true, Raw: true,
			Client: fmt.Sprint(i % 4), Priority: r.IntN(3),
		}
		if i%2 == 0 {
			req.Sampling = Sampling{Temperature: 1.2, TopP: 0.98, Seed: uint64(i), RepeatPenalty: 1 + float32(i%4)/10}
		}
		list = append(list, req)
	}
	return list
}

// alone computes requests one after the other, each from an empty cache.
func alone(t *testing.T, m *Model, list []Request) (want [][]int32) {
	t.Helper()
	for _, req := range list {
		forget(t, m)
		want = append(want, tokensOf(t, m, req))
	}
	return want
}

// forget empties the cache.
func forget(t *testing.T, m *Model) {
	t.Helper()
	settle(t, m)
	for m.sched.tree.evict() {
	}
	if n := m.kv.inUse(); n != 0 {
		t.Fatalf("%d pages in use by nobody", n)
	}
}

// Whoever computes beside a request, whatever is kept of others, in however many
// turns: each gets the tokens it would get alone.
func TestOthersChangeNoTokens(t *testing.T) {
	c := long()
	c.MaxSeq = 3 * kernels.AttnBlock
	path := testmodel.Write(t, c)
	list := throng(24)
	few, most := 1, []int{1, 2, 3, 5, 8}
	if testing.Short() { // minutes without vector instructions
		few, most = min(2, cores(t)), []int{3, 8}
	}
	for _, kv := range []string{"f16", "int8"} {
		want := alone(t, load(t, path, Options{KV: kv, Threads: 1, Sequences: 1}), list)
		r := rand.New(rand.NewPCG(7, 8))
		for threads := few; threads <= min(3, cores(t)); threads++ {
			for _, sequences := range most {
				// With no more pages than one sequence may need, some are put back.
				m := load(t, path, Options{KV: kv, Threads: threads, Sequences: sequences, Chunk: 1 + r.IntN(80)})
				var all sync.WaitGroup
				for _, i := range r.Perm(len(list)) {
					wait := r.IntN(200)
					all.Go(func() {
						for range wait {
							runtime.Gosched()
						}
						res, err := m.Generate(context.Background(), list[i], func(Event) error { return nil })
						if err != nil {
							t.Errorf("request %d: %v", i, err)
							return
						}
						if !slices.Equal(res.Tokens, want[i]) {
							t.Errorf("%s, %d threads, %d sequences: request %d gives %v, alone %v", kv, threads, sequences, i, res.Tokens, want[i])
						}
					})
				}
				all.Wait()
				forget(t, m)
			}
		}
	}
}

// A batch is what the scheduler makes of requests that are there together, and a
// prompt is computed in pieces beside them.
func TestPasses(t *testing.T) {
	c := long()
	m := load(t, testmodel.Write(t, c), Options{Chunk: 50, NoTokenizer: true, CacheBytes: 16 << 20})
	s := byHand(m)
	add := func(prompt, max int, client string) *generation {
		g, err := m.newGeneration(Request{Tokens: noise(prompt), MaxTokens: max, IgnoreEOS: true, Client: client})
		if err != nil {
			t.Fatal(err)
		}
		g.prompt[0] = int32(s.arrivals) // nothing to share
		g.all[0] = g.prompt[0]
		queueQuietly(s, g)
		return g
	}
	rows := func() (list []int) {
		s.turn()
		for i := range s.spans {
			list = append(list, len(s.spans[i].tokens))
		}
		return list
	}
	is := func(what string, want ...int) {
		t.Helper()
		if got := rows(); !slices.Equal(got, want) {
			t.Errorf("%s: rows %v, want %v", what, got, want)
		}
	}
	a := add(20, 12, "a")
	b := add(35, 8, "b")
	is("two prompts in a chunk", 20, 30)
	is("a token beside a prompt", 1, 5)
	is("two tokens", 1, 1)
	d := add(100, 2, "a")
	is("a piece of a prompt", 1, 1, mixedRows)
	is("another", 1, 1, mixedRows)
	is("another", 1, 1, mixedRows)
	is("the last", 1, 1, 4)
	is("three tokens", 1, 1, 1)
	if !d.over || len(d.ids()) != 2 {
		t.Errorf("over %v with %v", d.over, d.ids())
	}
	s.leave(a, FinishCancel)
	is("without the one that left", 1)
	for s.turn() {
	}
	if !a.over || a.finish != FinishCancel || b.finish != FinishLength || len(b.ids()) != 8 {
		t.Errorf("finished %q and %q with %v", a.finish, b.finish, b.ids())
	}
	if len(s.active)+len(s.waiting)+len(s.clients) != 0 {
		t.Errorf("%d active, %d waiting, %d clients", len(s.active), len(s.waiting), len(s.clients))
	}
}

// Who has two places more than another gives one up to him; who is urgent goes
// first; one client's requests are in the order of their arrival.
func TestTurns(t *testing.T) {
	m := load(t, testmodel.Write(t, long()), Options{Sequences: 4, NoTokenizer: true, CacheBytes: 16 << 20})
	s := byHand(m)
	names := map[*generation]string{}
	add := func(name string, priority int) {
		g, err := m.newGeneration(Request{Tokens: noise(5), MaxTokens: 50, IgnoreEOS: true, Client: name[:1], Priority: priority})
		if err != nil {
			t.Fatal(err)
		}
		names[g] = name
		queueQuietly(s, g)
	}
	active := func(want ...string) {
		t.Helper()
		s.turn()
		var got []string
		for _, g := range s.active {
			got = append(got, names[g])
		}
		if !slices.Equal(got, want) {
			t.Errorf("active %v, want %v", got, want)
		}
	}
	for _, n := range []string{"a1", "a2", "a3", "a4", "a5"} {
		add(n, 5)
	}
	active("a1", "a2", "a3", "a4")
	add("b1", 5)
	active("a1", "a2", "a3", "b1")
	add("b2", 5)
	active("a1", "a2", "b1", "b2")
	add("c1", 5)
	active("a1", "a2", "b1", "c1")
	add("d1", 4)
	active("d1", "a1", "b1", "c1")
	add("a0", 0)
	active("a0", "d1", "b1", "c1")
	for s.turn() {
	}
	for g, name := range names {
		if !g.over || g.finish != FinishLength {
			t.Errorf("%s: over %v, %q", name, g.over, g.finish)
		}
	}
}

// A slow listener stops nobody, and gets what came meanwhile together.
func TestSlowListener(t *testing.T) {
	m := load(t, testmodel.Write(t, testmodel.Default()), Options{})
	ctx := context.Background()
	calls, text := 0, ""
	res, err := m.Generate(ctx, Request{Tokens: testmodel.Tokens("0"), MaxTokens: 200}, func(e Event) error {
		calls++
		text += e.Delta.Text
		for range 3 { // takes as long as it may
			if _, err := m.Generate(ctx, Request{Tokens: testmodel.Tokens("0"), MaxTokens: 200}, nil); err != nil {
				t.Error(err)
			}
		}
		return nil
	})
	if err != nil || text != res.Text || len(res.Text) != 200 {
		t.Errorf("%q of %+v, %v", text, res, err)
	}
	if calls > 20 {
		t.Errorf("%d calls for 200 tokens, while 600 others were computed in each", calls)
	}
}

// One who is far behind is waited for: the model computes little that nobody reads,
// and others have his place meanwhile, an evaluation too.
func TestListenerFarBehind(t *testing.T) {
	m := load(t, testmodel.Write(t, testmodel.Default()), Options{Sequences: 1})
	ctx := context.Background()
	rows := 0
	m.st.trace = func(layer int, _ []float32) {
		if layer == 0 {
			rows += m.st.tokens
		}
	}
	stop := errors.New("enough")
	_, err := m.Generate(ctx, Request{Tokens: testmodel.Tokens("0")}, func(e Event) error {
		// Not before the model has stopped, or there would be nothing to see.
		for {
			s := m.sched
			s.mu.Lock()
			behind := len(s.active) == 0 && len(s.waiting) == 1 && s.waiting[0].behind()
			s.mu.Unlock()
			if behind {
				break
			}
			runtime.Gosched()
		}
		if res, err := m.Generate(ctx, Request{Tokens: chat("")}, nil); err != nil || res.Text != testmodel.Answer {
			t.Errorf("meanwhile: %+v, %v", res, err)
		}
		if err := m.Logits(ctx, chat(""), 0, func(int, []float32) error { return nil }); err != nil {
			t.Errorf("evaluation: %v", err)
		}
		return stop
	})
	if !errors.Is(err, stop) {
		t.Errorf("error %v", err)
	}
	settle(t, m)
	if most := 1 + maxLag + 2*len(chat("")) + len(testmodel.Answer) + 3; rows > most {
		t.Errorf("%d rows computed, want at most %d", rows, most)
	}
	m.st.trace = nil
	// And one who catches up hears all.
	text := ""
	res, err := m.Generate(ctx, Request{Tokens: testmodel.Tokens("0")}, func(e Event) error {
		text += e.Delta.Text
		for range len(e.Delta.Text) * 200 {
			runtime.Gosched()
		}
		return nil
	})
	if err != nil || len(res.Text) != 255 || text != res.Text {
		t.Errorf("%q, told %q, %v", res.Text, text, err)
	}
}

// A panic of a listener, or one that ends its goroutine, leaves the model in order.
func TestListenerPanics(t *testing.T) {
	m := load(t, testmodel.Write(t, testmodel.Default()), Options{})
	ctx := context.Background()
	func() {
		defer func() {
			if r := recover(); r != "listener" {
				t.Errorf("recovered %v", r)
			}
		}()
		_, _ = m.Generate(ctx, Request{Tokens: chat("")}, func(Event) error { panic("listener") })
	}()
	settle(t, m) // the pass under way looks at trace
	// So does one of the pass, in whom it was for.
	m.st.trace = func(int, []float32) { panic("pass") }
	func() {
		defer func() {
			if r := recover(); r != "pass" {
				t.Errorf("recovered %v", r)
			}
		}()
		_, _ = m.Generate(ctx, Request{Tokens: chat("")}, nil)
	}()
	settle(t, m)
	m.st.trace = nil
	if res, err := m.Generate(ctx, Request{Tokens: chat("")}, nil); err != nil || res.Text != testmodel.Answer {
		t.Errorf("%+v, %v", res, err)
	}
}

// An evaluation waits for who came before and goes before who comes later.
func TestEvaluationsTakeTurns(t *testing.T) {
	m := load(t, testmodel.Write(t, testmodel.Default()), Options{Sequences: 2})
	ctx := context.Background()
	end, err := m.begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	// While it is lent: a request, an evaluation, another request.
	s := m.sched
	var mu sync.Mutex
	var order []string
	var all sync.WaitGroup
	note := func(what string) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, what)
	}
	queued := func(n int) {
		for {
			s.mu.Lock()
			have := len(s.waiting) + len(s.loans)
			s.mu.Unlock()
			if have == n {
				return
			}
			runtime.Gosched()
		}
	}
	request := func(what string) func() {
		return func() {
			first := true
			_, err := m.Generate(ctx, Request{Tokens: chat(""), MaxTokens: 20}, func(Event) error {
				if first {
					note(what)
				}
				first = false
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		}
	}
	all.Go(request("first"))
	queued(1)
	all.Go(func() {
		end, err := m.begin(ctx)
		if err != nil {
			t.Error(err)
			return
		}
		note("evaluation")
		end(&err)
	})
	queued(2)
	all.Go(request("second"))
	queued(3)
	stopped, stop := context.WithCancel(ctx)
	all.Go(func() {
		if _, _, err := m.Greedy(stopped, chat(""), 1); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled while it waits: %v", err)
		}
	})
	queued(4)
	stop()
	queued(3)
	end(&err)
	all.Wait()
	if at := slices.Index(order, "evaluation"); at < 0 || slices.Index(order, "second") < at {
		t.Errorf("order %v", order)
	}
}
