// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestAskOverABroker(t *testing.T) {
	eachBroker(t, func(t *testing.T, b testBroker) {
		ep := quick(b.url())
		newDevice(t, &fake{runJob: func(_ context.Context, _ Job, report func(JobProgress)) (any, error) {
			report(JobProgress{Phase: "reading", Done: 1, Total: 2})
			return map[string]int{"tensors": 3}, nil
		}}, ep, nil)
		c := newCaller(t, ep, "me")

		r := NewRequest(OpGenerate)
		r.Prompt = "the quick brown fox"
		var kinds []string
		a, err := c.Send(t.Context(), r, func(r *Reply) error { kinds = append(kinds, r.Type); return nil })
		if err != nil || a.Text != "the quick brown fox" || a.Done.Finish != FinishStop {
			t.Fatalf("%+v %v", a, err)
		}
		if kinds[0] != TypeAccepted || kinds[len(kinds)-1] != TypeDone || !strings.Contains(strings.Join(kinds, " "), TypeDelta) {
			t.Errorf("replies %v", kinds)
		}
		r = NewRequest(OpTokenize)
		r.Prompt = "ab"
		if a, err := c.Send(t.Context(), r, nil); err != nil || fmt.Sprint(a.Done.IDs) != "[97 98]" {
			t.Errorf("%+v %v", a, err)
		}
		r = NewRequest(OpGenerate)
		r.Prompt, r.Model = "x", "huge"
		if _, err := c.Send(t.Context(), r, nil); !errors.Is(err, UnknownModel) {
			t.Errorf("unknown model: %v", err)
		}
		var states []string
		j, err := c.Command(t.Context(), "convert", "", []byte(`{"source":"x"}`), func(j *JobRecord) { states = append(states, j.Status) })
		if err != nil || string(j.Result) != `{"tensors":3}` || states[len(states)-1] != JobSucceeded {
			t.Errorf("job %+v %v, states %v", j, err, states)
		}
		if j, err := c.Command(t.Context(), "model_install", "", []byte(`{}`), nil); !errors.Is(err, Unsupported) || j.Status != JobRejected {
			t.Errorf("install %+v %v", j, err)
		}
		l := listen(t, ep, "windhover/v1/edge1/info", "windhover/v1/edge1/model/+", "windhover/v1/edge1/status")
		eventually(t, "the retained documents", func() bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			return len(l.in) == 3
		})
		var info Info
		if m := l.on("windhover/v1/edge1/info")[0]; !m.Retained() || json.Unmarshal(m.Payload(), &info) != nil ||
			info.Device != "edge1" || info.Limits.Queue != 8 || info.Limits.RequestBytes != 65536 ||
			strings.Join(info.JobTypes, " ") != "convert verify job_cancel" || len(info.Ops) != len(Ops) {
			t.Errorf("info %s", m.Payload())
		}
		if m := l.on("windhover/v1/edge1/model/tiny"); len(m) != 1 || !m[0].Retained() {
			t.Errorf("model document %v", m)
		}
	})
}

// TestStatusOverItsLife_P38 follows the retained status from the start over a cut
// connection to the end.
func TestStatusOverItsLife_P38(t *testing.T) {
	eachBroker(t, func(t *testing.T, b testBroker) {
		l := listen(t, quick(b.url()), "windhover/v1/edge1/status")
		p := newCable(t, b.url())
		s := newDevice(t, &fake{}, quick(p.url()), nil)
		states := func() string {
			var got []string
			for _, m := range l.on("windhover/v1/edge1/status") {
				var st Status
				if err := json.Unmarshal(m.Payload(), &st); err != nil || st.Session != s.Session() {
					t.Fatalf("%s: %v", m.Payload(), err)
				}
				text := st.State
				if st.State == StateOffline {
					text += "(" + st.Reason + ")"
				}
				if len(got) == 0 || got[len(got)-1] != text {
					got = append(got, text)
				}
			}
			return strings.Join(got, " ")
		}
		eventually(t, "online", func() bool { return strings.HasSuffix(states(), "online") })
		p.cut()
		eventually(t, "the will", func() bool { return strings.Contains(states(), "offline(lost)") })
		eventually(t, "online again", func() bool { return strings.HasSuffix(states(), "online") })
		if err := s.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the end", func() bool { return strings.HasSuffix(states(), "stopping offline(shutdown)") })
		if strings.Count(states(), "lost") != 1 {
			t.Errorf("states %s", states())
		}
	})
}

func TestRetainedRequest_P18(t *testing.T) {
	eachBroker(t, func(t *testing.T, b testBroker) {
		ep := quick(b.url())
		var runs, jobs atomic.Int32
		const req, cmd = "windhover/v1/edge1/req/me/generate", "windhover/v1/edge1/cmd/verify/me/j1"
		l := listen(t, ep, "windhover/v1/edge1/res/me/#")
		l.publish(req, true, `{"id":"old","prompt":"x"}`)
		l.publish(cmd, true, `{}`)
		s := newDevice(t, &fake{
			generate: func(ctx context.Context, r *Request, emit func(Event) error) (*Result, error) {
				runs.Add(1)
				return echo(ctx, r, emit)
			},
			runJob: func(context.Context, Job, func(JobProgress)) (any, error) { jobs.Add(1); return nil, nil },
		}, ep, nil)
		newCaller(t, ep, "you")
		eventually(t, "the replays to be counted", func() bool { return s.Counters().ReplaysIgnored == 2 })
		l.publish(req, true, `{"id":"live","prompt":"x"}`) // a live one runs, whatever its flag was
		eventually(t, "an answer", func() bool { return len(l.on("windhover/v1/edge1/res/me/live")) > 2 })
		if runs.Load() != 1 || jobs.Load() != 0 || len(l.on("windhover/v1/edge1/res/me/old")) != 0 {
			t.Errorf("%d runs, %d jobs", runs.Load(), jobs.Load())
		}
	})
}

func TestDuplicateDelivery(t *testing.T) {
	eachBroker(t, func(t *testing.T, b testBroker) {
		ep := quick(b.url())
		var runs atomic.Int32
		newDevice(t, &fake{generate: func(ctx context.Context, r *Request, emit func(Event) error) (*Result, error) {
			runs.Add(1)
			return echo(ctx, r, emit)
		}}, ep, nil)
		newCaller(t, ep, "you")
		l := listen(t, ep, "windhover/v1/edge1/res/me/#")
		for range 5 {
			l.publish("windhover/v1/edge1/req/me/generate", false, `{"id":"r","prompt":"x"}`)
		}
		l.publish("windhover/v1/edge1/req/me/generate", false, `{"id":"end","prompt":"x"}`)
		eventually(t, "the end", func() bool {
			ms := l.on("windhover/v1/edge1/res/me/end")
			return len(ms) > 0 && strings.Contains(string(ms[len(ms)-1].Payload()), `"t":"done"`)
		})
		if runs.Load() != 2 {
			t.Errorf("%d runs, want 2", runs.Load())
		}
	})
}

func TestBrokerRestartMidStream_P22(t *testing.T) {
	eachBroker(t, func(t *testing.T, b testBroker) {
		ep := quick(b.url())
		const n = 120
		step := make(chan struct{})
		s := newDevice(t, &fake{generate: until(step, n)}, ep, nil)
		c := newCaller(t, ep, "me")
		var wg sync.WaitGroup
		var terminals atomic.Int32
		half := make(chan struct{})
		var a *Answer
		var err error
		wg.Go(func() {
			r := NewRequest(OpGenerate)
			r.Prompt = "x"
			r.Flush = 0
			once, next := false, 0
			a, err = c.Send(t.Context(), r, func(r *Reply) error {
				if r.Seq != next {
					return fmt.Errorf("seq %d, want %d", r.Seq, next)
				}
				next++
				if r.Delta != nil && !once {
					once = true
					close(half)
				}
				if r.Terminal() {
					terminals.Add(1)
				}
				return nil
			})
		})
		give := func(k int) {
			for range k {
				step <- struct{}{}
			}
		}
		give(40)
		select {
		case <-half:
		case <-time.After(20 * time.Second):
			t.Fatal("no deltas before the restart")
		}
		b.stop()
		give(40) // the generation goes on while nobody listens
		eventually(t, "both links to notice", func() bool {
			c := s.Counters()
			return !c.Connected["control"] && !c.Connected["data"]
		})
		b.start()
		give(40)
		wg.Wait()
		var want strings.Builder
		for i := range n {
			fmt.Fprintf(&want, "token %d ", i)
		}
		if err != nil || a.Text != want.String() || terminals.Load() != 1 {
			t.Errorf("%d terminals, %v, answer %+v", terminals.Load(), err, a)
		}
		eventually(t, "both links", func() bool {
			c := s.Counters()
			return c.Reconnects["data"] == 1 && c.Reconnects["control"] == 1
		})
		// Both are subscribed again.
		r := NewRequest(OpGenerate)
		r.Prompt = "again"
		go give(n)
		if a, err := c.Send(t.Context(), r, nil); err != nil || a.Text != want.String() {
			t.Errorf("after the restart: %v", err)
		}
	})
}

func TestBrokerAbsentAtStart(t *testing.T) {
	eachBroker(t, func(t *testing.T, b testBroker) {
		ep := quick(b.url())
		b.stop()
		s := newDevice(t, &fake{}, ep, nil)
		if _, err := DialClient(t.Context(), ClientConfig{Endpoint: ep, Device: "edge1"}); err == nil {
			t.Fatal("a client connects to nothing")
		}
		s.ModelsChanged()
		s.Event(Occurrence{Event: "model_ready", Model: "tiny"})
		b.start()
		c := newCaller(t, ep, "me")
		r := NewRequest(OpChat)
		r.Messages = []Message{{Role: "user", Content: Content{Text: "late"}}}
		if a, err := c.Send(t.Context(), r, nil); err != nil || a.Text != "late" {
			t.Errorf("%+v %v", a, err)
		}
		if time.Since(s.LastMove()) > 20*time.Second {
			t.Error("a loop stands still")
		}
	})
}

func TestClientCancels(t *testing.T) {
	eachBroker(t, func(t *testing.T, b testBroker) {
		ep := quick(b.url())
		ended := make(chan error, 1)
		newDevice(t, &fake{generate: func(ctx context.Context, r *Request, emit func(Event) error) (*Result, error) {
			if err := emit(Event{Text: "a", Tokens: 1}); err != nil {
				return nil, err
			}
			<-ctx.Done()
			ended <- context.Cause(ctx)
			return nil, ctx.Err()
		}}, ep, nil)
		c := newCaller(t, ep, "me")
		ctx, cancel := context.WithCancel(t.Context())
		r := NewRequest(OpGenerate)
		r.Prompt = "x"
		_, err := c.Send(ctx, r, func(r *Reply) error {
			if r.Type == TypeDelta {
				cancel()
			}
			return nil
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		select {
		case cause := <-ended:
			if !errors.Is(cause, errCanceled) {
				t.Errorf("the device ended it with %v", cause)
			}
		case <-time.After(20 * time.Second):
			t.Error("the device goes on")
		}
	})
}

func TestClientWithoutADevice(t *testing.T) {
	b := newEmbedded(t)
	ep := quick(b.url())
	c, err := DialClient(t.Context(), ClientConfig{Endpoint: ep, Device: "nobody", AnswerWithin: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r := NewRequest(OpGenerate)
	r.Prompt = "x"
	if _, err := c.Send(t.Context(), r, nil); !errors.Is(err, ErrNoAnswer) {
		t.Errorf("got %v, want %v", err, ErrNoAnswer)
	}
	l := listen(t, ep)
	l.publish("windhover/v1/nobody/status", true, `{"v":1,"state":"offline","session":3}`)
	eventually(t, "the status", func() bool { return c.Status().Session == 3 })
	c.cfg.AnswerWithin = 10 * time.Second
	if _, err := c.Send(t.Context(), r, nil); !errors.Is(err, ErrOffline) {
		t.Errorf("got %v, want %v", err, ErrOffline)
	}
	c.hear(Status{State: StateOnline, Session: 5})
	c.hear(Status{State: StateOffline, Session: 4}) // a late will
	if c.Status().State != StateOnline {
		t.Error("the will of an earlier start counts")
	}
}

func TestWatch(t *testing.T) {
	b := newEmbedded(t)
	ep := quick(b.url())
	s := newDevice(t, &fake{}, ep, func(c *Config) { c.StatsEvery = 20 * time.Millisecond })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	seen := map[string]bool{}
	err := Watch(ctx, ep, []string{"windhover/v1/edge1/#"}, func(topic string, retained bool, payload []byte) {
		seen[strings.TrimPrefix(topic, "windhover/v1/edge1/")] = true
		if topic == s.topics.Stats() && retained {
			t.Error("stats are retained")
		}
		if len(seen) == 3 { // status, info, model; now what is not retained
			s.Event(Occurrence{Event: "model_ready", Model: "tiny"})
		}
		if seen["stats"] && seen["event"] {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || !seen["status"] || !seen["info"] || !seen["model/tiny"] {
		t.Errorf("%v, seen %v", err, seen)
	}
}

// TestManyReaders_P15 has 64 callers with a connection each and one reader that stopped
// reading: every caller gets its own answer whole, and once.
func TestManyReaders_P15(t *testing.T) {
	eachBroker(t, func(t *testing.T, b testBroker) {
		ep := quick(b.url())
		newDevice(t, &fake{}, ep, func(c *Config) {
			c.Concurrency = 4
			c.Limits = Limits{Queue: 100, PerClient: 2}
		})
		first := newCaller(t, ep, "c0")
		stuck := stuckReader(t, b.url(), "windhover/v1/edge1/res/#")
		defer stuck()
		var wg sync.WaitGroup
		for i := range 64 {
			wg.Go(func() {
				c := first
				if i > 0 {
					var err error
					if c, err = DialClient(t.Context(), ClientConfig{Endpoint: ep, Device: "edge1", Name: fmt.Sprintf("c%d", i)}); err != nil {
						t.Error(err)
						return
					}
					defer c.Close()
				}
				words := strings.Repeat(fmt.Sprintf("word%d ", i), 100)
				r := NewRequest(OpGenerate)
				r.Prompt = words
				terminals := 0
				var deltas strings.Builder
				a, err := c.Send(t.Context(), r, func(r *Reply) error {
					if r.Terminal() {
						terminals++
					}
					if r.Delta != nil {
						deltas.WriteString(r.Delta.Text)
					}
					return nil
				})
				if err != nil || a.Text != words || terminals != 1 || deltas.String() != words {
					t.Errorf("caller %d: %v, %d terminals, %d of %d bytes in deltas", i, err, terminals, deltas.Len(), len(words))
				}
			})
		}
		wg.Wait()
	})
}

// TestShutdownUnacknowledged_P40 sees that a broker that may not know of the end is left
// without a goodbye, which would keep it from publishing the will.
func TestShutdownUnacknowledged_P40(t *testing.T) {
	d := deafBroker(t)
	s := newDevice(t, &fake{}, quick(d.url), nil)
	eventually(t, "both links", func() bool {
		c := s.Counters()
		return c.Connected["control"] && c.Connected["data"]
	})
	if err := s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "both connections to end", func() bool { return d.gone.Load() == 2 })
	if n := d.goodbyes.Load(); n != 1 {
		t.Errorf("%d goodbyes, want that of the data link alone", n)
	}
}

// TestStuckBroker sees that a broker that answers pings and nothing else is left.
func TestStuckBroker(t *testing.T) {
	var lost atomic.Int32
	l := &link{name: "data", endpoint: quick(deafBroker(t).url), clientID: "x", clean: true, box: newOutbox(time.Now), ackWithin: 50 * time.Millisecond,
		onUp: func() {}, onTry: func(error) {}, onDown: func(err error) {
			if errors.Is(err, errStuck) {
				lost.Add(1)
			}
		}}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { l.run(ctx); close(done) }()
	l.box.put(&message{topic: "t", payload: []byte("x"), qos: 1})
	eventually(t, "the connection to be given up", func() bool { return lost.Load() > 1 })
	cancel()
	<-done
}
