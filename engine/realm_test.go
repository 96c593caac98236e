// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"context"
	"path/filepath"
	"slices"
	"testing"

	"windhover/engine/vision"
	"windhover/internal/testmodel"
	"windhover/kernels"
)

// Whoever asks in another realm finds nothing of what was asked in the first, and is
// told the same; so it stays when prefixes are saved and restored.
func TestRealmsShareNothing_P210(t *testing.T) {
	c := noisy()
	c.MaxSeq = 1024
	model, saved := testmodel.Write(t, c), filepath.Join(t.TempDir(), "prefixes")
	m := keeper(t, model, saved)
	var want []int32
	ask := func(what, realm string, cached int) {
		t.Helper()
		req := Request{Tokens: noise(600), MaxTokens: 8, IgnoreEOS: true, Raw: true, Realm: realm}
		res, err := m.Generate(context.Background(), req, nil)
		if err != nil {
			t.Fatal(err)
		}
		if want == nil {
			want = res.Tokens
		}
		if res.Usage.Cached != cached || !slices.Equal(res.Tokens, want) {
			t.Errorf("%s: realm %q has %d cached and %v, want %d and %v", what, realm, res.Usage.Cached, res.Tokens, cached, want)
		}
	}
	for _, realm := range []string{"", "a", "b"} {
		ask("first", realm, 0)
		ask("again", realm, 599)
	}
	saveAndClose(t, m, 3*607)
	m = keeper(t, model, saved)
	for _, realm := range []string{"b", "", "a"} {
		ask("restored", realm, 599)
	}
	ask("restored", "c", 0)
}

// The root of a realm goes with the last that was kept of it: anybody can make up
// names.
func TestRealmsGo(t *testing.T) {
	f := newFakePages(t, 6)
	for i := range 100 {
		q := newSequence(f.pool, 4096)
		q.realm = realmOf(string(rune('a' + i)))
		f.tree.begin(q, labelsOf(1, 300))
		if q.len() != 0 {
			t.Fatalf("realm %d begins with %d positions of another", i, q.len())
		}
		f.compute(q, labelsOf(1, 300))
		f.tree.end(q)
		f.account()
		if n := f.tree.match(q.realm, labelsOf(1, 300)); n != 300 {
			t.Errorf("%d positions found again, want 300", n)
		}
	}
	if n := len(f.tree.roots); n < 2 || n > 6 {
		t.Errorf("%d roots of what 6 pages keep", n)
	}
	for f.tree.evict() {
	}
	if n := len(f.tree.roots); n != 0 {
		t.Errorf("%d roots of nothing", n)
	}
}

// A picture that another realm has seen is computed again, and is the same.
func TestRealmsSeeForThemselves_P210(t *testing.T) {
	m := seeing(t, Options{Threads: 1})
	ids, pics := sceneOf(t, m)
	began := 0
	begin := m.sight.begin
	m.sight.begin = func(p *vision.Patches, pool *kernels.Pool) (*vision.Encoding, error) {
		began++
		return begin(p, pool)
	}
	var want []int32
	for i, realm := range []string{"a", "a", "b", "b", "a"} {
		req := Request{Tokens: ids, Pictures: pics, MaxTokens: 4, IgnoreEOS: true, Raw: true, Realm: realm}
		res, err := m.Generate(context.Background(), req, nil)
		if err != nil {
			t.Fatal(err)
		}
		settle(t, m)
		forget(t, m) // prefixes would spare the look at the picture
		if i == 0 {
			want = res.Tokens
		}
		known := len(pics)
		if i == 0 || i == 2 {
			known = 0
		}
		if res.Usage.PicturesKnown != known || !slices.Equal(res.Tokens, want) {
			t.Errorf("question %d: %d pictures known, %v; want %d and %v", i, res.Usage.PicturesKnown, res.Tokens, known, want)
		}
	}
	if began != 2*len(pics) {
		t.Errorf("the tower began %d times, want %d", began, 2*len(pics))
	}
}

// A file whose records say a realm has it under its checksum.
func TestSavedRealmIsCovered(t *testing.T) {
	f := newFakePages(t, 6)
	f.know(labelsOf(1, 300))
	var file bytes.Buffer
	if _, _, err := f.tree.write(context.Background(), &file, [32]byte{}, f.tree.worth(1<<20)); err != nil {
		t.Fatal(err)
	}
	file.Bytes()[savedHead+recordHead] ^= 1 // the first byte of the realm
	g := newFakePages(t, 6)
	if err := g.tree.read(&file, [32]byte{}); err == nil || g.tree.kept.Load() != 0 || len(g.tree.roots) != 0 {
		t.Errorf("%d positions of another realm, %d roots, %v", g.tree.kept.Load(), len(g.tree.roots), err)
	}
}
