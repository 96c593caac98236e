// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"slices"
)

// account is what the open requests of a client have been given. A client that
// comes begins where the one stands that was given least, so that it waits for
// nothing it did not miss and owes nothing for long ago.
type account struct {
	open   int
	active int
	given  int64 // tokens computed
}

// open opens a request's account. mu is held.
func (s *scheduler) open(g *generation) {
	a := s.clients[g.req.Client]
	if a == nil {
		a = new(account)
		first := true
		for _, other := range s.clients {
			if first || other.given < a.given {
				a.given, first = other.given, false
			}
		}
		s.clients[g.req.Client] = a
	}
	a.open++
	g.account, g.urgency = a, g.req.Priority
}

// shut closes it. mu is held.
func (s *scheduler) shut(g *generation) {
	if g.account.open--; g.account.open == 0 {
		delete(s.clients, g.req.Client)
	}
}

func (s *scheduler) charge(g *generation, tokens int) { g.account.given += int64(tokens) }

// waitsBefore orders those who wait: by urgency, then by how many places their
// clients have, then as comesBefore.
func waitsBefore(a, b *generation) int {
	return cmp.Or(cmp.Compare(a.urgency, b.urgency), cmp.Compare(a.account.active, b.account.active), comesBefore(a, b))
}

// comesBefore orders those whose prompts are to be computed: by urgency, then by
// what their clients were given, then by arrival.
func comesBefore(a, b *generation) int {
	return cmp.Or(cmp.Compare(a.urgency, b.urgency), cmp.Compare(a.account.given, b.account.given), cmp.Compare(a.arrival, b.arrival))
}

// precedes orders those who have something: who comes last gives it up first.
func precedes(a, b *generation) int {
	return cmp.Or(cmp.Compare(a.urgency, b.urgency), cmp.Compare(a.arrival, b.arrival))
}

// admit takes requests into work while there is room. The first in line is never
// passed by one that needs less. mu is held.
func (s *scheduler) admit() {
	for {
		g := s.nextWaiting()
		if g == nil || !s.begin(g) {
			return
		}
	}
}

// nextWaiting is the first in line; none that came after an evaluation.
func (s *scheduler) nextWaiting() *generation {
	var first *generation
	for _, g := range s.waiting {
		if g.behind() || len(s.loans) > 0 && g.arrival > s.loans[0].arrival {
			continue
		}
		if first == nil || waitsBefore(g, first) < 0 {
			first = g
		}
	}
	return first
}

// begin takes a request into work if there is a place, and pages for what is known of
// it and of those in work, or can be by putting others back to wait.
func (s *scheduler) begin(g *generation) bool {
	if !s.makeRoom(g) {
		return false
	}
	g.seq = newSequence(s.m.kv, len(g.prompt)+g.max)
	g.seq.scene, g.seq.realm = g.scene, g.realm
	s.tree.begin(g.seq, s.found(g)) // more than before, where others were put back
	s.waiting = slices.DeleteFunc(s.waiting, func(w *generation) bool { return w == g })
	at, _ := slices.BinarySearchFunc(s.active, g, precedes)
	s.active = slices.Insert(s.active, at, g)
	g.account.active++
	if g.begun.IsZero() {
		g.begin()
		s.cached += int64(g.cached)
		s.passedBy(g)
	}
	return true
}

// found is what of a request is kept of others.
func (s *scheduler) found(g *generation) []int32 {
	known := g.known()[:len(g.all)-1] // one at least is computed, for its logits
	return known[:g.scene.shared(s.tree.match(g.realm, known))]
}

// putBack takes a request out of work, to wait for its turn again. mu is held.
func (s *scheduler) putBack(g *generation) {
	s.active = slices.DeleteFunc(s.active, func(a *generation) bool { return a == g })
	s.release(g)
	s.waiting = append(s.waiting, g)
}

// release gives up what a request in work has.
func (s *scheduler) release(g *generation) {
	s.tree.end(g.seq)
	g.seq = nil
	g.account.active--
}

// compose puts the next pass together: a token of each request that is being
// answered, then pieces of prompts. mu is held.
func (s *scheduler) compose() {
	s.spans, s.inPass, s.blind = s.spans[:0], s.inPass[:0], s.blind[:0]
	for i := 0; i < len(s.active); i++ {
		g := s.active[i]
		switch {
		case g.puzzled, g.left() != 1:
		case s.sees(g, g.seq.len(), 1) == 0:
			s.blind = append(s.blind, g)
		case s.room(g):
			s.add(g, 1)
		}
	}
	budget := s.m.chunk
	if len(s.spans) > 0 {
		budget = min(budget, mixedRows)
	}
	for answering := len(s.spans) > 0; budget > 0; {
		g := s.nextPrompt()
		if g == nil {
			return
		}
		n := s.sees(g, g.seq.len(), min(g.left(), budget))
		if n == 0 {
			s.blind = append(s.blind, g)
			continue
		}
		for !s.grow(g, g.seq.len()+n) {
			if answering || len(s.spans) > 0 {
				return // these give pages back when they end
			}
			s.putBack(s.lastBut(g))
		}
		s.add(g, n)
		budget -= n
	}
}

// room takes the page of a request's next token. If there is none, prefixes that are
// kept give way, then requests from the last on; false when that is this one.
func (s *scheduler) room(g *generation) bool {
	for !s.grow(g, g.seq.len()+1) {
		last := s.active[len(s.active)-1]
		s.putBack(last)
		if last == g {
			return false
		}
	}
	return true
}

// lastBut is the last in work that is not g. There is one when pages lack: g alone
// has room, its length was held against the context.
func (s *scheduler) lastBut(g *generation) *generation {
	last := s.active[len(s.active)-1]
	if last == g {
		last = s.active[len(s.active)-2]
	}
	return last
}

// nextPrompt is the request whose prompt is computed next; nil when all that have
// one are in the pass.
func (s *scheduler) nextPrompt() *generation {
	var first *generation
	for _, g := range s.active {
		if !g.puzzled && g.left() > 1 && !slices.Contains(s.inPass, g) && !slices.Contains(s.blind, g) && (first == nil || comesBefore(g, first) < 0) {
			first = g
		}
	}
	return first
}

// add puts the next n tokens of a request into the pass.
func (s *scheduler) add(g *generation, n int) {
	at := g.seq.len()
	s.spans = append(s.spans, span{seq: g.seq, tokens: g.all[at:][:n], pos: at})
	s.inPass = append(s.inPass, g)
}

// loan is a turn of a caller who computes himself: an evaluation. It waits for what
// came before and has the model alone.
type loan struct {
	arrival int64
	granted chan struct{} // closed by the scheduler
	back    chan struct{} // closed by the caller
	err     error         // set before granted is closed
}

// nextLoan is the evaluation whose turn it is, if one's is.
func (s *scheduler) nextLoan() *loan {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reap()
	if len(s.loans) == 0 || len(s.active) > 0 {
		return nil
	}
	l := s.loans[0]
	for _, g := range s.waiting {
		if g.arrival < l.arrival && !g.behind() {
			return nil
		}
	}
	s.loans = s.loans[1:]
	s.lent = true
	return l
}

// borrow waits for a turn.
func (s *scheduler) borrow(ctx context.Context) (*loan, error) {
	l := &loan{granted: make(chan struct{}), back: make(chan struct{})}
	s.mu.Lock()
	if s.closing {
		s.mu.Unlock()
		return nil, ErrClosed
	}
	s.arrivals++
	l.arrival = s.arrivals
	s.loans = append(s.loans, l)
	s.rouse()
	s.mu.Unlock()
	select {
	case <-l.granted:
		return l, l.err
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := slices.Index(s.loans, l); at >= 0 {
		s.loans = slices.Delete(s.loans, at, at+1)
		s.rouse()
	} else if l.err == nil {
		s.lent = false
		close(l.back)
	}
	return nil, fmt.Errorf("engine: stopped: %w", ctx.Err())
}

// takeBack ends a loan.
func (s *scheduler) takeBack(l *loan) {
	s.mu.Lock()
	s.lent = false
	s.mu.Unlock()
	close(l.back)
}

// begin takes the model for one call that computes, until end. The end of ctx
// stops the pass. A page fault of this goroutine becomes the call's error:
//
//	end, err := m.begin(ctx)
//	if err != nil {
//		return err
//	}
//	defer end(&err)
func (m *Model) begin(ctx context.Context) (end func(err *error), err error) {
	l, err := m.sched.borrow(ctx)
	if err != nil {
		return nil, err
	}
	if err := m.pool.Attach(); err != nil {
		m.sched.takeBack(l)
		return nil, fmt.Errorf("engine: %w", err)
	}
	unwatch := m.watch(ctx)
	old := debug.SetPanicOnFault(true)
	return func(err *error) {
		recovered := recover()
		debug.SetPanicOnFault(old)
		unwatch()
		m.seq.cut(0)
		m.pool.Detach()
		m.sched.takeBack(l)
		faultError(err, recovered)
	}, nil
}

// watch makes the end of ctx stop the pass; what it returns must be called
// before the next pass is prepared.
func (m *Model) watch(ctx context.Context) func() {
	m.st.stop.Store(ctx.Err() != nil)
	told := make(chan struct{})
	quit := context.AfterFunc(ctx, func() {
		m.st.stop.Store(true)
		close(told)
	})
	return func() {
		if !quit() {
			<-told // or it would stop the next request
		}
	}
}
