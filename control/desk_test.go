// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestPlainRequest(t *testing.T) {
	g := newRig(t, &fake{}, nil)
	g.ask("me", OpGenerate, `{"id":"r1","prompt":"to be or not to be"}`)
	g.end("me", "r1")
	rs := g.replies("me", "r1")
	if got, want := checkStream(t, rs), "to be or not to be"; got != want {
		t.Errorf("text %q, want %q", got, want)
	}
	if a := rs[0]; a.Type != TypeAccepted || a.Accepted.Model != "tiny@1" || a.Accepted.Queue != 0 {
		t.Errorf("first reply %+v", a)
	}
	d := rs[len(rs)-1].Done
	if d == nil || d.Finish != FinishStop || d.Usage.Completion != 6 || d.Model.Name != "tiny" || d.Timing == nil {
		t.Errorf("done %+v", d)
	}
	for _, m := range g.messages(g.topics.Reply("me", "r1")) {
		if m.qos != 1 || m.retain {
			t.Errorf("%s: qos %d retain %v", m.payload, m.qos, m.retain)
		}
	}
}

func TestPromptAndMissingID_P3(t *testing.T) {
	g := newRig(t, &fake{}, nil)
	g.ask("me", OpPrompt, "hello {there")
	g.ask("me", OpChat, `{"messages":[{"role":"user","content":"hi"}]}`)
	ids := map[string]bool{}
	g.await("two answers", func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		n := 0
		for _, m := range g.sent {
			r, err := DecodeReply(m.payload)
			if err == nil && strings.HasPrefix(m.topic, "windhover/v1/edge1/res/me/") {
				ids[r.ID] = true
				if m.topic != g.topics.Reply("me", r.ID) || !ValidID(r.ID) {
					t.Errorf("id %q on %s", r.ID, m.topic)
				}
				if r.Terminal() {
					n++
					if r.Done == nil || r.Done.Text == nil || *r.Done.Text != "hello {there" && *r.Done.Text != "hi" {
						t.Errorf("the echo is %s", m.payload)
					}
				}
			}
		}
		return n == 2
	})
	if len(ids) != 2 {
		t.Errorf("%d ids for 2 requests", len(ids))
	}
}

// TestRefused_P4 is the table of requests that are refused before they are accepted.
func TestRefused_P4(t *testing.T) {
	big := `{"id":"big","prompt":"` + strings.Repeat("x", 70<<10) + `"}`
	cases := []struct {
		name, op, payload string
		id                string // where the answer goes
		want              Code
	}{
		{"not json", OpGenerate, `{"id":"a","prompt"`, "a", BadRequest},
		{"garbage", OpGenerate, "\x00\x01", noID, BadRequest},
		{"array", OpChat, `[1]`, noID, BadRequest},
		{"null", OpChat, `null`, noID, BadRequest},
		{"bad utf-8", OpGenerate, "{\"id\":\"u\",\"prompt\":\"\xff\"}", "u", BadRequest},
		{"bad utf-8 prompt", OpPrompt, "\xff", noID, BadRequest},
		{"bad id", OpGenerate, `{"id":"a b","prompt":"x"}`, noID, BadRequest},
		{"id is a number", OpGenerate, `{"id":5,"prompt":"x"}`, noID, BadRequest},
		{"wrong type", OpGenerate, `{"id":"b","prompt":"x","max_tokens":"many"}`, "b", BadRequest},
		{"no prompt", OpGenerate, `{"id":"c"}`, "c", BadRequest},
		{"unknown op", "sing", `{"id":"d"}`, "d", Unsupported},
		{"nothing to embed", OpEmbed, `{"id":"e"}`, "e", BadRequest},
		{"unknown model", OpGenerate, `{"id":"f","prompt":"x","model":"huge"}`, "f", UnknownModel},
		{"too large", OpGenerate, big, "big", PayloadTooLarge},
		{"too large and cut", OpGenerate, big[:len(big)-9], "big", PayloadTooLarge},
		{"too large prompt", OpPrompt, big, noID, PayloadTooLarge},
		{"expired", OpGenerate, `{"id":"g","prompt":"x","sent_at":"2026-11-29T11:59:00Z","ttl_ms":30000}`, "g", Expired},
		{"no target", OpCancel, `{"id":"h"}`, "h", BadRequest},
	}
	g := newRig(t, &fake{}, nil)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			before := len(g.replies("me", c.id))
			g.ask("me", c.op, c.payload)
			g.await("an answer", func() bool { return len(g.replies("me", c.id)) > before })
			rs := g.replies("me", c.id)
			r := rs[len(rs)-1]
			if r.Type != TypeError || r.Seq != 0 || !errors.Is(r.Err, c.want) {
				t.Errorf("got %s seq %d %v, want %v", r.Type, r.Seq, r.Err, c.want)
			}
			if r.Err != nil && r.Err.Message == "" {
				t.Error("no message")
			}
		})
	}
}

func TestIgnored_P8_P19(t *testing.T) {
	ran := 0
	g := newRig(t, &fake{generate: func(ctx context.Context, r *Request, emit func(Event) error) (*Result, error) {
		ran++
		return echo(ctx, r, emit)
	}}, nil)
	g.ask("me", OpGenerate, "")
	g.request(inbound{topic: g.topics.Request("me", OpPrompt), retained: true})
	g.request(inbound{topic: "windhover/v1/other/req/me/prompt", payload: []byte("x")})
	g.request(inbound{topic: "windhover/v1/edge1/req/m e/prompt", payload: []byte("x")})
	g.request(inbound{topic: g.topics.Command("verify", "me", "j"), payload: []byte("{}")})
	g.ask("me", OpGenerate, `{"id":"r1","prompt":"x","unknown":{"deep":[1]}}`)
	g.end("me", "r1")
	if c := g.Counters(); ran != 1 || c.ReplaysIgnored != 1 || c.MessagesIgnored != 4 {
		t.Errorf("ran %d, replays %d, ignored %d", ran, c.ReplaysIgnored, c.MessagesIgnored)
	}
}

func TestDuplicates_P16(t *testing.T) {
	step := make(chan struct{})
	runs := 0
	gen := until(step, 2)
	g := newRig(t, &fake{generate: func(ctx context.Context, r *Request, emit func(Event) error) (*Result, error) {
		runs++
		return gen(ctx, r, emit)
	}}, nil)
	const req = `{"id":"r1","prompt":"x"}`
	g.ask("me", OpGenerate, req)
	g.await("accepted", func() bool { return len(g.replies("me", "r1")) == 1 })
	g.ask("me", OpGenerate, req)
	g.await("accepted again", func() bool { return len(g.replies("me", "r1")) == 2 })
	g.ask("me", OpGenerate, `{"id":"r1","prompt":"y"}`)
	g.await("a clash", func() bool { return len(g.replies("me", "r1")) == 3 })
	rs := g.replies("me", "r1")
	if rs[1].Type != TypeAccepted || rs[1].Seq != 0 || !errors.Is(rs[2].Err, DuplicateID) {
		t.Errorf("while running: %+v %+v", rs[1], rs[2])
	}
	g.ask("you", OpGenerate, `{"id":"r1","prompt":"y"}`) // another client's id is another id
	close(step)
	g.await("done", func() bool {
		rs := g.replies("me", "r1")
		return rs[len(rs)-1].Type == TypeDone
	})
	n := len(g.replies("me", "r1"))
	g.ask("me", OpGenerate, req)
	g.await("the terminal again", func() bool { return len(g.replies("me", "r1")) == n+1 })
	ms := g.messages(g.topics.Reply("me", "r1"))
	if string(ms[n].payload) != string(ms[n-1].payload) {
		t.Errorf("%s\nis not\n%s", ms[n].payload, ms[n-1].payload)
	}
	g.end("you", "r1")
	if runs != 2 {
		t.Errorf("%d runs, want 2", runs)
	}

	// After ten minutes the id is free.
	g.clock.advance(11 * time.Minute)
	g.desk.sweep()
	g.ask("me", OpGenerate, `{"id":"r1","prompt":"z"}`)
	g.await("a new run", func() bool { return len(g.messages(g.topics.Reply("me", "r1"))) > n+2 })
	g.await("its end", func() bool {
		rs := g.replies("me", "r1")
		return len(rs) > n+2 && rs[len(rs)-1].Type == TypeDone
	})
	if runs != 3 {
		t.Errorf("%d runs, want 3", runs)
	}
}

func TestRedeliveryWithoutID_P17(t *testing.T) {
	g := newRig(t, &fake{}, nil)
	in := inbound{topic: g.topics.Request("me", OpPrompt), payload: []byte("hi"), ack: func() {}}
	g.request(in)
	in.dup = true
	g.request(in)
	g.ask("me", OpGenerate, `{"id":"last","prompt":"x"}`)
	g.end("me", "last")
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.ends) != 2 {
		t.Errorf("%d requests ran, want 2", len(g.ends))
	}
}

func TestQueueBounds_P27(t *testing.T) {
	step := make(chan struct{})
	g := newRig(t, &fake{generate: until(step, 1)}, nil)
	for i := range 3 {
		g.ask("me", OpGenerate, fmt.Sprintf(`{"id":"m%d","prompt":"x"}`, i))
	}
	e := g.end("me", "m2")
	if !errors.Is(e.Err, QueueFull) || e.Err.RetryAfter <= 0 || !e.Err.Code.Retry {
		t.Errorf("third of one client: %v, retry after %v", e.Err, e.Err.RetryAfter)
	}
	for i := range 7 {
		g.ask(fmt.Sprintf("c%d", i), OpGenerate, `{"id":"r","prompt":"x"}`)
	}
	if e := g.end("c6", "r"); !errors.Is(e.Err, QueueFull) {
		t.Errorf("ninth: %v", e.Err)
	}
	if w, a := g.desk.load(); w+a != 8 {
		t.Errorf("%d waiting and %d active, want 8 together", w, a)
	}
	close(step)
	g.end("c5", "r")
	g.end("me", "m1")
	// A refused id may be tried again.
	g.ask("me", OpGenerate, `{"id":"m2","prompt":"x"}`)
	g.await("m2 to run", func() bool {
		rs := g.replies("me", "m2")
		return rs[len(rs)-1].Type == TypeDone
	})
}

func TestCancelAndDeadline_P12(t *testing.T) {
	step := make(chan struct{}, 1)
	g := newRig(t, &fake{generate: until(step, 1000)}, nil)
	g.ask("me", OpGenerate, `{"id":"run","prompt":"x","flush_ms":0}`)
	g.ask("me", OpGenerate, `{"id":"wait","prompt":"x"}`)
	step <- struct{}{}
	g.await("a delta", func() bool { return len(g.replies("me", "run")) == 2 })

	g.ask("you", OpCancel, `{"id":"c0","target":"run"}`) // not his
	if r := g.end("you", "c0"); *r.Done.Found {
		t.Error("a client can cancel another's request")
	}
	g.ask("me", OpCancel, `{"id":"c1","target":"wait"}`)
	if r := g.end("me", "c1"); !*r.Done.Found {
		t.Error("cancel of a waiting request: not found")
	}
	if r := g.end("me", "wait"); !errors.Is(r.Err, Canceled) {
		t.Errorf("waiting request ends as %+v", r)
	}
	g.ask("me", OpCancel, `{"target":"run"}`)
	if r := g.end("me", "run"); r.Done == nil || r.Done.Finish != FinishCancel || *r.Done.Text != "token 0 " {
		t.Errorf("running request ends as %+v", r)
	}
	g.ask("me", OpCancel, `{"id":"c2","target":"run"}`)
	if r := g.end("me", "c2"); *r.Done.Found {
		t.Error("an ended request was canceled")
	}

	g.ask("me", OpGenerate, `{"id":"late","prompt":"x","deadline_ms":20}`)
	g.ask("me", OpGenerate, `{"id":"later","prompt":"x","deadline_ms":20}`)
	for _, id := range []string{"late", "later"} {
		if r := g.end("me", id); !errors.Is(r.Err, DeadlineExceeded) {
			t.Errorf("%s ends as %+v", id, r)
		}
	}
	g.ask("me", OpGenerate, `{"id":"part","prompt":"x","deadline_ms":50}`)
	step <- struct{}{}
	if r := g.end("me", "part"); r.Done == nil || r.Done.Finish != FinishDeadline || *r.Done.Text != "token 0 " {
		t.Errorf("part ends as %+v", r)
	}
	for _, id := range []string{"run", "wait", "late", "later", "part"} {
		checkStream(t, g.replies("me", id))
	}
}

func TestExpiresWhileWaiting_P119(t *testing.T) {
	step := make(chan struct{})
	g := newRig(t, &fake{generate: until(step, 1)}, nil)
	g.ask("me", OpGenerate, `{"id":"a","prompt":"x"}`)
	g.ask("me", OpGenerate, `{"id":"b","prompt":"x","ttl_ms":1000}`)
	g.clock.advance(2 * time.Second)
	close(step)
	if r := g.end("me", "b"); !errors.Is(r.Err, Expired) || r.Seq != 1 {
		t.Errorf("b ends as %+v", r)
	}
}

func TestClockNeverSet_P119(t *testing.T) {
	g := newRig(t, &fake{}, nil)
	g.clock.advance(time.Unix(100, 0).Sub(g.clock.now()))
	g.ask("me", OpGenerate, `{"id":"a","prompt":"x","sent_at":"1969-01-01T00:00:00Z","ttl_ms":1}`)
	if r := g.end("me", "a"); r.Done == nil {
		t.Errorf("ends as %v", r.Err)
	}
}

func TestFetch_P14(t *testing.T) {
	g := newRig(t, &fake{}, nil)
	g.ask("me", OpGenerate, `{"id":"r1","prompt":"a b c d e f","flush_ms":0}`)
	g.end("me", "r1")
	first := g.messages(g.topics.Reply("me", "r1"))
	g.ask("me", OpFetch, `{"id":"f1","target":"r1","from_seq":1}`)
	if r := g.end("me", "f1"); !*r.Done.Found || r.Seq != 0 {
		t.Errorf("fetch: %+v", r)
	}
	again := g.messages(g.topics.Reply("me", "r1"))[len(first):]
	if len(again) != len(first)-1 {
		t.Fatalf("fetch gave %d messages, want %d", len(again), len(first)-1)
	}
	for i, m := range again {
		if got, want := string(m.payload), string(first[i+1].payload); got != want {
			t.Errorf("fetched %s, was %s", got, want)
		}
	}
	g.ask("you", OpFetch, `{"id":"f1","target":"r1"}`)
	if r := g.end("you", "f1"); *r.Done.Found {
		t.Error("a client can fetch another's replies")
	}
	g.clock.advance(6 * time.Minute)
	g.desk.sweep()
	g.ask("me", OpFetch, `{"id":"f2","target":"r1"}`)
	if r := g.end("me", "f2"); *r.Done.Found {
		t.Error("found after 6 minutes")
	}
}

func TestBackendFailures_P123(t *testing.T) {
	cases := []struct {
		name string
		gen  func(emit func(Event) error) (*Result, error)
		want Code
	}{
		{"code", func(func(Event) error) (*Result, error) {
			return nil, fmt.Errorf("engine: %w", ContextOverflow)
		}, ContextOverflow},
		{"error", func(func(Event) error) (*Result, error) {
			return nil, &Error{Code: InsufficientMem, Needed: 7, Available: 0}
		}, InsufficientMem},
		{"plain", func(func(Event) error) (*Result, error) { return nil, errors.New("boom") }, Internal},
		{"panic", func(emit func(Event) error) (*Result, error) {
			_ = emit(Event{Text: "a", Tokens: 1})
			panic("boom")
		}, Internal},
		{"nothing", func(func(Event) error) (*Result, error) { return nil, nil }, Internal},
		{"nan", func(func(Event) error) (*Result, error) {
			zero := 0.0
			return &Result{DecodeTPS: zero / zero}, nil
		}, Internal},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			g := newRig(t, &fake{generate: func(_ context.Context, _ *Request, emit func(Event) error) (*Result, error) {
				return c.gen(emit)
			}}, nil)
			g.ask("me", OpGenerate, `{"id":"r","prompt":"x"}`)
			r := g.end("me", "r")
			if !errors.Is(r.Err, c.want) {
				t.Errorf("got %v, want %v", r.Err, c.want)
			}
			if c.name == "panic" && r.Err.Incident == "" {
				t.Error("no incident")
			}
			checkStream(t, g.replies("me", "r"))
		})
	}
}

func TestPanicInResolve(t *testing.T) {
	g := newRig(t, &fake{resolve: func(string) (ModelRef, error) { panic("boom") }}, nil)
	g.ask("me", OpGenerate, `{"id":"r","prompt":"x"}`)
	if r := g.end("me", "r"); !errors.Is(r.Err, Internal) || r.Seq != 0 {
		t.Errorf("got %+v", r)
	}
}

func TestTokenize_P122(t *testing.T) {
	g := newRig(t, &fake{}, nil)
	g.ask("me", OpTokenize, `{"id":"t","text":"ab"}`)
	if r := g.end("me", "t"); r.Seq != 0 || fmt.Sprint(r.Done.IDs) != "[97 98]" {
		t.Errorf("got %+v", r)
	}
	g.ask("me", OpTokenize, `{"id":"t2","text":"`+strings.Repeat("x", 60000)+`"}`)
	if r := g.end("me", "t2"); !errors.Is(r.Err, PayloadTooLarge) {
		t.Errorf("got %+v", r)
	}
}

func TestIDsAreBounded_P29(t *testing.T) {
	g := newRig(t, &fake{}, func(c *Config) { c.Limits.IDs = 10 })
	for i := range 50 {
		g.ask("me", OpGenerate, fmt.Sprintf(`{"id":"r%d","prompt":"x"}`, i))
		g.end("me", fmt.Sprintf("r%d", i))
	}
	g.desk.mu.Lock()
	defer g.desk.mu.Unlock()
	if n := len(g.desk.entries); n > 10 || n != len(g.desk.order) {
		t.Errorf("%d ids remembered, %d in order", n, len(g.desk.order))
	}
}

func TestMemoryIsBounded(t *testing.T) {
	long := strings.Repeat("word ", 2000)
	g := newRig(t, &fake{generate: func(ctx context.Context, r *Request, emit func(Event) error) (*Result, error) {
		return &Result{}, emit(Event{Text: long, Tokens: 2000})
	}}, func(c *Config) { c.Limits.RememberBytes = 50 << 10 })
	for i := range 20 {
		g.ask("me", OpGenerate, fmt.Sprintf(`{"id":"r%d","prompt":"x"}`, i))
		g.end("me", fmt.Sprintf("r%d", i))
	}
	g.desk.sweep()
	g.desk.sweep()
	g.desk.mu.Lock()
	defer g.desk.mu.Unlock()
	held := 0
	for _, e := range g.desk.order {
		held += e.stream.heldBytes() + len(e.stream.final)
	}
	if held > 150<<10 {
		t.Errorf("%d bytes held", held)
	}
}
