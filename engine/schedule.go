// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"
)

// scheduler computes the requests of a model. One goroutine of its own runs pass
// after pass while there is something to do: in each, a token of every request that
// is being answered, and a piece of the prompts of others. Who computes nothing is
// not heard of: an idle model uses no CPU time.
//
// A request waits until a place among the active ones is free and the pages of its
// prompt are, or less urgent ones have them, which are put back to wait. When pages
// run out, the prefixes that are kept go first, then the request whose turn comes last
// is put back: its pages go to the tree, and what has been evicted of them by its next
// turn is computed again, to the same bits. So is one put back whose listener is far
// behind.
type scheduler struct {
	m    *Model
	tree *prefixTree
	wake chan struct{} // capacity 1: something to do
	over chan struct{} // closed when the goroutine has ended

	mu       sync.Mutex
	calm     sync.Cond // on mu: attached has become false
	attached bool      // the pool is in use, or about to be
	lent     bool      // to an evaluation
	stuck    bool      // all in work wait for something that is to come
	closing  bool
	waiting  []*generation // by arrival
	loans    []*loan       // by arrival
	active   []*generation // by precedes
	arrivals int64
	cached   int64 // tokens that prompts found in the tree
	clients  map[string]*account
	inPass   []*generation  // what the pass in work computes, by span
	blind    []*generation  // beside it, those that wait for the tower
	pages    int            // that the cache has
	counts   int64          // of them
	puzzles  sync.WaitGroup // see puzzle

	// The goroutine's own.
	spans []span
	rows  []int // of the pass that get logits
	heads []*generation
}

// mixedRows is how many tokens of prompts are computed beside requests that are
// being answered: few, for they wait as long as those take.
const mixedRows = 32

// idleFor is after how long without a request the memory of free pages is given
// back.
const idleFor = time.Minute

func newScheduler(m *Model, sequences int) *scheduler {
	s := &scheduler{
		m: m, pages: len(m.kv.list), tree: newPrefixTree(m.kv), wake: make(chan struct{}, 1), over: make(chan struct{}), clients: map[string]*account{},
		spans: make([]span, 0, sequences), rows: make([]int, 0, sequences), heads: make([]*generation, 0, sequences),
		active: make([]*generation, 0, sequences), inPass: make([]*generation, 0, sequences),
	}
	s.calm.L = &s.mu
	return s
}

// enter puts a request in the queue.
func (s *scheduler) enter(g *generation) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return ErrClosed
	}
	s.arrivals++
	g.arrival = s.arrivals
	s.open(g)
	s.waiting = append(s.waiting, g)
	s.rouse()
	return nil
}

func (s *scheduler) rouse() {
	select {
	case s.wake <- struct{}{}:
	default: // it is going to look anyway
	}
}

// close waits for the requests to end and ends the goroutine.
func (s *scheduler) close() {
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	s.rouse()
	<-s.over
	s.puzzles.Wait()
}

// run is the goroutine.
func (s *scheduler) run() {
	defer close(s.over)
	for s.wait() {
		if l := s.nextLoan(); l != nil {
			close(l.granted)
			<-l.back
			s.rest()
			continue
		}
		if err := s.m.pool.Attach(); err != nil {
			s.refuseAll(fmt.Errorf("engine: %w", err))
			continue
		}
		for s.turn() {
		}
		s.m.pool.Detach()
		s.rest()
	}
}

// wait sleeps until there is something to do; false when there will never be.
func (s *scheduler) wait() bool {
	idle := time.NewTimer(idleFor)
	defer idle.Stop()
	for {
		s.mu.Lock()
		work := len(s.active)+len(s.loans) > 0 || slices.ContainsFunc(s.waiting, func(g *generation) bool { return !g.behind() })
		work = work && !s.stuck
		s.attached = work
		over := s.closing && len(s.waiting)+len(s.active) == 0 // some may wait for their listeners, or for what is found out
		s.mu.Unlock()
		if work || over {
			return work
		}
		select {
		case <-s.wake:
			s.mu.Lock()
			s.stuck = false
			s.mu.Unlock()
		case <-idle.C:
			s.m.kv.trim()
		}
	}
}

// rest says that the pool is not in use any more.
func (s *scheduler) rest() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attached = false
	s.calm.Broadcast()
}

// refuseAll ends all requests.
func (s *scheduler) refuseAll(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range slices.Concat(s.waiting, s.active) {
		s.finish(g, "", err)
		g.tell()
	}
	s.reap()
	for _, l := range s.loans {
		l.err = err
		close(l.granted)
	}
	s.loans = nil
	s.attached = false
	s.calm.Broadcast()
}

// turn does one pass; false when there is none to do.
func (s *scheduler) turn() bool {
	s.mu.Lock()
	s.reap()
	for i := len(s.active) - 1; i >= 0; i-- {
		if s.active[i].behind() {
			s.putBack(s.active[i])
		}
	}
	s.admit()
	s.m.sight.forsake()
	s.compose()
	more := len(s.spans)+len(s.blind) > 0
	s.stuck = !more && len(s.active) > 0
	s.m.st.stop.Store(false)
	s.mu.Unlock()
	if !more {
		return false
	}
	panicked, err := s.compute()
	if s.settle(panicked, err) {
		runtime.Gosched() // whoever waits for the news may have no CPU but this
	}
	return true
}

// compute does the pass that compose has put together. A page fault of this
// goroutine becomes its error; any other panic is to go on in those who asked.
func (s *scheduler) compute() (panicked any, err error) {
	old := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(old)
		if r := recover(); r != nil {
			defer func() { panicked = recover() }()
			faultError(&err, r)
		}
	}()
	if s.see(); len(s.spans) == 0 {
		s.heads = s.heads[:0]
		return nil, nil
	}
	if err := s.m.st.forward(s.spans); err != nil {
		return nil, err
	}
	s.rows, s.heads = s.rows[:0], s.heads[:0]
	if err := s.pool(); err != nil {
		return nil, err
	}
	s.ends(false)
	if len(s.rows) == 0 {
		return nil, nil
	}
	return nil, s.m.st.head(s.rows)
}

// ends lists in s.rows and s.heads whose last token was in the pass: of those that are
// to be pooled, or of the others.
func (s *scheduler) ends(pooled bool) {
	s.rows, s.heads = s.rows[:0], s.heads[:0]
	for i, g := range s.inPass {
		sp := &s.spans[i]
		if pooled == (g.pooled != nil) && sp.pos+len(sp.tokens) == len(g.all) {
			s.rows, s.heads = append(s.rows, sp.row+len(sp.tokens)-1), append(s.heads, g)
		}
	}
}

// pool gives texts that are wholly computed what is made of their last token.
func (s *scheduler) pool() error {
	if s.ends(true); len(s.rows) == 0 {
		return nil
	}
	x, err := s.m.st.normed(s.rows)
	if err != nil {
		return err
	}
	for i, g := range s.heads {
		copy(g.pooled, x[i*len(g.pooled):])
	}
	return nil
}

// settle gives what the pass has computed to whom it belongs. It reports whether
// there is news for somebody.
func (s *scheduler) settle(panicked any, err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	news := false
	if errors.Is(err, errStopped) {
		s.inPass = s.inPass[:0]
		return false // all have left
	}
	failed := err != nil || panicked != nil
	for i, g := range s.inPass {
		sp := &s.spans[i]
		switch {
		case err != nil:
			s.finish(g, "", fmt.Errorf("engine: position %d: %w", sp.pos, err))
		case failed:
			g.panicked = panicked
			s.finish(g, "", ErrNumeric) // nobody sees it
		default:
			g.seq.computed(g.known()[sp.pos:][:len(sp.tokens)])
			g.looked()
			s.tree.keep(g.seq)
			s.charge(g, len(sp.tokens))
			g.progressed()
			if g.pooled != nil && g.left() == 0 {
				g.ready = time.Now()
				s.finish(g, FinishStop, nil)
			}
		}
		news = g.tell() || news
	}
	if !failed {
		for i, g := range s.heads {
			s.said(g, i)
			news = g.tell() || news
		}
	}
	s.inPass = s.inPass[:0]
	return news
}

// said takes the next token of a request from row i of the logits.
func (s *scheduler) said(g *generation, i int) {
	if g.over {
		return
	}
	if g.ready.IsZero() {
		g.ready = time.Now()
	}
	vocab := s.m.cfg.Vocab
	id, err := g.next(s.m.st.logits[i*vocab:][:vocab])
	if err != nil {
		s.finish(g, "", err)
		return
	}
	if g.first.IsZero() {
		g.first = time.Now()
	}
	if whole := g.take(id); g.puzzled && !whole {
		s.puzzle(g, id)
	} else {
		s.went(g, whole)
	}
}

// went ends a request whose answer is whole, or as long as it may be.
func (s *scheduler) went(g *generation, whole bool) {
	switch {
	case whole:
		s.finish(g, FinishStop, nil)
	case len(g.ids()) == g.max:
		s.finish(g, FinishLength, nil)
	}
}

// finish ends a request, once. mu is held.
func (s *scheduler) finish(g *generation, finish string, err error) {
	if g.over {
		return
	}
	g.over, g.finish, g.err, g.end = true, finish, err, time.Now()
	g.out.finish()
	g.news = true
}

// leave ends a request that nobody waits for any more, at once: its pass goes on
// if it computes for others as well.
func (s *scheduler) leave(g *generation, finish string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g.over {
		return
	}
	s.finish(g, finish, nil)
	if g.quit != nil {
		g.quit()
	}
	if slices.Contains(s.inPass, g) && !slices.ContainsFunc(s.inPass, func(g *generation) bool { return !g.over }) {
		s.m.st.stop.Store(true)
	}
	s.rouse()
}

// reap clears away requests that are over. mu is held.
func (s *scheduler) reap() {
	gone := func(g *generation) bool {
		if !g.over {
			return false
		}
		if g.seq != nil {
			s.release(g)
		}
		s.shut(g)
		return true
	}
	s.waiting = slices.DeleteFunc(s.waiting, gone)
	s.active = slices.DeleteFunc(s.active, gone)
}
