// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// localChat is a question as a caller in this process makes it.
func localChat(client, text string) *Request {
	r := NewRequest(OpChat)
	r.Client, r.Flush = client, 0
	r.Messages = []Message{{Role: "user", Content: Content{Text: text}}}
	return r
}

func TestAskAnswers(t *testing.T) {
	var seen sync.Map
	f := &fake{generate: func(ctx context.Context, r *Request, emit func(Event) error) (*Result, error) {
		seen.Store(r.Client, r.ID)
		return echo(ctx, r, emit)
	}}
	g := newRig(t, f, nil)
	var rs []*Reply
	err := g.Server.Ask(context.Background(), localChat("http", "größer als 世界 of words"), func(r *Reply) error {
		rs = append(rs, r)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := checkStream(t, rs), "größer als 世界 of words"; got != want {
		t.Errorf("text %q, want %q", got, want)
	}
	if rs[0].Type != TypeAccepted || rs[len(rs)-1].Done == nil || rs[len(rs)-1].Done.Usage.Prompt != 5 {
		t.Errorf("first %+v, last %+v", rs[0], rs[len(rs)-1])
	}
	if id, _ := seen.Load("http"); id != rs[0].ID || !ValidID(rs[0].ID) {
		t.Errorf("the backend saw id %v, the caller %q", id, rs[0].ID)
	}
	d := g.Server.desk
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.entries)+len(d.order)+len(d.anon)+len(d.clients)+d.open != 0 {
		t.Errorf("something is remembered: %d entries, %d in order, %d anonymous, %d open", len(d.entries), len(d.order), len(d.anon), d.open)
	}
	if msgs := g.messages(g.topics.Reply("http", rs[0].ID)); len(msgs) != 0 {
		t.Errorf("%d messages went out over MQTT", len(msgs))
	}
}

// A caller in this process stands in the same queue as those of MQTT: the limits of a
// client and of the queue hold, and refusals have the same codes.
func TestAskSharesQueueAndLimits_P171(t *testing.T) {
	step := make(chan struct{})
	g := newRig(t, &fake{generate: until(step, 1)}, func(c *Config) { c.Limits = Limits{Queue: 3, PerClient: 2} })
	ctx, cancel := context.WithCancel(context.Background())
	results := make(chan error, 2)
	accepted := make(chan int, 2)
	for range 2 {
		go func() {
			results <- g.Server.Ask(ctx, localChat("http", "x"), func(r *Reply) error {
				if r.Type == TypeAccepted {
					accepted <- r.Accepted.Queue
				}
				return nil
			})
		}()
		<-accepted
	}
	var e *Error
	never := func(*Reply) error { t.Error("a refused request has a reply"); return nil }
	if err := g.Server.Ask(ctx, localChat("http", "x"), never); !errors.Is(err, QueueFull) || !errors.As(err, &e) || e.RetryAfter <= 0 {
		t.Errorf("third of one client: %v", err)
	}
	g.ask("me", OpGenerate, `{"id":"m1","prompt":"x"}`)
	g.await("m1 is accepted", func() bool { return len(g.replies("me", "m1")) > 0 })
	if err := g.Server.Ask(ctx, localChat("other", "x"), never); !errors.Is(err, QueueFull) {
		t.Errorf("fourth of all: %v", err)
	}
	if err := g.Server.Ask(ctx, &Request{Op: OpGenerate, Client: "http"}, never); !errors.Is(err, BadRequest) {
		t.Errorf("no prompt: %v", err)
	}
	r := localChat("http", "x")
	r.Model = "none"
	if err := g.Server.Ask(ctx, r, never); !errors.Is(err, UnknownModel) {
		t.Errorf("no such model: %v", err)
	}
	if err := g.Server.Ask(ctx, NewRequest(OpTokenize), never); !errors.Is(err, Unsupported) {
		t.Errorf("tokenize: %v", err)
	}
	for range 3 {
		step <- struct{}{}
	}
	for range 2 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	g.end("me", "m1")
	cancel()
}

// When the caller goes, so does the request: one in work and one that waits.
func TestAskCancels(t *testing.T) {
	step := make(chan struct{})
	ended := make(chan error, 2) // of the second too, where the first leaves its place before the second is told
	answer := until(step, 1<<20)
	g := newRig(t, &fake{generate: func(ctx context.Context, r *Request, emit func(Event) error) (*Result, error) {
		res, err := answer(ctx, r, emit)
		ended <- err
		return res, err
	}}, nil)
	ctx, cancel := context.WithCancelCause(context.Background())
	first, second := make(chan error, 1), make(chan error, 1)
	running, waiting := make(chan struct{}), make(chan struct{})
	var accepted sync.Once
	go func() {
		first <- g.Server.Ask(ctx, localChat("http", "x"), func(r *Reply) error {
			if r.Type == TypeDelta {
				close(running)
			}
			return nil
		})
	}()
	step <- struct{}{}
	<-running
	gone := errors.New("gone")
	go func() {
		second <- g.Server.Ask(ctx, localChat("http", "y"), func(*Reply) error { accepted.Do(func() { close(waiting) }); return nil })
	}()
	<-waiting
	cancel(gone)
	for _, c := range []chan error{first, second} {
		if err := <-c; !errors.Is(err, gone) {
			t.Errorf("got %v, want the cause", err)
		}
	}
	if err := <-ended; err == nil {
		t.Error("the backend was not interrupted")
	}
	if n, m := g.Server.desk.load(); n+m != 0 {
		t.Errorf("%d wait, %d in work", n, m)
	}
	// A reply that fails is a caller that went.
	broken := errors.New("broken pipe")
	go func() { step <- struct{}{} }()
	if err := g.Server.Ask(context.Background(), localChat("http", "z"), func(r *Reply) error {
		if r.Type == TypeDelta {
			return broken
		}
		return nil
	}); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

// A caller that is slow finds the whole answer, although the request ended long ago
// and the desk would have forgotten one of MQTT.
func TestAskSlowCaller(t *testing.T) {
	over := make(chan struct{})
	g := newRig(t, &fake{generate: func(ctx context.Context, r *Request, emit func(Event) error) (*Result, error) {
		if r.Client == "http" {
			defer close(over)
		}
		return echo(ctx, r, emit)
	}}, func(cfg *Config) { cfg.Limits.IDs = 1 })
	words := strings.Repeat("word ", 20000)
	var rs []*Reply
	if err := g.Server.Ask(context.Background(), localChat("http", words), func(r *Reply) error {
		if len(rs) == 0 {
			<-over
			g.await("the request ended", func() bool { n, m := g.Server.desk.load(); return n+m == 0 })
			g.clock.advance(time.Hour)
			g.Server.desk.sweep()
			for i := range 3 {
				id := fmt.Sprintf("m%d", i)
				g.ask("me", OpGenerate, `{"id":"`+id+`","prompt":"x"}`)
				g.end("me", id)
			}
		}
		rs = append(rs, r)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if got := checkStream(t, rs); got != words {
		t.Errorf("%d bytes of %d", len(got), len(words))
	}
}

func TestAskFails(t *testing.T) {
	g := newRig(t, &fake{generate: func(_ context.Context, r *Request, emit func(Event) error) (*Result, error) {
		if r.MaxTokens == 1 {
			panic("boom")
		}
		return nil, Errorf(ContextOverflow, "too long")
	}}, nil)
	var last *Reply
	note := func(r *Reply) error { last = r; return nil }
	if err := g.Server.Ask(context.Background(), localChat("http", "x"), note); !errors.Is(err, ContextOverflow) || last.Type != TypeError {
		t.Errorf("got %v after %+v", err, last)
	}
	r := localChat("http", "x")
	r.MaxTokens = 1
	var e *Error
	if err := g.Server.Ask(context.Background(), r, note); !errors.As(err, &e) || e.Incident == "" {
		t.Errorf("got %v", err)
	}
}
