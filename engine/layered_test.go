// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"windhover/internal/testmodel"
	"windhover/vqf"
)

// tall is a model whose layers are larger than the pages that they begin and end in,
// and do not end with them.
func tall() testmodel.Config {
	c := noisy()
	c.Mode, c.Layers, c.Dim, c.FFN, c.Vocab = vqf.ModeQ8, 9, 256, 480, 8*200
	return c
}

// Under each limit from the least on, a plain model keeps what fits, reads the rest
// for each pass, and that once, and gives the same tokens.
func TestLayeredByLimit(t *testing.T) {
	path := testmodel.Write(t, tall())
	opt := Options{Context: 64, Threads: 1}
	want := tokensOf(t, load(t, path, opt), short)
	full, err := Estimate(path, opt)
	if err != nil {
		t.Fatal(err)
	}
	low := least(t, path, opt)
	seen := map[string]bool{}
	for limit := low; limit <= full.Total(); limit += max((full.Total()-low)/16, 1) {
		opt.MemoryLimit = limit
		m := load(t, path, opt)
		need := m.Info().Need
		if got := tokensOf(t, m, short); !slices.Equal(got, want) {
			t.Errorf("limit %d, %+v: tokens %v, want %v", limit, need, got, want)
		}
		s, ok := m.w.res.(*streamed)
		if !ok {
			seen[need.Residency] = true
			continue
		}
		seen[fmt.Sprintf("%d of head %d", need.Kept, len(s.cuts))] = true
		if need.Total() > limit || int64(len(s.mem)) > need.Private {
			t.Errorf("limit %d: need %+v, %d bytes taken", limit, need, len(s.mem))
		}
		calm(s)
		before := s.read()
		tokensOf(t, m, Request{Tokens: noise(9), MaxTokens: 1, IgnoreEOS: true, Raw: true}) // a pass for the last token
		calm(s)
		once := int64(0)
		for _, u := range s.order {
			if u >= len(s.layers) {
				once += pagesOf(s.part(u))
				continue
			}
			for i := range s.shape.mats {
				once += pagesOf(s.shape.mats[i].of(u))
			}
		}
		if got := s.read() - before; got != once {
			t.Errorf("limit %d: %d bytes read for a pass, want %d", limit, got, once)
		}
	}
	t.Logf("kept: %v", seen)
	if len(seen) < 6 {
		t.Errorf("only these were tried: %v", seen)
	}
}

// pagesOf is the size of the pages that a region lies in.
func pagesOf(r region) int64 {
	return roundUp(r.shift(vqf.PageAlign)+r.n, vqf.PageAlign)
}

// calm waits until nothing is being read.
func calm(s *streamed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.job != nil {
		s.arrived.Wait()
	}
}

// A plain model that is read layer by layer moves onto a copy of its file as others
// do, with its experts where it has some, and says so when the copy is cut short.
func TestLayeredRebase(t *testing.T) {
	for name, c := range map[string]testmodel.Config{"dense": tall(), "mixture": fewOfMany()} {
		path := filepath.Join(t.TempDir(), "first.vqf")
		if err := os.WriteFile(path, readFile(t, testmodel.Write(t, c)), 0o600); err != nil {
			t.Fatal(err)
		}
		opt := Options{Context: 64, Threads: 1, Residency: ResidencyLayered}
		opt.MemoryLimit = least(t, path, opt)
		m := load(t, path, opt)
		want := tokensOf(t, m, short)
		copied := moveOff(t, m, path)
		req := short
		req.Tokens = slices.Concat([]int32{9}, short.Tokens) // nothing of it is cached
		tokensOf(t, m, req)
		if got := tokensOf(t, m, short); !slices.Equal(got, want) {
			t.Errorf("%s: tokens %v, want %v", name, got, want)
		}
		if err := os.Truncate(copied, 4096); err != nil {
			t.Fatal(err)
		}
		_, err := m.Generate(context.Background(), Request{Tokens: noise(3)}, nil)
		if !errors.Is(err, ErrChanged) && (!errors.Is(err, vqf.ErrFormat) || !strings.Contains(err.Error(), "cut short")) {
			t.Errorf("%s: with the file cut short: %v", name, err)
		}
	}
}

// Decoding a plain model layer by layer allocates nothing.
func TestLayeredAllocates(t *testing.T) {
	path := testmodel.Write(t, tall())
	m := load(t, path, Options{Context: 64, Threads: 1, Residency: ResidencyLayered})
	s := m.w.res.(*streamed)
	for l := range s.layers {
		if _, err := s.layer(l, nil); err != nil {
			t.Fatal(err)
		}
	}
	l := 0
	if got := testing.AllocsPerRun(50, func() {
		if _, err := s.layer(l%len(s.layers), nil); err != nil {
			t.Fatal(err)
		}
		l++
	}); got != 0 {
		t.Errorf("%v allocations a layer, want 0", got)
	}
}
