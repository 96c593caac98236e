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
	"sync/atomic"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"windhover/internal/testmodel"
	"windhover/vqf"
)

// fewOfMany is a noisy mixture of experts whose matrices end within pages of the file.
func fewOfMany() testmodel.Config {
	c := noisy()
	c.Experts, c.TopK, c.FFN = 12, 3, 96
	c.Layers, c.Vocab = 4, 8*100
	return c
}

// The same bits of a mixture in every residency, of a plain and of an encrypted
// file, with room for all experts and for the least, for chunks that use a few and
// all of them.
func TestExpertsGiveTheSameBits(t *testing.T) {
	for _, layout := range []struct {
		name string
		edit func(*testmodel.Config)
	}{{"tiled", func(*testmodel.Config) {}}, {"rows", func(c *testmodel.Config) { c.Q8, c.Q4 = vqf.LayoutRow, vqf.LayoutRow }}} {
		c := fewOfMany()
		layout.edit(&c)
		path := testmodel.Write(t, c)
		closed := sealed(t, path, secret)
		tokens := noise(40)
		chunks := []int{7, 1, 0}
		if testing.Short() { // minutes under emulation
			chunks = chunks[:1]
		}
		for _, family := range []string{"q8", "q4"} {
			base := Options{Family: family, Threads: 1, Context: 64}
			want := logitsOf(t, load(t, path, base), tokens, 0)
			for name, enc := range map[string]bool{"plain": false, "encrypted": true} {
				for _, residency := range []string{ResidencyFull, ResidencyExperts, ResidencyLayered} {
					opt, file := base, path
					if enc {
						file, opt = closed, withKey(t, opt)
					}
					opt.Residency = residency
					for _, limit := range []int64{0, least(t, file, opt), (least(t, file, opt) + 1<<20)} {
						opt.MemoryLimit = limit
						m := load(t, file, opt)
						need := m.Info().Need
						if need.Residency != residency || limit > 0 && need.Total() > limit {
							t.Errorf("%s, %s under %d: need %+v", name, residency, limit, need)
						}
						for _, chunk := range chunks {
							what := fmt.Sprintf("%s, %s, %s, %s, limit %d (%d experts), chunk %d", layout.name, family, name, residency, limit, need.Experts, chunk)
							sameBits(t, what, logitsOf(t, m, tokens, chunk), want)
						}
					}
				}
			}
		}
	}
}

// least is the smallest limit that the options fit.
func least(t *testing.T, path string, opt Options) int64 {
	t.Helper()
	opt.MemoryLimit = 1
	var lack *MemoryError
	if _, err := Estimate(path, opt); !errors.As(err, &lack) {
		t.Fatalf("with a byte of memory: %v", err)
	}
	return lack.Need.Total()
}

// So does a real conversion, whose tokens the goldens tell.
func TestGoldenMixtureInEachResidency(t *testing.T) {
	path := filepath.Join("testdata", "qwen3moe-tiny", "model.vqf")
	closed := sealed(t, path, secret)
	tokens := noise(40)
	base := Options{Threads: 1, Context: 64, NoTokenizer: true}
	want := logitsOf(t, load(t, path, base), tokens, 0)
	for _, residency := range []string{ResidencyFull, ResidencyExperts, ResidencyLayered} {
		opt := base
		opt.Residency = residency
		sameBits(t, residency, logitsOf(t, load(t, path, opt), tokens, 9), want)
		sameBits(t, residency+", encrypted", logitsOf(t, load(t, closed, withKey(t, opt)), tokens, 9), want)
	}
}

// A mixture of eighty megabytes computes with a quarter of it in memory at most, as
// admission said, also where a chunk asks for every expert.
func TestExpertsHoldLittle(t *testing.T) {
	c := fewOfMany()
	c.Mode, c.Layers, c.Experts, c.Dim, c.FFN = vqf.ModeQ8, 6, 64, 256, 256
	path := testmodel.Write(t, c)
	whole, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	opt := Options{Context: 256, Threads: 1, Residency: ResidencyExperts}
	opt.MemoryLimit = least(t, path, opt) + 4<<20
	m := load(t, path, opt)
	need := m.Info().Need
	before, most := resident(t, "RssFile"), int64(0)
	m.st.trace = func(int, []float32) {
		most = max(most, resident(t, "RssFile")-before+inCore(t, m.w.res.(*streamed).mixture.mem))
	}
	logitsOf(t, m, noise(256), 64)
	t.Logf("%d kB of %d kB resident, need %+v", most>>10, whole.Size()>>10, need)
	if most < need.Private/2 || most > need.Weights+8<<20 || need.Weights > whole.Size()/4 {
		t.Errorf("%d bytes resident, want about %d, of a file of %d", most, need.Weights, whole.Size())
	}
}

// inCore is how many bytes of memory of our own are there.
func inCore(t *testing.T, mem []byte) (n int64) {
	t.Helper()
	page := os.Getpagesize()
	pages := make([]byte, (len(mem)+page-1)/page)
	if _, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&mem[0])), uintptr(len(mem)), uintptr(unsafe.Pointer(&pages[0]))); errno != 0 {
		t.Fatal(errno)
	}
	for _, p := range pages {
		n += int64(p&1) * int64(page)
	}
	return n
}

// Under each limit from the least on, a mixture takes what fits, by itself: all, or as
// many experts as there is room for, or layers too; below the least it is refused.
func TestExpertsByLimit(t *testing.T) {
	c := fewOfMany()
	c.Mode, c.Layers, c.Experts, c.Dim = vqf.ModeQ8, 6, 32, 256
	path := testmodel.Write(t, c)
	req := Request{Tokens: noise(20), MaxTokens: 6, IgnoreEOS: true, Raw: true}
	opt := Options{Context: 64, Threads: 1}
	want := tokensOf(t, load(t, path, opt), req)
	full, err := Estimate(path, opt)
	if err != nil || full.Residency != ResidencyFull || full.Experts != 0 || full.Why() != "all weights fit" {
		t.Fatalf("without a limit: %+v, %v", full, err)
	}
	whole := full.Total() - full.Private // what full residency takes at least: no copies of down
	low := least(t, path, opt)
	opt.MemoryLimit = low - 1
	var lack *MemoryError
	if _, err := Load(path, opt); !errors.As(err, &lack) || lack.Need.Total() != low || lack.Full != whole {
		t.Errorf("a byte below the least: %v", err)
	}
	seen := map[string]int{}
	for limit := low; limit <= full.Total(); limit += max((full.Total()-low)/30, 1) {
		opt.MemoryLimit = limit
		m := load(t, path, opt)
		need := m.Info().Need
		seen[need.Residency] = max(seen[need.Residency], need.Experts)
		if need.Total() > limit || need.Residency != ResidencyFull && need.Full != whole {
			t.Errorf("limit %d: need %+v", limit, need)
		}
		if got := tokensOf(t, m, req); !slices.Equal(got, want) {
			t.Errorf("limit %d, %+v: tokens %v, want %v", limit, need, got, want)
		}
	}
	t.Logf("most experts by residency: %v", seen)
	if len(seen) < 2 || seen[ResidencyExperts] <= 2*c.TopK {
		t.Errorf("only these were tried: %v", seen)
	}
	opt.Residency = ResidencyExperts
	if _, err := Estimate(testmodel.Write(t, noisy()), opt); !errors.Is(err, ErrRequest) {
		t.Errorf("of a dense model: %v", err)
	}
}

// Decoding reads of a mixture what its chosen experts take, and allocates nothing.
func TestExpertsReadLittle(t *testing.T) {
	c := fewOfMany()
	c.Mode, c.Dim, c.FFN, c.Experts = vqf.ModeQ8, 512, 256, 16
	path := testmodel.Write(t, c)
	opt := Options{Context: 64, Threads: 1, Residency: ResidencyExperts}
	opt.MemoryLimit = least(t, path, opt)
	m := load(t, path, opt)
	x := m.w.res.(*streamed).mixture
	one := Request{Tokens: noise(9), MaxTokens: 1, IgnoreEOS: true, Raw: true}
	tokensOf(t, m, one)
	before := m.w.res.read()
	tokensOf(t, m, one) // all but the last token of the prompt is in the cache
	got := m.w.res.read() - before
	each := x.downAt + int64(x.down.groups)*(x.groupBytes(c.TopK)/int64(c.TopK))
	if most := int64(c.Layers*c.TopK) * each; got == 0 || got > most {
		t.Errorf("%d bytes read for a token, want at most %d", got, most)
	}
	ids := [][]int32{{0, 5, 9}, {1, 6, 10}, {2, 5, 15}}
	n := 0
	if allocs := testing.AllocsPerRun(20, func() {
		n++
		if _, err := x.take(n%c.Layers, ids[n%len(ids)], nil); err != nil {
			t.Fatal(err)
		}
	}); allocs != 0 {
		t.Errorf("%v allocations a layer, want 0", allocs)
	}
}

// An expert that cannot be read, or is read for a request that is cancelled, fails
// the request; the next one computes as if nothing had been.
func TestExpertsReadErrors(t *testing.T) {
	c := fewOfMany()
	c.Mode = vqf.ModeQ8
	path := testmodel.Write(t, c)
	opt := Options{Context: 64, Threads: 1}
	want := tokensOf(t, load(t, path, opt), short)
	opt.Residency = ResidencyExperts
	opt.MemoryLimit = least(t, path, opt)
	m := load(t, path, opt)
	x := m.w.res.(*streamed).mixture
	good := x.pages
	bad, err := m.file.Pages()
	if err != nil {
		t.Fatal(err)
	}
	if err := bad.Close(); err != nil {
		t.Fatal(err)
	}
	from := func(p *vqf.Pages) {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.wait()
		x.pages = p
	}
	from(bad)
	if _, err := m.Generate(context.Background(), short, nil); !errors.Is(err, os.ErrClosed) || !strings.Contains(err.Error(), "experts of layer 0") {
		t.Errorf("%v, want the file's error and a place", err)
	}
	from(good)
	if got := tokensOf(t, m, short); !slices.Equal(got, want) {
		t.Errorf("tokens %v, want %v", got, want)
	}
	var stop atomic.Bool
	stop.Store(true)
	if _, err := x.take(1, []int32{0, 1, 2}, &stop); !errors.Is(err, errStopped) {
		t.Errorf("stopped: %v", err)
	}
	if got := tokensOf(t, m, short); !slices.Equal(got, want) {
		t.Errorf("after a stop: tokens %v, want %v", got, want)
	}
	if err := os.Truncate(path, m.file.Size()-4096); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Generate(context.Background(), Request{Tokens: noise(30)}, nil); !errors.Is(err, ErrChanged) {
		t.Errorf("cut short: %v, want %v", err, ErrChanged)
	}
}
