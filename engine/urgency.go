// SPDX-License-Identifier: Apache-2.0

package engine

import "slices"

// patience is how many requests may begin before an older one until that counts as a
// step more urgent. Of a client only the oldest counts them, or whoever asks for much
// would gain by it.
const patience = 8

// passedBy counts that a request begins before older ones that are kept. mu is held.
func (s *scheduler) passedBy(g *generation) {
	for _, list := range [...][]*generation{s.waiting, s.active} {
		for _, o := range list {
			if o.arrival > g.arrival || !o.kept() || !s.oldest(o) {
				continue
			}
			if o.passed++; o.passed == patience {
				o.passed = 0
				o.urgency--
			}
		}
	}
	slices.SortFunc(s.active, precedes)
}

// kept tells whether others keep a request from its answer: it waits for a place, or
// with its prompt.
func (g *generation) kept() bool {
	return !g.over && !g.behind() && (g.seq == nil || g.left() > 1)
}

// oldest tells whether no older request of the client is kept.
func (s *scheduler) oldest(g *generation) bool {
	older := func(o *generation) bool {
		return o.account == g.account && o.arrival < g.arrival && o.kept()
	}
	return !slices.ContainsFunc(s.waiting, older) && !slices.ContainsFunc(s.active, older)
}

// makeRoom finds a place and the pages for a request. It puts others back to wait for
// that: one whose client has two places more, or less urgent ones from the last on.
// Where that would not be enough all stay, and it reports false.
func (s *scheduler) makeRoom(g *generation) bool {
	known := s.found(g)
	var room [MaxSequences]*generation
	stay := append(room[:0], s.active...)
	if len(stay) == cap(s.active) {
		at := s.displaced(g)
		if at < 0 {
			return false
		}
		stay = slices.Delete(stay, at, at+1)
	}
	for len(stay) > 0 && !s.fits(g, known, stay) {
		last := len(stay) - 1
		if stay[last].urgency <= g.urgency {
			return false
		}
		stay = stay[:last]
	}
	for i := len(s.active) - 1; i >= 0; i-- {
		if v := s.active[i]; !slices.Contains(stay, v) {
			s.putBack(v)
		}
	}
	return true
}

// displaced is the last in work that is less urgent, or whose client has two places
// more; -1 for none.
func (s *scheduler) displaced(g *generation) int {
	for i := len(s.active) - 1; i >= 0; i-- {
		v := s.active[i]
		if v.urgency > g.urgency || v.urgency == g.urgency && v.account.active > g.account.active+1 {
			return i
		}
	}
	return -1
}

// fits tells whether a request, of which known is kept, would have the pages that it
// needs, if of those in work only stay kept theirs and got what they lack.
func (s *scheduler) fits(g *generation, known []int32, stay []*generation) bool {
	s.counts++
	need, held := kvPages(g.whole()), 0
	hold := func(pg *page) {
		if pg.counted != s.counts {
			pg.counted = s.counts
			held++
		}
	}
	for _, o := range stay {
		need += o.seq.lacks(o.whole())
		for _, pg := range o.seq.pages {
			hold(pg)
		}
	}
	s.tree.whole(g.realm, known, func(pg *page) {
		need--
		hold(pg)
	})
	return need+held <= len(s.m.kv.list)
}

// grow takes the pages of the first n positions of a request. Prefixes that are kept
// give way for it; false where it would take what others in work, as urgent or more,
// were let in for and still lack.
func (s *scheduler) grow(g *generation, n int) bool {
	lacks := g.seq.lacks(n)
	if lacks == 0 {
		return true
	}
	for _, o := range s.active {
		if o != g && o.urgency <= g.urgency {
			lacks += o.seq.lacks(o.whole())
		}
	}
	if lacks > len(s.m.kv.free)+s.tree.evictable() {
		return false
	}
	for !g.seq.grow(n) {
		if !s.tree.evict() {
			return false
		}
	}
	return true
}
