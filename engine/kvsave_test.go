// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"windhover/internal/testmodel"
	"windhover/kernels"
)

// talk is a conversation that is saved, and the request that goes on with it.
type talk struct {
	model, saved string
	next         Request
	want         []int32 // what next gives
	cached       int     // of next
}

func newTalk(t *testing.T, opt Options) *talk {
	t.Helper()
	c := noisy()
	c.MaxSeq = 1024
	k := &talk{model: testmodel.Write(t, c), saved: filepath.Join(t.TempDir(), "prefixes")}
	opt.Saved = Saved{Path: k.saved, Key: "one"}
	m, err := Load(k.model, opt)
	if err != nil {
		t.Fatal(err)
	}
	if m.info.Restored != 0 || m.info.RestoreErr != "" {
		t.Errorf("restored %d of nothing, %q", m.info.Restored, m.info.RestoreErr)
	}
	req := Request{Tokens: noise(600), MaxTokens: 20, IgnoreEOS: true, Raw: true}
	said := tokensOf(t, m, req)
	saveAndClose(t, m, 619)
	k.cached = 619
	k.next = req
	k.next.Tokens = append(append(slices.Clone(req.Tokens), said...), noise(30)...)
	opt.Saved = Saved{}
	k.want = tokensOf(t, load(t, k.model, opt), k.next)
	return k
}

// saveAndClose does that, and holds how many tokens are written.
func saveAndClose(t *testing.T, m *Model, want int) {
	t.Helper()
	if n, err := m.SaveCache(context.Background()); err != nil || n != want {
		t.Errorf("%d tokens saved, %v; want %d", n, err, want)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}

// goOn loads the model again and goes on with the conversation.
func (k *talk) goOn(t *testing.T, opt Options, cached int, why string) {
	t.Helper()
	if opt.Saved.Path == "" {
		opt.Saved = Saved{Path: k.saved, Key: "one"}
	}
	m, err := Load(k.model, opt)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	res, err := m.Generate(context.Background(), k.next, nil)
	if err != nil {
		t.Fatal(err)
	}
	if res.Usage.Cached != cached || m.info.Restored != cached {
		t.Errorf("%d cached, %d restored, want %d", res.Usage.Cached, m.info.Restored, cached)
	}
	if (why == "") != (m.info.RestoreErr == "") || !strings.Contains(m.info.RestoreErr, why) {
		t.Errorf("said %q, want %q", m.info.RestoreErr, why)
	}
	if opt.KV == "" && opt.Family == "" && !slices.Equal(res.Tokens, k.want) {
		t.Errorf("tokens %v, want %v", res.Tokens, k.want)
	}
}

func TestSavedPrefixes(t *testing.T) {
	for _, kv := range []string{"f16", "int8"} {
		k := newTalk(t, Options{KV: kv})
		m, err := Load(k.model, Options{KV: kv, Saved: Saved{Path: k.saved, Key: "one"}})
		if err != nil {
			t.Fatal(err)
		}
		res, err := m.Generate(context.Background(), k.next, nil)
		if err != nil || res.Usage.Cached != k.cached || m.info.Restored != k.cached || !slices.Equal(res.Tokens, k.want) {
			t.Errorf("%s: %+v, %v, restored %d; want %d cached and %v", kv, res, err, m.info.Restored, k.cached, k.want)
		}
		saveAndClose(t, m, len(k.next.Tokens)+19)
		list, err := os.ReadDir(filepath.Dir(k.saved))
		if err != nil || len(list) != 1 {
			t.Errorf("%d files beside the model's, %v", len(list), err)
		}
	}
}

// What was saved under anything else is not used, and said.
func TestSavedByAnother(t *testing.T) {
	k := newTalk(t, Options{})
	other := errOtherModel.Error()
	k.goOn(t, Options{}, k.cached, "")
	k.goOn(t, Options{Saved: Saved{Path: k.saved, Key: "two"}}, 0, other)
	k.goOn(t, Options{KV: "int8"}, 0, other)
	k.goOn(t, Options{Family: "q8"}, 0, other)
	k.goOn(t, Options{Saved: Saved{Path: filepath.Dir(k.saved), Key: "one"}}, 0, "not a regular file")
	k.goOn(t, Options{Context: 700}, k.cached, "")
	// Less room: what fits.
	k.goOn(t, Options{Context: 700, Chunk: 3, Threads: 1}, k.cached, "")
}

// Every byte is covered; what comes before the damage is good.
func TestSavedDamaged(t *testing.T) {
	k := newTalk(t, Options{})
	whole := readFile(t, k.saved)
	head := len(savedMagic) + 32
	page := (len(whole) - head) / 3 // about: the last is shorter
	for _, c := range []struct {
		at, cached int
		why        string
	}{
		{0, 0, "another"}, {20, 0, "another"}, {head, 0, "stands on"}, {head + 4, 0, "record 0"}, {head + 10, 0, "checksum"},
		{head + 2000, 0, "checksum"}, {head + page*3/2, 256, "checksum"}, {len(whole) - 1, 512, "checksum"},
	} {
		damaged := slices.Clone(whole)
		damaged[c.at] ^= 0x40
		write(t, k.saved, damaged)
		k.goOn(t, Options{}, c.cached, c.why)
	}
	for _, n := range []int{0, 10, head, head + 3, head + 1000, head + page*3/2, len(whole) - 1} {
		write(t, k.saved, whole[:n])
		why, cached := "cut short", 0
		if n == head {
			why = ""
		}
		switch {
		case n > head+page*2:
			cached = 512
		case n > head+page:
			cached = 256
		}
		k.goOn(t, Options{}, cached, why)
	}
	write(t, k.saved, append(slices.Clone(whole), 1))
	k.goOn(t, Options{}, k.cached, "cut short")
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A file is no larger than asked for and has what was used last, with what that
// stands on; pictures are left out.
func TestSavedIsBounded(t *testing.T) {
	f := newFakePages(t, 16)
	for _, text := range [][]int32{labelsOf(1, 600), labelsOf(2, 600), append(labelsOf(3, 300), -5, 7)} {
		q := f.begin(text)
		f.compute(q, text)
		f.tree.end(q)
	}
	f.tree.end(f.begin(labelsOf(1, 600))) // used last
	record := f.tree.recordBytes(&node{parent: &node{parent: &node{}}, labels: make([]int32, kernels.AttnBlock)})
	for _, c := range []struct {
		most int64
		want []int // positions of each text that are found again
	}{{1 << 30, []int{600, 600, 256}}, {record, []int{0, 0, 0}}, {3*record + 40, []int{600, 0, 0}}, {5*record + 40, []int{600, 512, 0}}, {2*record + 100, []int{0, 512, 0}}} {
		var file bytes.Buffer
		list := f.tree.worth(c.most)
		n, size, err := f.tree.write(context.Background(), &file, [32]byte{1}, list)
		if err != nil || n != len(list) || size != int64(file.Len()) {
			t.Fatalf("%d of %d nodes, %d of %d bytes: %v", n, len(list), size, file.Len(), err)
		}
		if int64(file.Len()) > c.most {
			t.Errorf("%d bytes, at most %d", file.Len(), c.most)
		}
		g := newFakePages(t, 16)
		if err := g.tree.read(&file, [32]byte{1}); err != nil {
			t.Errorf("at most %d: %v", c.most, err)
		}
		var got []int
		for i := range 3 {
			q := g.begin(labelsOf(i+1, 600))
			got = append(got, q.len())
			g.tree.end(q)
		}
		if c.most == 1<<30 && !slices.Equal(got, c.want) || got[0]+got[1]+got[2] > c.want[0]+c.want[1]+c.want[2]+256 {
			t.Errorf("at most %d: %v found, want %v", c.most, got, c.want)
		}
		g.account()
	}
}

// Where there is no room for all, what was used last is there.
func TestSavedIntoLess(t *testing.T) {
	f := newFakePages(t, 16)
	for i := range 4 {
		f.know(labelsOf(i, 512))
	}
	f.tree.end(f.begin(labelsOf(1, 512)))
	var file bytes.Buffer
	if _, _, err := f.tree.write(context.Background(), &file, [32]byte{}, f.tree.worth(1<<30)); err != nil {
		t.Fatal(err)
	}
	g := newFakePages(t, 3)
	if err := g.tree.read(&file, [32]byte{}); err != nil {
		t.Error(err)
	}
	if q := g.begin(labelsOf(1, 512)); q.len() != 512 {
		t.Errorf("%d of what was used last", q.len())
	}
	// And goes last as well.
	if g.tree.evict(); g.tree.evict() {
		t.Error("what is in use was evicted")
	}
}

func TestSavingFails(t *testing.T) {
	m, err := Load(testmodel.Write(t, noisy()), Options{Saved: Saved{Path: filepath.Join(t.TempDir(), "none", "prefixes")}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.SaveCache(context.Background()); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("saved into no directory: %v", err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if _, err := m.SaveCache(context.Background()); !errors.Is(err, ErrClosed) {
		t.Errorf("saved what is closed: %v", err)
	}
}

func FuzzSavedPrefixes(f *testing.F) {
	make := func(t testing.TB) (*pagePool, *prefixTree) {
		pool, err := newPagePool(&Config{Layers: 1, Heads: 1, KVHeads: 1, HeadDim: 2}, 4, kvKind{wide: true})
		if err != nil {
			t.Fatal(err)
		}
		return pool, newPrefixTree(pool)
	}
	pool, tree := make(f)
	q := newSequence(pool, 400)
	q.grow(400)
	q.computed(labelsOf(0, 400))
	tree.end(q)
	var file bytes.Buffer
	if _, _, err := tree.write(context.Background(), &file, [32]byte{}, tree.worth(1<<20)); err != nil {
		f.Fatal(err)
	}
	if err := pool.close(); err != nil {
		f.Fatal(err)
	}
	f.Add(file.Bytes())
	f.Add(file.Bytes()[:60])
	f.Add(binary.LittleEndian.AppendUint64(slices.Clone(file.Bytes()[:40]), 1<<63))
	f.Fuzz(func(t *testing.T, data []byte) {
		pool, tree := make(t)
		defer pool.close()
		err := tree.read(bytes.NewReader(data), [32]byte{})
		for _, n := range tree.all {
			if len(n.labels) < 1 || len(n.labels) > kernels.AttnBlock || n.page.fill < len(n.labels) || n.page.refs != 1 {
				t.Errorf("a node of %d labels, page %+v", len(n.labels), n.page.fill)
			}
		}
		if pool.inUse() != len(tree.all) {
			t.Errorf("%d pages in use by %d nodes, %v", pool.inUse(), len(tree.all), err)
		}
	})
}
