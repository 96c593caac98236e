// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// fake is a Backend with function fields; a nil field answers in the plainest way.
type fake struct {
	resolve  func(name string) (ModelRef, error)
	generate func(ctx context.Context, r *Request, emit func(Event) error) (*Result, error)
	tokenize func(ctx context.Context, r *Request) ([]int32, error)
	runJob   func(ctx context.Context, j Job, report func(JobProgress)) (any, error)
	models   func() []Model
}

var _ Backend = (*fake)(nil)

func (f *fake) Resolve(name string) (ModelRef, error) {
	if f.resolve != nil {
		return f.resolve(name)
	}
	if name != "" && name != "tiny" {
		return ModelRef{}, Errorf(UnknownModel, "no model %q", name)
	}
	return ModelRef{Name: "tiny", Version: "1", SHA256: "ab"}, nil
}

func (f *fake) Generate(ctx context.Context, r *Request, emit func(Event) error) (*Result, error) {
	if f.generate != nil {
		return f.generate(ctx, r, emit)
	}
	return echo(ctx, r, emit)
}

func (f *fake) Tokenize(ctx context.Context, r *Request) ([]int32, error) {
	if f.tokenize != nil {
		return f.tokenize(ctx, r)
	}
	ids := make([]int32, 0, len(r.Prompt))
	for _, b := range []byte(r.Prompt) {
		ids = append(ids, int32(b))
	}
	return ids, nil
}

func (f *fake) JobTypes() []string { return []string{"convert", "verify"} }

func (f *fake) RunJob(ctx context.Context, j Job, report func(JobProgress)) (any, error) {
	if f.runJob != nil {
		return f.runJob(ctx, j, report)
	}
	return map[string]string{"ran": j.Type}, nil
}

func (f *fake) Info() Info { return Info{Version: "test"} }

func (f *fake) Models() []Model {
	if f.models != nil {
		return f.models()
	}
	return []Model{{Name: "tiny", Version: "1", State: "ready", Default: true}}
}

func (f *fake) Stats() Stats { return Stats{UptimeS: 1} }

// echo answers with the words of the last message, one token each.
func echo(ctx context.Context, r *Request, emit func(Event) error) (*Result, error) {
	words := strings.SplitAfter(question(r), " ")
	if err := emit(Event{Phase: "prefill", Done: len(words), Total: len(words)}); err != nil {
		return nil, err
	}
	for _, w := range words {
		if err := emit(Event{Text: w, Tokens: 1}); err != nil {
			return nil, err
		}
	}
	return &Result{Finish: FinishStop, Usage: Usage{Prompt: len(words), Completion: len(words)}}, ctx.Err()
}

func question(r *Request) string {
	if r.Op == OpChat {
		return r.Messages[len(r.Messages)-1].Content.Text
	}
	return r.Prompt
}

// until answers with "token 0 ", "token 1 ", … and waits for a value of step before
// each, up to n of them.
func until(step <-chan struct{}, n int) func(context.Context, *Request, func(Event) error) (*Result, error) {
	return func(ctx context.Context, r *Request, emit func(Event) error) (*Result, error) {
		for i := range n {
			select {
			case <-step:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			if err := emit(Event{Text: fmt.Sprintf("token %d ", i), Tokens: 1}); err != nil {
				return nil, err
			}
		}
		return &Result{Finish: FinishLength, Usage: Usage{Completion: n}}, nil
	}
}

// clock is a settable time.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func newClock() *clock { return &clock{t: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// rig is a Server whose outboxes are served by the test instead of a broker.
type rig struct {
	*Server
	t     *testing.T
	clock *clock

	mu   sync.Mutex
	sent []*message
	news chan struct{}
	ends []Observation
}

// newRig starts a server; hold leaves the outboxes without a connection.
func newRig(t *testing.T, b Backend, change func(*Config)) *rig {
	t.Helper()
	g := &rig{t: t, clock: newClock(), news: make(chan struct{}, 1)}
	cfg := Config{Device: "edge1", StateDir: t.TempDir(), Now: g.clock.now, State: StateOnline, Observe: func(o Observation) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.ends = append(g.ends, o)
	}}
	if change != nil {
		change(&cfg)
	}
	s, err := New(cfg, b)
	if err != nil {
		t.Fatal(err)
	}
	g.Server = s
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for _, o := range []*outbox{s.control, s.data} {
		wg.Go(func() { g.pump(ctx, o) })
	}
	t.Cleanup(func() {
		over, stop := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer stop()
		if err := s.Shutdown(over); err != nil {
			t.Error(err)
		}
		cancel()
		wg.Wait()
	})
	return g
}

// pump plays a connection that acknowledges everything at once.
func (g *rig) pump(ctx context.Context, o *outbox) {
	gen := o.attach()
	for {
		m, wait := o.take(gen)
		if m == nil {
			if wait == 0 {
				wait = time.Hour
			}
			select {
			case <-o.wake:
			case <-time.After(min(wait, 5*time.Millisecond)): // the clock is not the timer's
			case <-ctx.Done():
				return
			}
			continue
		}
		g.mu.Lock()
		c := *m
		g.sent = append(g.sent, &c)
		g.mu.Unlock()
		select {
		case g.news <- struct{}{}:
		default:
		}
		if m.qos > 0 {
			o.ack(gen, m)
		}
	}
}

// messages returns what was sent on a topic so far.
func (g *rig) messages(topic string) []*message {
	g.mu.Lock()
	defer g.mu.Unlock()
	var ms []*message
	for _, m := range g.sent {
		if m.topic == topic {
			ms = append(ms, m)
		}
	}
	return ms
}

// await waits until cond is true, looking after each message.
func (g *rig) await(what string, cond func() bool) {
	g.t.Helper()
	limit := time.After(10 * time.Second)
	for !cond() {
		select {
		case <-g.news:
		case <-time.After(2 * time.Millisecond):
		case <-limit:
			g.mu.Lock()
			defer g.mu.Unlock()
			for _, m := range g.sent {
				g.t.Logf("sent %s %.200s", m.topic, m.payload)
			}
			g.t.Fatalf("waited 10 s for %s", what)
		}
	}
}

// replies returns the decoded replies of an id.
func (g *rig) replies(client, id string) []*Reply {
	g.t.Helper()
	var rs []*Reply
	for _, m := range g.messages(g.topics.Reply(client, id)) {
		r, err := DecodeReply(m.payload)
		if err != nil {
			g.t.Fatalf("%v in %s", err, m.payload)
		}
		rs = append(rs, r)
	}
	return rs
}

// end waits for the terminal reply of an id.
func (g *rig) end(client, id string) *Reply {
	g.t.Helper()
	var last *Reply
	g.await("the end of "+id, func() bool {
		rs := g.replies(client, id)
		if len(rs) > 0 {
			last = rs[len(rs)-1]
		}
		return last != nil && last.Terminal()
	})
	return last
}

// ask hands a request over as it comes from the broker.
func (g *rig) ask(client, op, payload string) {
	g.request(inbound{topic: g.topics.Request(client, op), payload: []byte(payload), ack: func() {}})
}

// tell hands a command over.
func (g *rig) tell(client, typ, id, payload string) {
	g.command(inbound{topic: g.topics.Command(typ, client, id), payload: []byte(payload), ack: func() {}})
}

func (g *rig) record(client, id string) *JobRecord {
	g.t.Helper()
	ms := g.messages(g.topics.Job(client, id))
	if len(ms) == 0 || len(ms[len(ms)-1].payload) == 0 {
		return nil
	}
	r, err := DecodeJob(ms[len(ms)-1].payload)
	if err != nil {
		g.t.Fatal(err)
	}
	return r
}

func (g *rig) finalRecord(client, id string) *JobRecord {
	g.t.Helper()
	var r *JobRecord
	g.await("the end of job "+id, func() bool {
		r = g.record(client, id)
		return r != nil && r.Final()
	})
	return r
}

// checkStream checks what every stream promises: seq without holes from 0, one
// terminal message at the end, deltas that add up to the text.
func checkStream(t *testing.T, rs []*Reply) string {
	t.Helper()
	var text strings.Builder
	for i, r := range rs {
		if r.Seq != i {
			t.Fatalf("reply %d (%s) has seq %d", i, r.Type, r.Seq)
		}
		if got, want := r.Terminal(), i == len(rs)-1; got != want {
			t.Fatalf("reply %d of %d (%s): terminal %v", i, len(rs), r.Type, got)
		}
		if r.Type == TypeDelta {
			text.WriteString(r.Delta.Text)
		}
	}
	if last := rs[len(rs)-1]; last.Done != nil && last.Done.Text != nil && slices.ContainsFunc(rs, func(r *Reply) bool { return r.Delta != nil }) {
		if *last.Done.Text != text.String() {
			t.Fatalf("deltas give %q, done says %q", text.String(), *last.Done.Text)
		}
	}
	return text.String()
}
