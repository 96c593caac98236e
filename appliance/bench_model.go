// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"windhover/engine"
	"windhover/vqf"
)

// BenchModel says what the token rates were measured on.
type BenchModel struct {
	Path      string        `json:"path"` // of made-up weights, which are gone: the shape's name
	Made      bool          `json:"made_up"`
	Mode      string        `json:"mode"`      // copies in the file
	Residency string        `json:"residency"` // how the weights are held, as engine.Options
	KV        string        `json:"kv"`        // type of the KV cache
	Families  []BenchFamily `json:"families"`
	LoadMS    int64         `json:"load_ms"`
}

// BenchFamily is one copy of the weights in a file.
type BenchFamily struct {
	Family  string `json:"family"` // "q8" or "q4"
	Layout  string `json:"layout"`
	Weights int64  `json:"weight_bytes"` // read for each token
}

// model measures token rates on the given file, or on one that is made.
func (b *bench) model(ctx context.Context) error {
	path := b.opt.Model
	if b.made != nil {
		if err := b.made.write(ctx, b.doing); err != nil {
			return err
		}
		path = b.made.path()
	}
	families, err := b.describe(path)
	if err != nil {
		return err
	}
	reset := resetPeakMemory()
	if err := b.firstToken(ctx, path, families[0]); err != nil {
		return err
	}
	for _, family := range families {
		for i, n := range b.opt.Threads {
			if err := b.modelThreads(ctx, path, family, n, i == 0); err != nil {
				return err
			}
		}
	}
	b.report.BenchMemory.finish(reset)
	return b.sayMemory()
}

// describe looks at the file and returns the families that can compute, with the
// bytes of each.
func (b *bench) describe(path string) ([]BenchFamily, error) {
	f, err := vqf.Open(path, vqf.OpenOptions{})
	switch {
	case errors.Is(err, vqf.ErrKey):
		return nil, fmt.Errorf("bench: %s: %w, and bench takes none: make a plain file first (windhover decrypt)", path, vqf.ErrKey)
	case err != nil:
		return nil, notConverted(path, err)
	}
	d := &BenchModel{Path: path, Mode: fileMode(f), KV: b.opt.KV}
	if d.KV == "" {
		d.KV = "f16"
	}
	if b.opt.Model == "" {
		d.Path, d.Made = b.name(), true
	}
	for _, family := range []string{"q8", "q4"} {
		if family == "q8" && !f.HasQ8() || family == "q4" && !f.HasQ4() {
			continue
		}
		need, err := engine.Estimate(path, engine.Options{Family: family, KV: b.opt.KV, Context: 1})
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		d.Families = append(d.Families, BenchFamily{Family: family, Weights: need.Touched})
		b.kvPerToken = need.KVPerToken
	}
	b.report.Model = d
	return d.Families, f.Close()
}

// options load the model for prompts and contexts of up to the given tokens.
func (b *bench) options(family string, threads, tokens int) engine.Options {
	// A page for each request at once, beside the longest text.
	cache := b.kvPerToken * int64(tokens+benchTokensMost+b.opt.Tokens+(engine.MaxSequences+1)*512)
	return engine.Options{
		CacheBytes: cache, Threads: threads, Pin: true, Family: family, KV: b.opt.KV, NoTokenizer: true,
		Context: tokens + benchTokensMost + b.opt.Tokens + 1, MemoryLimit: readMemory(os.DirFS("/")).budget(),
	}
}

// benchLongest bounds each number of tokens, as the engine bounds what they sum up to.
const benchLongest = 1 << 20

// longest is how many tokens are computed at most before others are generated.
func (b *bench) longest() int { return slices.Max(append(b.contexts(), b.prompts()...)) }

// runs loads a given model as it will be loaded when the machine and the kernels are
// measured, for the longest text and with most threads, by each copy of its weights:
// what cannot run is refused before that takes minutes.
func (b *bench) runs(path string) error {
	families, err := b.describe(path)
	if err != nil {
		return err
	}
	for _, family := range families {
		m, err := b.load(path, family.Family, slices.Max(b.opt.Threads))
		var short *engine.MemoryError
		switch {
		case errors.As(err, &short):
			return fmt.Errorf("bench: %s needs %d MB for %d tokens, and %d MB are free: choose shorter texts, --kv int8 or a smaller model: %w",
				path, short.Need.Total()/1e6, short.Need.Context, short.Limit/1e6, engine.ErrMemory)
		case err != nil:
			return err
		}
		if err := m.Close(); err != nil {
			return err
		}
	}
	return nil
}

// load loads the model for the longest text.
func (b *bench) load(path, family string, n int) (*engine.Model, error) {
	m, err := engine.Load(path, b.options(family, n, b.longest()))
	if err != nil {
		return nil, err
	}
	if got := m.Info().Threads; got != n {
		_ = m.Close() // the first error tells more
		return nil, fmt.Errorf("bench: %d threads: the engine uses %d: the CPU quota or affinity of this process is smaller", n, got)
	}
	return m, nil
}

// fits refuses made-up weights that would not stay in memory as a whole.
func (b *bench) fits(path string) error {
	opt := b.options("", b.opt.Threads[0], b.longest())
	opt.Residency = engine.ResidencyFull
	_, err := engine.Estimate(path, opt)
	var short *engine.MemoryError
	if errors.As(err, &short) {
		return fmt.Errorf("bench: %s needs %d MB of memory for %d tokens, %d MB of it for the weights, and %d MB are free: choose a smaller --shape, fewer --layers, --mode q4 or shorter texts",
			b.name(), short.Need.Total()/1e6, opt.Context, short.Need.Weights/1e6, short.Limit/1e6)
	}
	return err
}

// modelThreads measures one copy of the weights with n threads.
func (b *bench) modelThreads(ctx context.Context, path string, family BenchFamily, n int, first bool) (err error) {
	b.doing("loading the model, %s", threads(n))
	m, err := b.load(path, family.Family, n)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	info, d := m.Info(), b.report.Model
	if first {
		i := slices.IndexFunc(d.Families, func(f BenchFamily) bool { return f.Family == family.Family })
		d.Families[i].Layout, d.LoadMS, d.Residency = info.Layout, info.LoadTime.Milliseconds(), info.Need.Residency
		b.sayTokens(family, info)
	}
	r := runner{bench: b, m: m, info: info, weights: family.Weights}
	if err := r.run(ctx); err != nil {
		return err
	}
	if n == slices.Max(b.opt.Threads) {
		if err := r.together(ctx); err != nil {
			return err
		}
	}
	b.report.BenchMemory.note()
	return nil
}

// fileMode is which copies of the weights a file holds.
func fileMode(f *vqf.File) string {
	flags := f.Flags()
	switch {
	case f.HasQ8() && f.HasQ4():
		return string(vqf.ModeDual)
	case flags&vqf.FlagQ8BufQ4 != 0:
		return string(vqf.ModeQ4I)
	case flags&vqf.FlagG256 != 0:
		return string(vqf.ModeG256)
	case f.HasQ8():
		return string(vqf.ModeQ8)
	default:
		return string(vqf.ModeQ4)
	}
}
