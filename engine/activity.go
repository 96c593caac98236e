// SPDX-License-Identifier: Apache-2.0

package engine

// Activity is what a model is at.
type Activity struct {
	Active  int   // requests that are computed beside each other
	Waiting int   // for a place or for pages
	Kept    int   // tokens of prefixes that are kept
	Cached  int64 // tokens of prompts that needed no computing, since the load

	// Of the KV cache. The pages of kept prefixes that no request in work has are not
	// among those held: they give way to whoever needs them.
	Pages, PagesHeld int
	// KVBytes is the memory that pages have, in use or kept, or free for less than a
	// minute: at most so much, for what of a page is not written yet has none.
	KVBytes int64
}

// Activity may be asked for at any time.
func (m *Model) Activity() Activity {
	s := m.sched
	s.mu.Lock()
	defer s.mu.Unlock()
	a := Activity{Kept: int(s.tree.kept.Load()), Cached: s.cached, Pages: s.pages, KVBytes: s.m.kv.took.Load() * int64(s.m.kv.pageBytes())}
	s.counts++
	for _, g := range s.active {
		if g.over {
			continue
		}
		a.Active++
		for _, pg := range g.seq.pages {
			if pg.counted != s.counts { // several requests may have it
				pg.counted = s.counts
				a.PagesHeld++
			}
		}
	}
	for _, g := range s.waiting {
		if !g.over {
			a.Waiting++
		}
	}
	return a
}
