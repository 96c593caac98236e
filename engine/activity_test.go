// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"

	"windhover/internal/testmodel"
	"windhover/kernels"
)

// The pages that requests in work hold are counted once each, however many have them,
// and those that are kept alone are not.
func TestActivityCountsPages(t *testing.T) {
	m := load(t, testmodel.Write(t, testmodel.Config{Random: true, MaxSeq: 1024}), Options{NoTokenizer: true, CacheBytes: 16 << 20})
	s := byHand(m)
	const prompt = 3*kernels.AttnBlock + 5
	if a := m.Activity(); a.Pages < kvPages(1024) || a.PagesHeld != 0 || a.KVBytes != 0 {
		t.Fatalf("at the begin: %+v", a)
	}
	ask := func() *generation {
		g, err := m.newGeneration(Request{Tokens: noise(prompt), MaxTokens: 20, IgnoreEOS: true})
		if err != nil {
			t.Fatal(err)
		}
		queueQuietly(s, g)
		return g
	}
	if err := m.pool.Attach(); err != nil {
		t.Fatal(err)
	}
	defer m.pool.Detach()
	first := ask()
	for len(first.ids()) == 0 {
		s.turn()
	}
	page := int64(m.kv.pageBytes())
	if a := m.Activity(); a.PagesHeld != 4 || a.Active != 1 || a.KVBytes != 4*page {
		t.Errorf("one request of %d tokens: %+v", prompt, a)
	}
	second := ask()
	for len(second.ids()) == 0 {
		s.turn()
	}
	if a := m.Activity(); a.PagesHeld != 5 || a.Active != 2 { // three whole pages in common
		t.Errorf("two that begin alike: %+v", a)
	}
	for s.turn() {
	}
	if a := m.Activity(); a.PagesHeld != 0 || a.Active != 0 || a.Kept < prompt || a.KVBytes != 5*page {
		t.Errorf("at the end: %+v", a)
	}
	m.kv.trim()
	if a, kept := m.Activity(), int64(m.kv.inUse()); a.KVBytes != kept*page {
		t.Errorf("after a quiet minute: %+v, kept are %d pages", a, kept)
	}
	for s.tree.evict() {
	}
	m.kv.trim()
	if a := m.Activity(); a.KVBytes != 0 {
		t.Errorf("nothing kept: %+v", a)
	}
}
