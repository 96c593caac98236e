// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"windhover/engine"
	"windhover/internal/testmodel"
	"windhover/kernels"
	"windhover/vqf"
)

func TestFillBlocks(t *testing.T) {
	for _, l := range kernelLayouts {
		const rows, cols = 64, 256
		data := make([]byte, rows*cols/kernels.BlockLen*l.BlockBytes())
		fillBlocks(data, l, cols, newNoise(7))
		again := make([]byte, len(data))
		fillBlocks(again, l, cols, newNoise(7))
		if !slices.Equal(data, again) {
			t.Errorf("%v: the same seed gave other bytes", l)
		}
		m, err := kernels.NewMatrix(data, rows, cols, l)
		if err != nil {
			t.Fatal(err)
		}
		row, sum := make([]float32, cols), 0.0
		for r := range rows {
			m.DequantizeRow(row, r)
			for _, v := range row {
				sum += float64(v) * float64(v)
			}
		}
		// A row of unit length keeps the size of what it is multiplied with.
		if length := math.Sqrt(sum / rows); !(length > 0.9 && length < 1.1) {
			t.Errorf("%v: rows of length %.3f, want about 1", l, length)
		}
	}
}

// TestBenchShapes holds the geometries to sizes that are known.
func TestBenchShapes(t *testing.T) {
	params := map[string]int64{ // of the matrices and the embedding, untied
		"smollm2-135m": 134_515_008 + 49152*576, "qwen3-0.6b": 596_049_920 + 151936*1024, "qwen3-1.7b": 1_720_574_976 + 151936*2048,
		"qwen3-vl-2b": 1_720_574_976 + 151936*2048, "qwen3-8b": 8_190_735_360,
	}
	for _, s := range benchShapes {
		a := s.arch
		a.MaxSeqLen, a.BosID, a.EosID = 8192, vqf.NoToken, vqf.NoToken
		spec := vqf.Spec{Arch: a, Mode: vqf.ModeQ4}
		spec.Q8, spec.Q4 = vqf.DefaultLayouts(a, spec.Mode, vqf.Layout8x8)
		plan, err := vqf.NewPlan(spec)
		if err != nil {
			t.Errorf("%s: %v", s.name, err)
			continue
		}
		if a.MoE() {
			if got, want := plan.Size(), int64(17_665_601_544); got != want {
				t.Errorf("%s: a file of %d bytes, the published one has %d", s.name, got, want)
			}
			continue
		}
		var got int64
		for _, e := range plan.Tensors {
			got += int64(e.Rows) * int64(e.Cols)
		}
		if want := params[s.name]; got != want {
			t.Errorf("%s: %d parameters, want %d", s.name, got, want)
		}
	}
}

func TestMadeUpModelRuns(t *testing.T) {
	small := vqf.Arch{Dim: 64, NLayers: 2, NHeads: 2, NKVHeads: 1, HeadDim: 32, FFNDim: 128, VocabSize: 512, MaxSeqLen: 64,
		RopeTheta: 10000, NormEps: 1e-5, HasQNorm: 1, BosID: vqf.NoToken, EosID: vqf.NoToken}
	for _, layout := range []vqf.Layout{vqf.LayoutRow, vqf.Layout4x4, vqf.Layout8x8} {
		spec := vqf.Spec{Arch: small, Mode: vqf.ModeDual}
		spec.Q8, spec.Q4 = vqf.DefaultLayouts(small, spec.Mode, layout)
		plan, err := vqf.NewPlan(spec)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "made.vqf")
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		made := &madeModel{f, plan, spec}
		if err := errors.Join(made.begin(), made.write(context.Background(), new(bench).doing), f.Close()); err != nil {
			t.Fatal(err)
		}
		report, err := vqf.Verify(context.Background(), path, vqf.VerifyOptions{}, nil)
		if err != nil || report.Err() != nil {
			t.Fatalf("%v: verify: %v, %v", layout, err, report.Err())
		}
		for _, family := range []string{"q8", "q4"} {
			m, err := engine.Load(path, engine.Options{Threads: 1, Family: family, NoTokenizer: true})
			if err != nil {
				t.Fatal(err)
			}
			_, margins, err := m.Greedy(context.Background(), []int32{1, 2, 3}, 8)
			if err != nil || slices.Contains(margins, 0) {
				t.Errorf("%v, %s: margins %v, %v", layout, family, margins, err)
			}
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestBenchOfAModel(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	var lines, doing []string
	opt := BenchOptions{Model: testmodel.Write(t, testmodel.Default()), Threads: []int{1}, Prompt: []int{48, 16}, Tokens: 8, Context: []int{32, 0}, Quick: true,
		Doing: func(s string) { doing = append(doing, s) }}
	r, err := Bench(context.Background(), opt, func(s string) { lines = append(lines, s) })
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Read) != 1 || len(r.Peak) != 1 || r.Peak[0].Int8 <= 0 || r.Peak[0].F32 <= 0 || len(r.Kernels) != len(kernelLayouts) {
		t.Errorf("read %+v, peak %+v, %d kernels", r.Read, r.Peak, len(r.Kernels))
	}
	for _, k := range r.Kernels {
		if k.GBs <= 0 || k.OfRead <= 0 || k.GOPS <= 0 || k.OfPeak <= 0 {
			t.Errorf("kernel %+v", k)
		}
	}
	if len(r.Decode) != 2 || r.Decode[0].Context != 0 || r.Decode[1].Context != 32 {
		t.Errorf("decode %+v", r.Decode)
	}
	for _, d := range r.Decode {
		if d.TokS <= 0 || d.GBs <= 0 || d.Tokens != 8 {
			t.Errorf("decode %+v", d)
		}
	}
	if len(r.Prefill) != 2 || r.Prefill[0].Tokens != 16 || r.Prefill[1].Tokens != 48 {
		t.Errorf("prefill %+v", r.Prefill)
	}
	for _, p := range r.Prefill {
		if p.TokS <= 0 || p.Runs != 3 {
			t.Errorf("prefill %+v", p)
		}
	}
	warm := r.First[len(r.First)-1]
	if warm.Cache != "warm" || warm.LoadMS <= 0 || warm.FirstMS <= 0 || warm.Prompt != firstPrompt || warm.Threads != 1 {
		t.Errorf("first token %+v", r.First)
	}
	if r.RSS <= 0 || r.Anon <= 0 || r.File <= 0 || r.Anon+r.File > r.RSS+1 || r.BenchMemory.Peak < r.RSS || r.CPU == "" {
		t.Errorf("memory %+v, CPU %q", r.BenchMemory, r.CPU)
	}
	if r.Model.Families[0] != (BenchFamily{"q8", "q8 8x8", 203184}) || r.Model.KV != "f16" || r.Model.Residency != "full" || r.Model.Made {
		t.Errorf("model %+v", r.Model)
	}
	text := strings.Join(lines, "\n")
	for _, want := range []string{"\nmachine ", "\nkernels ", "\nstart ", "\ntokens ", "\nmemory "} {
		if strings.Count(text, want) != 1 {
			t.Errorf("%q is not once in:\n%s", want, text)
		}
	}
	for _, line := range lines {
		if len(line) > 100 && !strings.HasPrefix(line, "tokens ") { // which names the file
			t.Errorf("a line of %d columns: %s", len(line), line)
		}
	}
	if len(doing) == 0 {
		t.Error("nothing was told to be under way")
	}
}

// TestWalk: a text is computed once, whatever is measured within.
func TestWalk(t *testing.T) {
	m, err := engine.Load(testmodel.Write(t, testmodel.Default()), engine.Options{Threads: 1, NoTokenizer: true, Context: 256})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	var lines []string
	b := &bench{opt: BenchOptions{Prompt: []int{16, 48}, Context: []int{0, 16, 40}, Tokens: 4}, report: &BenchReport{},
		say: func(format string, a ...any) { lines = append(lines, fmt.Sprintf(format, a...)) }}
	r := runner{bench: b, m: m, info: m.Info(), weights: 1e6, prefill: map[int][]time.Duration{}}
	if err := r.walk(context.Background()); err != nil {
		t.Fatal(err)
	}
	if len(lines) != 4 { // 0, 16, 40, 48
		t.Errorf("lines:\n%s", strings.Join(lines, "\n"))
	}
	if r.used != 1 {
		t.Errorf("%d texts, want one", r.used)
	}
	var depths, lengths []int
	for _, d := range b.report.Decode {
		depths = append(depths, d.Context)
	}
	for _, p := range b.report.Prefill {
		lengths = append(lengths, p.Tokens)
	}
	if !slices.Equal(depths, []int{0, 16, 40}) || !slices.Equal(lengths, []int{16, 48}) {
		t.Errorf("decoded behind %v, computed %v", depths, lengths)
	}
}

func TestBenchRefuses(t *testing.T) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for _, c := range []struct {
		name string
		ctx  context.Context
		opt  BenchOptions
		want string
	}{
		{"threads", context.Background(), BenchOptions{Threads: []int{0}}, "0 threads: this process may use 1 to"},
		{"prompt", context.Background(), BenchOptions{Prompt: []int{512, 0}}, "a prompt of 0 tokens"},
		{"context", context.Background(), BenchOptions{Context: []int{-1}}, "-1 tokens of context"},
		{"tokens", context.Background(), BenchOptions{Tokens: -1}, "-1 tokens to generate"},
		{"layers", context.Background(), BenchOptions{Shape: "qwen3-30b-a3b", Layers: 49}, "49 layers: qwen3-30b-a3b has 48"},
		{"cancelled", ended, BenchOptions{Threads: []int{1}}, "context canceled"},
	} {
		if _, err := Bench(c.ctx, c.opt, func(string) {}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
	}
	dir := t.TempDir()
	made := func(ctx context.Context, opt BenchOptions) error {
		opt.Dir = dir
		if opt.Shape == "" {
			opt.Shape = "smollm2-135m"
		}
		opt.Threads = []int{1}
		b := &bench{opt: opt}
		m, err := b.makeModel()
		if err == nil {
			err = errors.Join(m.write(ctx, b.doing), m.f.Close())
		}
		return err
	}
	if err := made(context.Background(), BenchOptions{Mode: "q5"}); err == nil || !strings.Contains(err.Error(), `no mode "q5"`) {
		t.Errorf("mode q5: error %v", err)
	}
	if err := made(context.Background(), BenchOptions{Context: []int{1 << 19}, Shape: "qwen3-8b"}); err == nil || !strings.Contains(err.Error(), "choose a smaller --shape") {
		t.Errorf("77 GB of cache: error %v", err)
	}
	if err := made(ended, BenchOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled while writing: error %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestBenchRefusesAModel: what is wrong with a given model, or too much for it or
// for the memory, is found before a line is written, and so before anything is measured.
func TestBenchRefusesAModel(t *testing.T) {
	mixture := vqf.Spec{Mode: vqf.ModeQ8, Arch: experts(vqf.Arch{Dim: 64, NLayers: 2, NHeads: 2, NKVHeads: 1, HeadDim: 32, FFNDim: 128, VocabSize: 512,
		MaxSeqLen: 64, RopeTheta: 10000, NormEps: 1e-5, BosID: vqf.NoToken, EosID: vqf.NoToken}, 4, 2)}
	mixture.Arch.SharedExperts = 1
	plan, err := vqf.NewPlan(mixture)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "mixture.vqf"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join((&madeModel{f, plan, mixture}).begin(), f.Close()); err != nil {
		t.Fatal(err)
	}
	wide, bare := testmodel.Default(), testmodel.Default()
	wide.Layers, wide.Heads, wide.KVHeads, wide.HeadDim, wide.Random = 32, 8, 8, 128, true // 128 KiB of cache a token
	bare.Bare = true                                                                       // which is no reason to refuse
	tiny := testmodel.Write(t, bare)
	for _, c := range []struct {
		name string
		opt  BenchOptions
		kind error
		want string
	}{
		{"unsupported", BenchOptions{Model: f.Name()}, engine.ErrUnsupported, "1 experts that all tokens share"},
		{"context", BenchOptions{Model: tiny, Context: []int{1 << 20}}, engine.ErrRequest, "the most is 1048576"},
		{"prompt", BenchOptions{Model: tiny, Prompt: []int{1 << 62, 512}}, nil, "a prompt of 4611686018427387904 tokens: give 1 to 1048576"},
		{"context and tokens", BenchOptions{Model: tiny, Context: []int{1 << 19}, Tokens: 1 << 19}, engine.ErrRequest, "the most is 1048576"},
		{"memory", BenchOptions{Model: testmodel.Write(t, wide), Context: []int{1000000}}, engine.ErrMemory, "MB are free: choose shorter texts, --kv int8 or a smaller model"},
		{"directory", BenchOptions{Model: t.TempDir()}, nil, "is a directory without a weight file"},
	} {
		c.opt.Threads, c.opt.Quick = []int{1}, true
		var lines []string
		_, err := Bench(context.Background(), c.opt, func(s string) { lines = append(lines, s) })
		if err == nil || !strings.Contains(err.Error(), c.want) || c.kind != nil && !errors.Is(err, c.kind) {
			t.Errorf("%s: error %v, want %v with %q", c.name, err, c.kind, c.want)
		}
		if len(lines) > 0 {
			t.Errorf("%s: refused after %q", c.name, lines)
		}
	}
}

// TestBenchThreads: a number of threads is measured once, and one that a quota does
// not allow is refused before the others are measured.
func TestBenchThreads(t *testing.T) {
	b := &bench{opt: BenchOptions{Threads: []int{1, 1}}}
	if err := b.chooseThreads(); err != nil || !slices.Equal(b.opt.Threads, []int{1}) {
		t.Errorf("threads %v, %v", b.opt.Threads, err)
	}
	if len(b.cpus) < 2 {
		t.Skip("one CPU only")
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // which limits pools as a quota does
	var lines []string
	_, err := Bench(context.Background(), BenchOptions{Threads: []int{2, 1}, Mixed: true, Quick: true}, func(s string) { lines = append(lines, s) })
	if err == nil || !strings.Contains(err.Error(), "2 threads: the CPU quota of this process allows 1") || len(lines) > 0 {
		t.Errorf("error %v after %q", err, lines)
	}
}

func TestMixedLayoutsAgree(t *testing.T) {
	b := &bench{opt: BenchOptions{Quick: true, Threads: []int{1}}, report: &BenchReport{}, say: func(string, ...any) {}}
	if err := b.chooseThreads(); err != nil {
		t.Fatal(err)
	}
	const rows, cols = 64, 4096
	row := make([]byte, rows*cols/kernels.BlockLen*kernels.Q8BlockBytes)
	fillBlocks(row, kernels.Q8Row, cols, newNoise(1))
	s := MixedSpeed{Name: "small", Rows: rows, Cols: cols, Threads: 1}
	if err := b.mixedShape(context.Background(), &s, row); err != nil {
		t.Fatal(err)
	}
	if !s.Identical || s.MS8x8 <= 0 || s.Ratio != round2(s.MS4x4/s.MS8x8) {
		t.Errorf("%+v", s)
	}
}

// TestCached: a file that is not in memory is told from one that is. Where it
// cannot be taken out of the page cache, as on tmpfs, forget must say so.
func TestCached(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const size = 8 << 20
	if _, err := f.Write(make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	if n, err := cached(f); err != nil || n != size {
		t.Errorf("written: %d bytes cached, %v; want %d", n, err, size)
	}
	cold, why := new(bench).forget(context.Background(), f)
	n, err := cached(f)
	if err != nil || cold != (n <= size/100) || cold == (why != "") {
		t.Errorf("cold %v (%q) with %d bytes cached, %v", cold, why, n, err)
	}
}
