// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestShutdownEndsEverything_P13(t *testing.T) {
	step := make(chan struct{}, 1)
	g := newRig(t, &fake{generate: until(step, 5)}, nil)
	g.ask("me", OpGenerate, `{"id":"run","prompt":"x","flush_ms":0}`)
	step <- struct{}{}
	g.await("a delta", func() bool { return len(g.replies("me", "run")) == 2 })
	g.ask("me", OpGenerate, `{"id":"wait","prompt":"x"}`)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := g.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"run", "wait"} {
		rs := g.replies("me", id)
		if r := rs[len(rs)-1]; !errors.Is(r.Err, ShuttingDown) {
			t.Errorf("%s ends as %+v", id, r)
		}
		checkStream(t, rs)
	}
	var states []string
	for _, m := range g.messages(g.topics.Status()) {
		var st Status
		decodeJSON(m.payload, &st)
		states = append(states, st.State)
	}
	if got, want := strings.Join(states, " "), "stopping offline"; got != want {
		t.Errorf("states %q, want %q", got, want)
	}
}

// TestSlowLinkSaysStopping_P39 has a link that takes nothing before the device is through:
// what it passed on its way is said all the same, and the last state last.
func TestSlowLinkSaysStopping_P39(t *testing.T) {
	s, err := New(Config{Device: "edge1", StateDir: t.TempDir(), State: StateOnline}, &fake{})
	if err != nil {
		t.Fatal(err)
	}
	gen := s.control.attach()
	s.publishStatus(false)
	done := make(chan error, 1)
	go func() { done <- s.Shutdown(context.Background()) }()
	eventually(t, "the last flush", func() bool {
		s.control.mu.Lock()
		defer s.control.mu.Unlock()
		return len(s.control.idle) > 0
	})
	var states []string
	for m, _ := s.control.take(gen); m != nil; m, _ = s.control.take(gen) {
		if m.topic == s.topics.Status() {
			var st Status
			decodeJSON(m.payload, &st)
			states = append(states, st.State)
		}
		s.control.ack(gen, m)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(states, " "), "stopping offline"; got != want {
		t.Errorf("states %q, want %q", got, want)
	}
}

func TestDrainLetsWorkEnd(t *testing.T) {
	step := make(chan struct{}, 5)
	g := newRig(t, &fake{generate: until(step, 3)}, nil)
	g.ask("me", OpGenerate, `{"id":"run","prompt":"x"}`)
	g.await("a run", func() bool { _, a := g.desk.load(); return a == 1 })
	done := make(chan error)
	go func() { done <- g.Shutdown(context.Background()) }()
	g.await("stopping", func() bool { return len(g.messages(g.topics.Status())) > 0 })
	g.await("the drain", func() bool {
		g.desk.mu.Lock()
		defer g.desk.mu.Unlock()
		return g.desk.draining
	})
	g.ask("you", OpGenerate, `{"id":"new","prompt":"x"}`)
	if r := g.end("you", "new"); !errors.Is(r.Err, ShuttingDown) {
		t.Errorf("a new request ends as %+v", r)
	}
	for range 3 {
		step <- struct{}{}
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if r := g.end("me", "run"); r.Done == nil || r.Done.Finish != FinishLength {
		t.Errorf("ends as %+v", r)
	}
}
