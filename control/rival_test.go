// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"encoding/json"
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

// counted is echo, counted.
func counted(runs *atomic.Int32) func(context.Context, *Request, func(Event) error) (*Result, error) {
	return func(ctx context.Context, r *Request, emit func(Event) error) (*Result, error) {
		runs.Add(1)
		return echo(ctx, r, emit)
	}
}
