// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"windhover/internal/testclock"
)

const (
	day  = 24 * time.Hour
	year = 365 * day
)

// leaps are what happens to the clock of a board: it is set for the first time, its
// battery gives out, somebody puts it forward and back.
var leaps = map[string][]time.Duration{
	"forward 20 years":     {20 * year},
	"back to 1970":         {-56 * year},
	"back some days":       {-5 * day},
	"an hour to and fro":   {time.Hour, -time.Hour, time.Hour, -time.Hour},
	"forward and far back": {20 * year, -40 * year},
}

// stepped is a rig whose time of day a test puts forward and back, while time passes.
func stepped(t *testing.T, b Backend, dir string) (*rig, *testclock.Clock) {
	t.Helper()
	c := new(testclock.Clock)
	return newRig(t, b, func(cfg *Config) {
		anyone(cfg)
		cfg.Now = c.Now
		if dir != "" {
			cfg.StateDir = dir
		}
	}), c
}

// A request that waits while the clock is set does not expire by that, and one that
// came in time runs; how long each took is what it took.
func TestClockLeapsWhileRequestsWait_P119(t *testing.T) {
	for name, steps := range leaps {
		t.Run(name, func(t *testing.T) {
			for _, by := range steps {
				step := make(chan struct{})
				g, c := stepped(t, &fake{generate: until(step, 1)}, "")
				g.ask("me", OpGenerate, `{"id":"run","prompt":"x"}`)
				g.ask("you", OpGenerate, fmt.Sprintf(`{"id":"sent","prompt":"x","ttl_ms":600000,"sent_at":%q}`, c.Now().Format(time.RFC3339Nano)))
				g.ask("them", OpGenerate, `{"id":"plain","prompt":"x","ttl_ms":600000}`)
				c.Step(by)
				close(step)
				for client, id := range map[string]string{"me": "run", "you": "sent", "them": "plain"} {
					if r := g.end(client, id); r.Done == nil || r.Done.Timing.TotalMS < 0 || r.Done.Timing.TotalMS > 600000 {
						t.Errorf("%s ends as %+v", id, r)
					}
				}
			}
		})
	}
}

// Where no clock was set the time of a request counts from its arrival.
func TestClockNeverSetCountsFromArrival_P119(t *testing.T) {
	step := make(chan struct{})
	g := newRig(t, &fake{generate: until(step, 1)}, nil)
	g.clock.advance(time.Unix(100, 0).Sub(g.clock.now()))
	g.ask("me", OpGenerate, `{"id":"a","prompt":"x"}`)
	g.ask("me", OpGenerate, `{"id":"b","prompt":"x","ttl_ms":1000,"sent_at":"2026-11-29T11:00:00Z"}`)
	g.clock.advance(2 * time.Second)
	close(step)
	if r := g.end("me", "b"); !errors.Is(r.Err, Expired) {
		t.Errorf("b ends as %+v", r)
	}
}

// Records, ids and what fetch finds stay while the clock is set, and a job goes on to say
// how far it is.
func TestClockLeapsBesideRecords(t *testing.T) {
	for name, steps := range leaps {
		t.Run(name, func(t *testing.T) {
			said := make(chan JobProgress)
			g, c := stepped(t, &fake{runJob: func(_ context.Context, j Job, report func(JobProgress)) (any, error) {
				for p := range said {
					report(p)
				}
				return nil, nil
			}}, "")
			g.ask("me", OpGenerate, `{"id":"r","prompt":"a b"}`)
			g.end("me", "r")
			g.tell("me", "verify", "bad", `[]`)
			g.finalRecord("me", "bad")
			g.tell("me", "verify", "j", `{}`)
			said <- JobProgress{Phase: "reading", Total: 100}
			g.await("the phase", func() bool { return g.record("me", "j").Phase == "reading" })
			done := int64(0)
			for _, by := range steps {
				c.Step(by)
				g.desk.sweep()
				g.jobs.sweep()
				if g.record("me", "bad") == nil {
					t.Fatalf("after a step of %v a record is gone", by)
				}
				g.ask("me", OpFetch, fmt.Sprintf(`{"id":"f%d","target":"r","from_seq":0}`, done))
				if r := g.end("me", fmt.Sprintf("f%d", done)); r.Done == nil || !*r.Done.Found {
					t.Errorf("after a step of %v fetch finds %+v", by, r)
				}
				g.await("progress", func() bool { // none that is shown comes sooner than progressMin after another
					done = min(done+1, 99)
					said <- JobProgress{Phase: "reading", Done: done, Total: 100}
					p := g.record("me", "j").Progress
					return p.Done == done
				})
			}
			close(said)
			if r := g.finalRecord("me", "j"); r.Status != JobSucceeded {
				t.Errorf("the job ends as %+v", r)
			}
			g.jobs.sweep()
			if g.record("me", "j") == nil {
				t.Error("its record is gone at once")
			}
		})
	}
}

// A record that was made by one time of day and is found by another stays: by neither
// can be said how old it is, if one of them was not set or is behind the other.
func TestClockLeapsOverRestart(t *testing.T) {
	set := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name       string
		ended, now time.Time
		stays      bool
	}{
		{"a minute", set, set.Add(time.Minute), true},
		{"two days", set, set.Add(2 * day), false},
		{"ended before the clock was set", time.Unix(100, 0), set, true},
		{"the clock is not set any more", set, time.Unix(100, 0), true},
		{"the clock was years ahead", set.Add(20 * year), set, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			g, clock := stepped(t, &fake{}, dir)
			clock.Set(c.ended)
			g.tell("me", "verify", "j", `{}`)
			g.finalRecord("me", "j")
			over, stop := context.WithTimeout(context.Background(), 50*time.Millisecond)
			defer stop()
			if err := g.Shutdown(over); err != nil {
				t.Fatal(err)
			}
			next := newClock()
			next.advance(c.now.Sub(next.now()))
			again := newRig(t, &fake{}, func(cfg *Config) { cfg.StateDir, cfg.Now = dir, next.now })
			kept := func() bool {
				again.jobs.sweep()
				return len(again.Jobs()) == 1
			}
			if kept() != c.stays {
				t.Fatalf("kept %v, want %v", !c.stays, c.stays)
			}
			if !c.stays {
				return
			}
			if e := again.Jobs()[0].ExpiresAt; e.Before(c.now) || e.After(c.now.Add(day)) {
				t.Errorf("it is said to go at %v, and now is %v", e, c.now)
			}
			next.advance(day + time.Minute)
			if kept() {
				t.Error("it stays for ever")
			}
		})
	}
}

// Commands that wait over a restart run in the order in which they were given, whatever
// the clock said meanwhile.
func TestClockLeapsBetweenCommands(t *testing.T) {
	dir := t.TempDir()
	gate := make(chan struct{})
	g, c := stepped(t, &fake{runJob: func(ctx context.Context, _ Job, _ func(JobProgress)) (any, error) {
		<-gate
		return nil, ctx.Err()
	}}, dir)
	var given []string
	for i, by := range []time.Duration{0, 0, 20 * year, -56 * year, time.Hour, -2 * time.Hour} {
		c.Step(by)
		id := fmt.Sprintf("j%d", i)
		g.tell("me", "verify", id, `{}`)
		if i > 0 { // the first one runs, and ends with this start
			given = append(given, id)
		}
	}
	g.await("the first one to run", func() bool { return g.record("me", "j0").Status == JobRunning })
	g.jobs.stop()
	close(gate)
	over, stop := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer stop()
	if err := g.Shutdown(over); err != nil {
		t.Fatal(err)
	}
	var ran []string
	var ended atomic.Int32
	again := newRig(t, &fake{runJob: func(_ context.Context, j Job, _ func(JobProgress)) (any, error) {
		ran = append(ran, j.ID) // one after the other
		ended.Add(1)
		return nil, nil
	}}, func(cfg *Config) { cfg.StateDir = dir })
	again.await("the others to run", func() bool { return int(ended.Load()) == len(given) })
	if got, want := strings.Join(ran, " "), strings.Join(given, " "); got != want {
		t.Errorf("they run as %s, want %s", got, want)
	}
}
