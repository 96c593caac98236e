// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
)

// held is a rig whose generations go on until the test lets them.
type held struct {
	*rig
	mu      sync.Mutex
	begun   []string // ids, in order
	urgency map[string]int
	gates   map[string]chan struct{}
}

func newHeld(t *testing.T, concurrency int, change func(*Limits)) *held {
	h := &held{urgency: map[string]int{}, gates: map[string]chan struct{}{}}
	h.rig = newRig(t, &fake{generate: func(ctx context.Context, r *Request, _ func(Event) error) (*Result, error) {
		gate := make(chan struct{})
		h.mu.Lock()
		h.begun = append(h.begun, r.ID)
		h.urgency[r.ID], h.gates[r.ID] = r.Priority, gate
		h.mu.Unlock()
		select {
		case <-gate:
			return &Result{Finish: FinishStop}, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}, func(c *Config) {
		c.Concurrency = concurrency
		if change != nil {
			change(&c.Limits)
		}
	})
	return h
}

// put asks for a request whose client is the first letter of its id, and returns how
// many it is told are before it.
func (h *held) put(id string, priority int) int {
	h.t.Helper()
	client := id[:1]
	h.ask(client, OpGenerate, fmt.Sprintf(`{"id":%q,"prompt":"x","priority":%d}`, id, priority))
	h.await(id+" accepted", func() bool { return len(h.replies(client, id)) > 0 })
	a := h.replies(client, id)[0].Accepted
	if a == nil {
		h.t.Fatalf("%s: %+v", id, h.replies(client, id)[0])
	}
	return a.Queue
}

// let lets requests end, one after the other, each once it has begun.
func (h *held) let(ids ...string) {
	h.t.Helper()
	for _, id := range ids {
		var gate chan struct{}
		h.await(id+" to begin", func() bool {
			h.mu.Lock()
			defer h.mu.Unlock()
			gate = h.gates[id]
			return gate != nil
		})
		close(gate)
		h.end(id[:1], id)
	}
}

// order waits until as many have begun, and no more can, and holds them against want.
func (h *held) order(want string) {
	h.t.Helper()
	list := strings.Fields(want)
	h.await("as many to begin as in "+want, func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return len(h.begun) >= len(list)
	})
	if e := h.desk.next(); e != nil {
		h.t.Fatalf("%s could begin as well", e.key.id)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.Equal(h.begun, list) {
		h.t.Fatalf("began %v, want %v", h.begun, list)
	}
}

// Those who are urgent go to the backend at once, where it has enough of the less
// urgent, and not more of them than there are places.
func TestUrgentWaitsForNoneLessUrgent_P6(t *testing.T) {
	h := newHeld(t, 2, nil)
	for i, id := range []string{"a1", "b1", "c1"} {
		if got, want := h.put(id, 9), []int{0, 0, 2}[i]; got != want {
			t.Errorf("%s is told that %d are before it, want %d", id, got, want)
		}
		h.order(strings.Join([]string{"a1", "b1"}[:min(i+1, 2)], " "))
	}
	h.put("d0", 0)
	h.order("a1 b1 d0")
	h.put("e0", 0)
	h.order("a1 b1 d0 e0")
	if n := h.put("f0", 0); n != 2 {
		t.Errorf("the third urgent one is told that %d are before it, want 2", n)
	}
	if n := h.put("g5", 5); n != 3 {
		t.Errorf("the next is told that %d are before it, want 3", n)
	}
	h.order("a1 b1 d0 e0")
	h.let("a1", "b1")
	h.order("a1 b1 d0 e0") // two urgent ones are in work still
	h.let("e0")
	h.order("a1 b1 d0 e0 f0")
	h.let("d0")
	h.order("a1 b1 d0 e0 f0 g5")
	h.let("f0")
	h.order("a1 b1 d0 e0 f0 g5 c1")
	h.let("c1", "g5")
}

// Of one priority, a client goes first that has fewer in work; the backend takes a
// place from who has two more, and so these do not keep it waiting.
func TestClientsTakeTurns_P7(t *testing.T) {
	h := newHeld(t, 3, func(l *Limits) { l.PerClient, l.Queue = 4, 16 })
	for i, id := range []string{"a1", "a2", "b1"} {
		h.put(id, 5)
		h.order(strings.Join([]string{"a1", "a2", "b1"}[:i+1], " "))
	}
	h.put("a3", 5)
	h.put("a4", 5)
	h.put("b2", 5)
	h.order("a1 a2 b1") // b has one, a two
	h.put("c1", 5)
	h.order("a1 a2 b1 c1")
	h.put("c2", 5)
	h.put("d6", 6)
	h.order("a1 a2 b1 c1")
	h.let("a1")
	h.order("a1 a2 b1 c1") // three are in work
	h.let("a2")
	h.order("a1 a2 b1 c1 a3") // a has none
	h.let("c1")
	h.order("a1 a2 b1 c1 a3 c2")
	h.let("a3")
	h.order("a1 a2 b1 c1 a3 c2 a4")
	h.let("b1")
	h.order("a1 a2 b1 c1 a3 c2 a4 b2")
	h.let("a4")
	h.order("a1 a2 b1 c1 a3 c2 a4 b2 d6")
	h.let("b2", "c2", "d6")
}

// However many more urgent ones come, each waits for a bounded number of them; of a
// client one at a time, so that two that wait are not served as one.
func TestNobodyWaitsForEver_P215(t *testing.T) {
	h := newHeld(t, 1, nil)
	h.put("x", 5)
	h.put("s1", 9)
	h.put("s2", 9)
	last := "x"
	passed := map[string]int{}
	for n := 0; len(passed) < 2; n++ {
		if n > 100 {
			t.Fatalf("a hundred went by, %v after as many", passed)
		}
		id := fmt.Sprintf("%c%d", 'a'+n%3, n)
		h.put(id, 5)
		h.let(last)
		h.await("the next", func() bool {
			h.mu.Lock()
			defer h.mu.Unlock()
			last = h.begun[len(h.begun)-1]
			return len(h.begun) == n+2
		})
		if last[0] == 's' {
			passed[last] = n
		}
	}
	const want = 8 * (9 - 5) // eight for each step
	if passed["s1"] != want || passed["s2"] < 2*passed["s1"] || h.urgency["s1"] != 5 {
		t.Errorf("began after %v others, at urgency %v; want the first after %d", passed, h.urgency, want)
	}
}
