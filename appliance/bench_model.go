// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"windhover/engine"
	"windhover/vqf"
)

// BenchModel says what the token rates were measured on.
type BenchModel struct {
	Path     string        `json:"path"` // of made-up weights, which are gone: the shape's name
	Made     bool          `json:"made_up"`
	Mode     string        `json:"mode"` // copies in the file
	Families []BenchFamily `json:"families"`
	LoadMS   int64         `json:"load_ms"`
}

// BenchFamily is one copy of the weights in a file.
type BenchFamily struct {
	Family  string `json:"family"` // "q8" or "q4"
	Layout  string `json:"layout"`
	Weights int64  `json:"weight_bytes"` // read for each token
}

// DecodeSpeed is how fast tokens are generated one by one behind a context.
type DecodeSpeed struct {
	Mode    string  `json:"mode"` // "q8" or "q4"
	Threads int     `json:"threads"`
	Context int     `json:"context"`
	TokS    float64 `json:"tok_s"`
	GBs     float64 `json:"weight_gb_s"`
	OfRead  float64 `json:"of_read"` // GBs as a part of the read loop's
	Tokens  int     `json:"tokens"`
}

// PrefillSpeed is how fast a prompt is computed.
type PrefillSpeed struct {
	Mode    string  `json:"mode"`
	Threads int     `json:"threads"`
	Tokens  int     `json:"tokens"`
	TokS    float64 `json:"tok_s"`
	GOPS    float64 `json:"gops"` // of the weight matrices
}

const (
	benchPrompt      = 512
	benchPromptQuick = 128
	// About how long a decoding is measured, in tokens of the speed that a first
	// short one shows.
	benchDecode      = 2 * time.Second
	benchDecodeQuick = 300 * time.Millisecond
	benchTokensMost  = 128
)

// model measures token rates on the given file, or on one that is made.
func (b *bench) model(ctx context.Context) error {
	path := b.opt.Model
	if path == "" {
		dir, err := b.tempDir()
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }() // nothing of value is in it
		if path, err = b.makeModel(ctx, dir); err != nil {
			return err
		}
	}
	families, err := b.describe(path)
	if err != nil {
		return err
	}
	for _, family := range families {
		for _, n := range b.opt.Threads {
			if err := b.modelThreads(ctx, path, family, n); err != nil {
				return err
			}
		}
	}
	b.report.RSSMB, b.report.AnonMB = round1(b.report.RSSMB), round1(b.report.AnonMB)
	b.say("memory   %.0f MB resident with the model loaded, %.0f MB of it not the mapped file", b.report.RSSMB, b.report.AnonMB)
	return nil
}

// describe looks at the file and returns the families that can compute, with the
// bytes of each.
func (b *bench) describe(path string) ([]BenchFamily, error) {
	f, err := vqf.Open(path, vqf.OpenOptions{})
	if err != nil {
		return nil, notConverted(path, err)
	}
	d := &BenchModel{Path: path, Mode: fileMode(f)}
	if b.opt.Model == "" {
		d.Path, d.Made = b.shape(), true
	}
	for _, family := range []string{"q8", "q4"} {
		if family == "q8" && !f.HasQ8() || family == "q4" && !f.HasQ4() {
			continue
		}
		one := BenchFamily{Family: family}
		for _, t := range f.Tensors() {
			if strings.HasPrefix(t.Name, family+"_") {
				one.Weights += int64(t.Bytes)
			}
		}
		d.Families = append(d.Families, one)
	}
	b.report.Model = d
	return d.Families, f.Close()
}

func (b *bench) modelThreads(ctx context.Context, path string, family BenchFamily, n int) (err error) {
	prompt := b.promptTokens()
	longest := prompt
	for _, c := range b.contexts() {
		longest = max(longest, c)
	}
	m, err := engine.Load(path, engine.Options{Threads: n, Pin: true, Family: family.Family, KV: b.opt.KV,
		Context: longest + benchTokensMost + b.opt.Tokens + 1, NoTokenizer: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	info := m.Info()
	if info.Threads != n {
		return fmt.Errorf("bench: %d threads: the engine uses %d: the CPU quota or affinity of this process is smaller", n, info.Threads)
	}
	d := b.report.Model
	for i := range d.Families {
		if f := &d.Families[i]; f.Family == family.Family && f.Layout == "" {
			f.Layout, d.LoadMS = info.Layout, info.LoadTime.Milliseconds()
			b.say("model    %s: %s, %.0f MB of weights a token, loaded in %d ms", d.Path, f.Layout, float64(f.Weights)/1e6, d.LoadMS)
		}
	}
	r := runner{bench: b, m: m, info: info, weights: family.Weights}
	if err := r.prefill(ctx, prompt); err != nil {
		return err
	}
	for _, c := range b.contexts() {
		if err := r.decode(ctx, c); err != nil {
			return err
		}
	}
	rss, anon := residentMB()
	b.report.RSSMB, b.report.AnonMB = max(b.report.RSSMB, rss), max(b.report.AnonMB, anon)
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

// runner measures one loaded model.
type runner struct {
	*bench
	m    *engine.Model
	info engine.Info

	weights int64 // bytes a token
	used    int32 // token that the last prompt began with: none is found in the cache
}

// prompt makes n tokens that begin as no prompt before them.
func (r *runner) prompt(n int) []int32 {
	r.used++
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = (r.used + int32(i)*7919) % int32(min(r.info.Config.Vocab, 16384))
	}
	return ids
}

func (r *runner) generate(ctx context.Context, prompt, tokens int) (*engine.Result, error) {
	res, err := r.m.Generate(ctx, engine.Request{Tokens: r.prompt(prompt), MaxTokens: tokens, IgnoreEOS: true}, nil)
	if err == nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	return res, err
}

func (r *runner) prefill(ctx context.Context, tokens int) error {
	if _, err := r.generate(ctx, 8, 2); err != nil { // brings the file into memory
		return err
	}
	res, err := r.generate(ctx, tokens, 1)
	if err != nil {
		return err
	}
	c := r.info.Config
	layer := 2*c.Dim*c.QO() + 2*c.Dim*c.KO() + 3*c.Dim*c.FFN
	s := PrefillSpeed{Mode: r.info.Family, Threads: r.info.Threads, Tokens: tokens, TokS: round1(res.Timing.PrefillTPS),
		GOPS: round1(2 * float64(c.Layers) * float64(layer) * res.Timing.PrefillTPS / 1e9)}
	r.report.Prefill = append(r.report.Prefill, s)
	r.say("prefill  %8.1f tok/s  %d %s, %d tokens, %.0f GOPS", s.TokS, s.Threads, plural(s.Threads, "thread"), tokens, s.GOPS)
	return nil
}

func (r *runner) decode(ctx context.Context, depth int) error {
	n := r.opt.Tokens
	if n == 0 {
		res, err := r.generate(ctx, max(depth, 1), 4)
		if err != nil {
			return err
		}
		about := benchDecode
		if r.opt.Quick {
			about = benchDecodeQuick
		}
		n = min(max(int(res.Timing.DecodeTPS*about.Seconds()), 8), benchTokensMost)
	}
	res, err := r.generate(ctx, max(depth, 1), n+1)
	if err != nil {
		return err
	}
	gbs := res.Timing.DecodeTPS * float64(r.weights) / 1e9
	s := DecodeSpeed{Mode: r.info.Family, Threads: r.info.Threads, Context: depth, TokS: round1(res.Timing.DecodeTPS), GBs: round2(gbs), Tokens: n}
	if read := r.readOf(s.Threads); read > 0 {
		s.OfRead = round2(gbs / read)
	}
	r.report.Decode = append(r.report.Decode, s)
	r.say("decode   %8.1f tok/s  %d %s, behind %d tokens, weights at %.2f GB/s, %.0f %% of the read loop",
		s.TokS, s.Threads, plural(s.Threads, "thread"), depth, s.GBs, 100*s.OfRead)
	return nil
}

func (b *bench) promptTokens() int {
	switch {
	case b.opt.Prompt > 0:
		return b.opt.Prompt
	case b.opt.Quick:
		return benchPromptQuick
	default:
		return benchPrompt
	}
}

func (b *bench) contexts() []int {
	if len(b.opt.Context) == 0 {
		return []int{0}
	}
	return b.opt.Context
}

// residentMB is what of this process is in memory, and what of that belongs to
// no file.
func residentMB() (all, anon float64) {
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, 0
	}
	sc := bufio.NewScanner(bytes.NewReader(data))
	for sc.Scan() {
		key, value, _ := strings.Cut(sc.Text(), ":")
		kb, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
		if err != nil {
			continue
		}
		switch key {
		case "VmRSS":
			all = kb * 1024 / 1e6
		case "RssAnon":
			anon = kb * 1024 / 1e6
		}
	}
	return all, anon
}
