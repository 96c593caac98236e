// SPDX-License-Identifier: Apache-2.0

package engine

// Activity is what a model is at.
type Activity struct {
	Active  int   // requests that are computed beside each other
	Waiting int   // for a place or for pages
	Kept    int   // tokens of prefixes that are kept
	Cached  int64 // tokens of prompts that needed no computing, since the load
}

// Activity may be asked for at any time.
func (m *Model) Activity() Activity {
	s := m.sched
	s.mu.Lock()
	defer s.mu.Unlock()
	a := Activity{Kept: int(s.tree.kept.Load()), Cached: s.cached}
	for _, g := range s.active {
		if !g.over {
			a.Active++
		}
	}
	for _, g := range s.waiting {
		if !g.over {
			a.Waiting++
		}
	}
	return a
}
