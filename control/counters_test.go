// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// Each end of a request is observed under the operation that its topic names, and what
// is no operation under one name for all of them.
func TestObservedOperations(t *testing.T) {
	g := newRig(t, &fake{}, nil)
	g.ask("me", OpPrompt, "hello you")
	g.ask("me", OpChat, `{"id":"c","prompt":"hello"}`)
	g.ask("me", OpGenerate, `{"id":"g","prompt":"hello","model":"none"}`)
	g.ask("me", OpTokenize, `{"id":"t","text":"hello"}`)
	g.ask("me", OpCancel, `{"id":"x","target":"none"}`)
	g.ask("me", OpFetch, `{"id":"f","target":"none"}`)
	g.ask("me", OpChat, `{"id":"bad"`)
	for i := range 100 {
		g.ask("me", fmt.Sprintf("op%d", i), `{}`)
	}
	got := map[string]int{}
	g.await("all to end", func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		clear(got)
		for _, o := range g.ends {
			got[o.Op+" "+o.Code]++
		}
		return len(g.ends) == 107
	})
	want := map[string]int{"prompt ok": 1, "chat ok": 1, "generate unknown_model": 1, "tokenize ok": 1, "cancel ok": 1, "fetch ok": 1,
		"chat bad_request": 1, "other unsupported": 100}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Ends of jobs are counted by type and status, also when their records are gone, those
// of types that there are not under one name.
func TestJobsCounted(t *testing.T) {
	g := newRig(t, &fake{runJob: failsVerify}, func(c *Config) { c.Limits.KeptJobs = 2 })
	zero := map[JobEnd]uint64{{"convert", JobSucceeded}: 0, {"convert", JobFailed}: 0, {"verify", JobSucceeded}: 0, {"verify", JobFailed}: 0}
	if got := g.Counters().JobsEnded; !maps.Equal(got, zero) {
		t.Errorf("before any job: %v, want %v", got, zero)
	}
	for i := range 5 {
		if r, err := g.SubmitJob("me", "convert", fmt.Sprintf("c%d", i), []byte("{}")); err != nil {
			t.Fatal(r, err)
		}
	}
	if _, err := g.SubmitJob("me", "verify", "v", []byte("{}")); err != nil {
		t.Fatal(err)
	}
	g.await("the last to end", func() bool { return g.Counters().JobsEnded[JobEnd{"verify", JobFailed}] == 1 })
	for i := range 50 {
		g.tell("evil", fmt.Sprintf("type%d", i), fmt.Sprintf("j%d", i), "{}")
	}
	g.tell("evil", "convert", "x", "{}") // not allowed
	want := maps.Clone(zero)
	want[JobEnd{"convert", JobSucceeded}], want[JobEnd{"verify", JobFailed}] = 5, 1
	want[JobEnd{"other", JobRejected}], want[JobEnd{"convert", JobRejected}] = 50, 1
	if got := g.Counters().JobsEnded; !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if n := len(g.Jobs()); n > 20 {
		t.Errorf("%d records are kept", n)
	}
}

// What a link gives up is counted by the reason.
func TestDropsCounted(t *testing.T) {
	g := newRig(t, &fake{}, nil)
	topic := g.topics.Request("me", OpChat)
	g.request(inbound{topic: topic, payload: []byte(`{"prompt":"x"}`), retained: true, ack: func() {}})
	g.request(inbound{topic: topic, ack: func() {}})
	g.command(inbound{topic: "windhover/v1/edge1/other", payload: []byte("x"), ack: func() {}})
	g.command(inbound{topic: g.topics.Command("convert", "me", "j"), payload: []byte("{}"), retained: true, ack: func() {}})
	g.mu.Lock() // nothing goes out: the pump waits for it
	for range maxControl + 2*flightWindow {
		g.data.put(&message{topic: "t", payload: []byte("x")})
	}
	g.mu.Unlock()
	c := g.Counters()
	var got []string
	for d, n := range c.Drops {
		if n > 0 && d.Reason != DropFull {
			got = append(got, fmt.Sprintf("%s %s %d", d.Link, d.Reason, n))
		}
	}
	slices.Sort(got)
	if want := "control ignored 1, control replay 1, data ignored 1, data replay 1"; strings.Join(got, ", ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
	if full := c.Drops[Drop{linkData, DropFull}]; full < flightWindow || c.Dropped != full || c.ReplaysIgnored != 2 || c.MessagesIgnored != 2 {
		t.Errorf("%d messages found no room; in sum %+v", full, c)
	}
	if len(c.Drops) != 10 {
		t.Errorf("%d links and reasons: %v", len(c.Drops), c.Drops)
	}
}

func failsVerify(_ context.Context, j Job, _ func(JobProgress)) (any, error) {
	if j.Type == "verify" {
		return nil, Errorf(FormatInvalid, "no model")
	}
	return nil, nil
}
