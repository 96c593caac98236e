// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"windhover/internal/testmodel"
)

// keeper is a model that saves what it keeps.
func keeper(t *testing.T, model, saved string) *Model {
	t.Helper()
	return load(t, model, Options{Threads: 1, CacheBytes: 16 << 20, Saved: Saved{Path: saved, Key: "one"}})
}

// wantSaved saves, and holds how many tokens are written.
func wantSaved(t *testing.T, m *Model, what string, want int) {
	t.Helper()
	if n, err := m.SaveCache(context.Background()); err != nil || n != want {
		t.Errorf("%s: %d tokens written, %v; want %d", what, n, err, want)
	}
}

// tokenRequest is one of n tokens that begin with first, for one token.
func tokenRequest(first int32, n int) Request {
	tokens := noise(n)
	tokens[0] = first
	return Request{Tokens: tokens, MaxTokens: 1, IgnoreEOS: true, Raw: true}
}

// A file that has all that is kept is not written again, however often that was
// used.
func TestSavedOnlyWhenChanged(t *testing.T) {
	c := noisy()
	c.MaxSeq = 1024
	model, saved := testmodel.Write(t, c), filepath.Join(t.TempDir(), "prefixes")
	m := keeper(t, model, saved)
	wantSaved(t, m, "nothing kept, and no file", 0)
	tokensOf(t, m, tokenRequest(1, 300))
	wantSaved(t, m, "the first", 300)
	wantSaved(t, m, "nothing since", 0)
	tokensOf(t, m, tokenRequest(1, 300))
	wantSaved(t, m, "the same again", 0)
	tokensOf(t, m, tokenRequest(1, 301))
	wantSaved(t, m, "one token more", 301)
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}

	m = keeper(t, model, saved)
	wantSaved(t, m, "restored", 0)
	tokensOf(t, m, tokenRequest(1, 200))
	wantSaved(t, m, "what was restored is used", 0)
	tokensOf(t, m, tokenRequest(2, 40))
	wantSaved(t, m, "something new", 341)
	if err := os.Remove(saved); err != nil {
		t.Fatal(err)
	}
	wantSaved(t, m, "the file is gone", 341)
	whole := readFile(t, saved)
	write(t, saved, whole[:len(whole)-1])
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}

	m = keeper(t, model, saved)
	if m.info.RestoreErr == "" {
		t.Error("a damaged file is restored without a word")
	}
	wantSaved(t, m, "what is left of a damaged file", m.info.Restored)
	wantSaved(t, m, "the file is whole again", 0)
}

// What a killed process left under the temporary name is written over.
func TestSavedOverALeftover(t *testing.T) {
	saved := filepath.Join(t.TempDir(), "prefixes")
	write(t, SavedTemporary(saved), make([]byte, 1<<20))
	m := keeper(t, testmodel.Write(t, noisy()), saved)
	tokensOf(t, m, tokenRequest(1, 60))
	wantSaved(t, m, "over a leftover", 60)
	list, err := os.ReadDir(filepath.Dir(saved))
	if err != nil || len(list) != 1 || list[0].Name() != "prefixes" {
		t.Errorf("%v, %v: want the file alone", list, err)
	}
	if fi, err := list[0].Info(); err != nil || fi.Size() >= 1<<20 {
		t.Errorf("%d bytes, %v: the leftover is still behind it", fi.Size(), err)
	}
}

// endsAfter is a context that ends at the n-th look.
type endsAfter struct {
	context.Context
	n   int
	err error
}

func (c *endsAfter) Err() error {
	if c.n--; c.n < 0 {
		return c.err
	}
	return nil
}

// When the time is up the file ends with what was used last, or stays what it was;
// whatever happens, nothing lies beside it, and what is there can be used.
func TestSavingEnds(t *testing.T) {
	c := noisy()
	c.MaxSeq = 1024
	model, dir := testmodel.Write(t, c), t.TempDir()
	saved := filepath.Join(dir, "prefixes")
	m := keeper(t, model, saved)
	tokensOf(t, m, tokenRequest(1, 600))
	wantSaved(t, m, "the first", 600)
	before := readFile(t, saved)
	tokensOf(t, m, tokenRequest(2, 600))

	ended := map[int]bool{}
	for _, kind := range []error{context.Canceled, context.DeadlineExceeded} {
		for looks, whole := 0, false; !whole; looks++ {
			if looks == 100 {
				t.Fatal("saving has not ended")
			}
			// As it was before.
			write(t, saved, before)
			settle(t, m)
			for _, k := range m.sched.tree.all {
				k.saved = oldest(k).labels[0] == 1
			}
			n, err := m.SaveCache(&endsAfter{context.Background(), looks, kind})
			whole = n == 1200
			list, derr := os.ReadDir(dir)
			if derr != nil || len(list) != 1 {
				t.Fatalf("%v after %d looks: %v, %v", kind, looks, list, derr)
			}
			if err == nil {
				ended[n] = true
				restored, lerr := Load(model, Options{Threads: 1, CacheBytes: 16 << 20, Saved: Saved{Path: saved, Key: "one"}})
				if lerr != nil {
					t.Fatal(lerr)
				}
				if i := restored.Info(); i.Restored != n || i.RestoreErr != "" {
					t.Errorf("%v after %d looks: %d of %d restored, %q", kind, looks, i.Restored, n, i.RestoreErr)
				}
				res, err := restored.Generate(context.Background(), tokenRequest(2, 600), nil)
				if err != nil || res.Usage.Cached != min(n, 599) {
					t.Errorf("%v after %d looks: %+v, %v; want %d cached", kind, looks, res, err, min(n, 599))
				}
				if err := restored.Close(); err != nil {
					t.Error(err)
				}
			} else if !errors.Is(err, kind) || !slices.Equal(readFile(t, saved), before) {
				t.Errorf("%v after %d looks: %v, and the file has %d bytes of %d", kind, looks, err, len(readFile(t, saved)), len(before))
			}
		}
	}
	if !ended[256] || !ended[512] || !ended[1200] {
		t.Errorf("ended after %v tokens: want some after each record of what was used last", ended)
	}
}

// oldest is the first node that one stands on.
func oldest(n *node) *node {
	for n.parent.parent != nil {
		n = n.parent
	}
	return n
}
