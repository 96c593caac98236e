// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// twin starts one of two boxes with the same name, whose clock is ahead, and collects
// what it was told.
func twin(t *testing.T, ep Endpoint, ahead time.Duration, runs *atomic.Int32) (*Server, *notices) {
	t.Helper()
	n := &notices{}
	s, err := New(Config{Device: "edge1", StateDir: t.TempDir(), State: StateOnline, Notify: n.take, Now: func() time.Time { return time.Now().Add(ahead) }},
		&fake{generate: counted(runs)})
	if err != nil {
		t.Fatal(err)
	}
	s.retake = 300 * time.Millisecond
	t.Cleanup(func() {
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
	if err := s.Connect(ep, ep); err != nil {
		t.Fatal(err)
	}
	return s, n
}

type notices struct {
	mu  sync.Mutex
	all []Notice
}

func (n *notices) take(one Notice) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, one)
}

// rival returns what was said of another box.
func (n *notices) rival() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var said []string
	for _, one := range n.all {
		if one.Event == NoticeRival {
			said = append(said, one.Err.Error())
		}
	}
	return strings.Join(said, "\n")
}

// text is all that was said.
func (n *notices) text() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return fmt.Sprint(n.all)
}

// downs counts lost connections.
func (n *notices) downs() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(slices.DeleteFunc(slices.Clone(n.all), func(one Notice) bool { return one.Event != NoticeDown }))
}

// TestTwoBoxesWithOneName_P36 starts a copy of a box that runs. Both say what is wrong, the
// later one steps aside and the first one serves; when it goes, the other takes over.
func TestTwoBoxesWithOneName_P36(t *testing.T) {
	eachBroker(t, func(t *testing.T, b testBroker) {
		ep := quick(b.url())
		l := listen(t, ep, "windhover/v1/edge1/status", "windhover/v1/edge1/event")
		var first, second atomic.Int32
		a, an := twin(t, ep, 0, &first)
		c := newCaller(t, ep, "me")
		z, zn := twin(t, ep, time.Minute, &second)
		eventually(t, "both to know", func() bool { return an.rival() != "" && z.Counters().NameTaken })
		if got := an.rival(); !strings.Contains(got, "the other one steps aside") || !strings.Contains(got, `"edge1"`) {
			t.Errorf("the first says %q", got)
		}
		if got := zn.rival(); !strings.Contains(got, "this one steps aside") {
			t.Errorf("the second says %q", got)
		}
		eventually(t, "both to say so", func() bool {
			text := ""
			for _, m := range l.on("windhover/v1/edge1/event") {
				text += string(m.Payload())
			}
			return strings.Contains(text, "the other one steps aside") && strings.Contains(text, "this one steps aside")
		})
		eventually(t, "the first to have both links", func() bool {
			k := a.Counters()
			return k.Connected["control"] && k.Connected["data"] && !k.NameTaken && c.Status().State == StateOnline && c.Status().Boot == a.boot
		})
		calm := an.downs()
		for range 5 {
			r := NewRequest(OpGenerate)
			r.Prompt = "x"
			if _, err := c.Send(t.Context(), r, nil); err != nil {
				t.Fatal(err)
			}
		}
		if first.Load() != 5 || second.Load() != 0 || an.downs() != calm {
			t.Errorf("%d and %d answers, %d more lost connections", first.Load(), second.Load(), an.downs()-calm)
		}
		if err := a.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the second to take over", func() bool { return !z.Counters().NameTaken && z.Counters().Connected["data"] })
		eventually(t, "its status", func() bool { return c.Status().State == StateOnline && c.Status().Boot == z.boot })
	})
}

// TestOwnStatusIsNoRival hears what a box hears of itself: its own messages, its will,
// and what a start before it has left.
func TestOwnStatusIsNoRival(t *testing.T) {
	g := newRig(t, &fake{}, nil)
	say := func(st Status) {
		p, err := json.Marshal(st)
		if err != nil {
			t.Fatal(err)
		}
		g.hearStatus(p)
	}
	say(Status{State: StateOnline, Boot: "before"}) // before the broker had a word of this one
	if g.said.Load() {
		t.Error("this start was heard before it spoke")
	}
	say(Status{State: StateOnline, Boot: g.boot})
	say(Status{State: StateOffline, Boot: g.boot})
	say(Status{State: StateOffline, Session: 3}) // a version without boots
	g.hearStatus([]byte("{"))
	if g.aside.Load() || g.rival != "" {
		t.Error("a rival was seen")
	}
	a, z := &Server{boot: "a"}, &Server{boot: "z"}
	if !a.before(Status{Boot: "z"}) || z.before(Status{Boot: "a"}) {
		t.Error("starts at the same time do not agree on who was first")
	}
}

// TestLateWill_P110 has the will of the start before published when this one has spoken
// already: it is overwritten and no rival. Only an earlier start that lives is one.
func TestLateWill_P110(t *testing.T) {
	old := Status{V: 1, State: StateOffline, Session: 41, Boot: "old", Since: time.Now().Add(-time.Hour), Reason: "lost"}
	will, err := json.Marshal(old)
	if err != nil {
		t.Fatal(err)
	}
	dir := func(t *testing.T) string {
		return layState(t, map[string]string{"session": `{"v":1,"session":41,"boots":["older","old"]}`})
	}
	eachBroker(t, func(t *testing.T, b testBroker) {
		ep, at := quick(b.url()), dir(t)
		l := listen(t, ep)
		s := newDevice(t, &fake{}, ep, func(c *Config) { c.StateDir = at })
		eventually(t, "the device to hear itself", s.said.Load)
		// More often than one connection can hear of it.
		for i := range 5 {
			l.publish("windhover/v1/edge1/status", true, string(will))
			late := listen(t, ep, "windhover/v1/edge1/status")
			eventually(t, "the status to be put right", func() bool {
				ms := late.on("windhover/v1/edge1/status")
				var st Status
				return len(ms) > 0 && json.Unmarshal(ms[len(ms)-1].Payload(), &st) == nil && st.State == StateOnline && st.Boot == s.boot
			})
			if s.Counters().NameTaken {
				t.Fatalf("after %d wills the device takes its own end for a rival", i+1)
			}
		}
	})
	heard := func(t *testing.T, st Status, connections uint64) *rig {
		g := newRig(t, &fake{}, func(c *Config) { c.StateDir = dir(t) })
		g.ctl, g.dat = &link{}, &link{}
		g.said.Store(true)
		st.Since = g.since.Add(-time.Hour)
		p, err := json.Marshal(st)
		if err != nil {
			t.Fatal(err)
		}
		for range connections {
			g.ctl.ups.Add(1)
			g.hearStatus(p)
			g.hearStatus(p) // as it comes, and as it is retained
		}
		return g
	}
	online := old
	online.State = StateOnline
	unknown := old
	unknown.Boot = "unknown"
	for name, c := range map[string]struct {
		st          Status
		connections uint64
		aside       bool
	}{
		"its end, on two connections":   {old, 2, false},
		"its end, on three connections": {old, 3, true},
		"it lives":                      {online, 1, true},
		"the end of another box":        {unknown, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			if g := heard(t, c.st, c.connections); g.aside.Load() != c.aside {
				t.Errorf("stands aside: %v, want %v", !c.aside, c.aside)
			}
		})
	}
}

// counted is echo, counted.
func counted(runs *atomic.Int32) func(context.Context, *Request, func(Event) error) (*Result, error) {
	return func(ctx context.Context, r *Request, emit func(Event) error) (*Result, error) {
		runs.Add(1)
		return echo(ctx, r, emit)
	}
}
