// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"windhover/internal/testmodel"
	"windhover/kernels"
	"windhover/vqf"
)

func TestLoadRefusesByName(t *testing.T) {
	dual := testmodel.Default()
	dual.Mode = vqf.ModeDual
	edit := func(f func(*vqf.Arch)) testmodel.Config {
		c := testmodel.Default()
		c.Edit = f
		return c
	}
	bare := testmodel.Default()
	bare.Bare = true
	odd := testmodel.Default()
	odd.HeadDim, odd.Q8 = 16, vqf.LayoutRow
	cases := []struct {
		name string
		conf testmodel.Config
		opt  Options
		want error
		text string
	}{
		{"latent attention", edit(func(a *vqf.Arch) { a.KVLoraRank = 16 }), Options{}, ErrUnsupported, "kv_lora_rank 16"},
		{"partial rotary", edit(func(a *vqf.Arch) { a.HeadDimFull = 64 }), Options{}, ErrUnsupported, "head_dim 32 of 64"},
		{"theta", edit(func(a *vqf.Arch) { a.RopeTheta = 0 }), Options{}, nil, "rope_theta"},
		{"eps", edit(func(a *vqf.Arch) { a.NormEps = 0 }), Options{}, nil, "norm_eps"},
		{"heads", edit(func(a *vqf.Arch) { a.NKVHeads = 3 }), Options{}, nil, "3 kv heads"},
		{"no context", edit(func(a *vqf.Arch) { a.MaxSeqLen = 0 }), Options{}, nil, "max_seq_len"},
		{"no tokenizer", bare, Options{}, ErrNoTokenizer, "windhover pack"},
		{"kv int8 in the reference path", dual, Options{KV: "int8", Activations: "f32"}, ErrRequest, "float32"},
		{"kv", dual, Options{KV: "f8"}, ErrRequest, "f8"},
		{"family", dual, Options{Family: "q5"}, ErrRequest, "q5"},
		{"activations", dual, Options{Activations: "bf16"}, ErrRequest, "bf16"},
		{"chunk", dual, Options{Chunk: -1}, ErrRequest, "chunk"},
		{"context", dual, Options{Context: -1}, ErrRequest, "context"},
		{"context too long", dual, Options{Context: maxContext + 1}, ErrRequest, "context"},
		{"threads", dual, Options{Threads: 100000}, ErrRequest, "threads 100000"},
		{"negative threads", dual, Options{Threads: -1}, ErrRequest, "threads -1"},
		{"memory", dual, Options{MemoryLimit: 1000}, ErrMemory, "limit 1000"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.vqf")
			if err := c.conf.WriteFile(path); err != nil {
				// The writer refuses this geometry already; the loader meets it
				// only in files made elsewhere.
				t.Logf("the writer says: %v", err)
				if !strings.Contains(err.Error(), strings.Fields(c.text)[0]) {
					t.Errorf("writer: %v, want one that names %q", err, c.text)
				}
				return
			}
			m, err := Load(path, c.opt)
			if err == nil {
				_ = m.Close()
				t.Fatal("loaded")
			}
			if m != nil {
				t.Errorf("a model came with the error")
			}
			if c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("error %v, want %v with %q", err, c.want, c.text)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than a line: %q", err)
			}
		})
	}
}

// The same on headers that no writer of ours makes.
func TestConfigRefusesByName(t *testing.T) {
	good := vqf.Arch{
		Dim: 64, NLayers: 2, NHeads: 4, NKVHeads: 2, HeadDim: 16, FFNDim: 96, VocabSize: 100, MaxSeqLen: 128,
		RopeTheta: 1e4, NormEps: 1e-5,
	}
	if _, err := configOf(good, 0); err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		name  string
		flags vqf.Flags
		edit  func(*vqf.Arch)
		want  error
		text  string
	}{
		{"moe flag without experts", vqf.FlagMoE, func(*vqf.Arch) {}, nil, "0 of 0 experts compute"},
		{"experts of which none is chosen", 0, func(a *vqf.Arch) { a.NExperts = 8 }, nil, "0 of 8 experts compute"},
		{"no layers", 0, func(a *vqf.Arch) { a.NLayers = 0 }, nil, "n_layers is 0"},
		{"no kv heads", 0, func(a *vqf.Arch) { a.NKVHeads = 0 }, nil, "n_kv_heads is 0"},
		{"huge", 0, func(a *vqf.Arch) { a.VocabSize = 1<<32 - 1 }, nil, "vocab_size is 4294967295"},
		{"heads too wide", 0, func(a *vqf.Arch) { a.NHeads, a.HeadDim = 1<<20, 1<<20 }, nil, "heads of"},
		{"cache too wide", 0, func(a *vqf.Arch) { a.NHeads, a.NKVHeads, a.NLayers, a.HeadDim = 1<<12, 1<<12, 1<<12, 16 }, nil, "kv heads of 16 in 4096 layers"},
		{"dim", 0, func(a *vqf.Arch) { a.Dim = 48 }, nil, "multiples of 32"},
		{"odd head", 0, func(a *vqf.Arch) { a.HeadDim = 15 }, nil, "head_dim 15"},
		{"groups", 0, func(a *vqf.Arch) { a.NKVHeads = 3 }, nil, "3 kv heads"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			arch := good
			c.edit(&arch)
			_, err := configOf(arch, c.flags)
			if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("error %v, want %v with %q", err, c.want, c.text)
			}
		})
	}
}

func TestLoadInfo(t *testing.T) {
	c := testmodel.Default()
	c.Mode, c.Name = vqf.ModeDual, "pip"
	path := testmodel.Write(t, c)
	for family, layout := range map[string]string{"": "q4 4x4", "q4": "q4 4x4", "q8": "q8 8x8"} {
		info := load(t, path, Options{Family: family, Threads: 1, Chunk: 32}).Info()
		if info.Layout != layout || info.Family != layout[:2] || info.Name != "pip" || info.Tokenizer != "embedded" ||
			info.Context != 256 || info.Chunk != 32 || info.Threads != 1 || info.TemplateErr != "" || !info.Thinks || info.LoadTime <= 0 {
			t.Errorf("family %q: info %+v", family, info)
		}
	}
	// A file with one family computes with that, whatever is asked for.
	c.Mode = vqf.ModeQ8
	if info := load(t, testmodel.Write(t, c), Options{Family: "q4"}).Info(); info.Family != "q8" {
		t.Errorf("family %q of a q8 file, want q8", info.Family)
	}
}

func TestModesOfQ8Compute(t *testing.T) {
	for _, mode := range []vqf.Mode{vqf.ModeQ4I, vqf.ModeG256} {
		for _, embF32 := range []bool{false, true} {
			c := testmodel.Default()
			c.Mode, c.EmbF32, c.Fields = mode, embF32, 45
			m := load(t, testmodel.Write(t, c), Options{})
			got, err := m.Generate(context.Background(), Request{Tokens: chat("")}, nil)
			if err != nil || got.Text != testmodel.Answer {
				t.Errorf("%s, embedding in F32 %v: %+v, %v", mode, embF32, got, err)
			}
		}
	}
}

// A bare file with the tokenizer files of the original engine's users beside it.
func TestTokenizerBeside(t *testing.T) {
	c := testmodel.Default()
	c.Bare = true
	c.Edit = func(a *vqf.Arch) { a.EosID = 0 } // as files have it whose source named none
	write := func(t *testing.T, files map[string]string) string {
		t.Helper()
		dir := t.TempDir()
		path := filepath.Join(dir, "model.vqf")
		if err := c.WriteFile(path); err != nil {
			t.Fatal(err)
		}
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		return path
	}
	tok := string(testmodel.TokenizerJSON())
	m := load(t, write(t, map[string]string{
		"tokenizer.json": tok,
		"tokenizer_config.json": `{"chat_template":[{"name":"tool","template":"x"},{"name":"default","template":"{{ messages[0].content }}"}],
			"bos_token":null,"eos_token":{"content":"<|im_end|>"},"add_bos_token":true}`,
		"generation_config.json": `{"eos_token_id":[2,0],"temperature":0.5,"top_k":7,"repetition_penalty":1.2}`,
	}), Options{})
	meta := m.Meta()
	if got := meta.StopIDs; len(got) != 2 || got[0] != 2 || got[1] != 0 || meta.EosID != 2 || meta.BosID != -1 || !meta.AddBOS {
		t.Errorf("meta %+v", meta)
	}
	g := meta.Generation
	if g.Temperature == nil || *g.Temperature != 0.5 || g.TopK == nil || *g.TopK != 7 || g.TopP != nil || g.RepeatPenalty == nil || *g.RepeatPenalty != 1.2 {
		t.Errorf("generation defaults %+v", g)
	}
	if m.Template() == nil || meta.ChatTemplate != "{{ messages[0].content }}" {
		t.Errorf("template %q, error %q", meta.ChatTemplate, m.Info().TemplateErr)
	}
	if want := "tokenizer.json"; filepath.Base(m.Info().Tokenizer) != want {
		t.Errorf("tokenizer from %q, want %q", m.Info().Tokenizer, want)
	}

	m = load(t, write(t, map[string]string{
		"tokenizer.json": tok, "chat_template.jinja": "A", "tokenizer_config.json": `{"chat_template":"B","eos_token":"<|im_end|>"}`,
	}), Options{})
	if got := m.Meta(); got.ChatTemplate != "A" || len(got.StopIDs) != 1 || got.StopIDs[0] != 2 {
		t.Errorf("meta %+v, want the template of the file and stop 2", got)
	}

	// Only the tokenizer: the header's 0 is <|endoftext|> here, a special token.
	m = load(t, write(t, map[string]string{"tokenizer.json": tok}), Options{})
	if got := m.Meta().StopIDs; len(got) != 1 || got[0] != 0 {
		t.Errorf("stop ids %v, want 0", got)
	}

	for name, files := range map[string]map[string]string{
		"tokenizer.json":         {"tokenizer.json": "{"},
		"tokenizer_config.json":  {"tokenizer.json": tok, "tokenizer_config.json": "["},
		"generation_config.json": {"tokenizer.json": tok, "generation_config.json": `{"eos_token_id":"x"}`},
	} {
		if m, err := Load(write(t, files), Options{}); err == nil || !strings.Contains(err.Error(), name) {
			if m != nil {
				_ = m.Close()
			}
			t.Errorf("broken %s: %v, want an error that names it", name, err)
		}
	}
}

func TestTokenizerOfAnotherModel(t *testing.T) {
	c := testmodel.Default()
	c.Bare, c.Vocab = true, 248
	dir := t.TempDir()
	path := filepath.Join(dir, "model.vqf")
	// Without the script's tokens the head cannot be made; noise will do.
	c.Random = true
	if err := c.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "tokenizer.json"), testmodel.TokenizerJSON(), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path, Options{}); err == nil || !strings.Contains(err.Error(), "261 tokens, the model 248") {
		t.Errorf("error %v, want one with both counts", err)
	}
}

func TestEstimateAndMemoryLimit(t *testing.T) {
	c := testmodel.Default()
	c.MaxSeq, c.Layers = 4096, 12
	path := testmodel.Write(t, c)
	need, err := Estimate(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	// 12 layers, 2 kv heads of 32, keys and values of two bytes.
	if got, want := need.KVPerToken, int64(12*2*32*2*2); got != want {
		t.Errorf("kv a token %d, want %d", got, want)
	}
	if need.Context != 4096 || need.KV != need.KVPerToken*4096 || need.Total() != need.Weights+need.KV+need.Scratch {
		t.Errorf("need %+v", need)
	}
	m := load(t, path, Options{})
	if got := m.Info().Need; got != need || m.w.bytes != need.Weights {
		t.Errorf("loaded with %+v (%d bytes bound), estimated %+v", got, m.w.bytes, need)
	}

	// A limit shortens a context that nobody asked for, and refuses one that
	// somebody did.
	limit := need.Weights + need.Scratch + 1000*need.KVPerToken
	small, err := Estimate(path, Options{MemoryLimit: limit})
	if err != nil || small.Context < minContext || small.Context%contextStep != 0 || small.Total() > limit {
		t.Errorf("need under a limit %+v, %v", small, err)
	}
	if more, err := Estimate(path, Options{Context: small.Context + contextStep}); err != nil || more.Total() <= limit {
		t.Errorf("a context of %d takes %d bytes, %v; it would fit the limit of %d", more.Context, more.Total(), err, limit)
	}
	var short *MemoryError
	if _, err := Estimate(path, Options{MemoryLimit: limit, Context: 4096, Residency: ResidencyFull}); !errors.As(err, &short) || short.Need != need || short.Limit != limit {
		t.Errorf("error %v, want the figures %+v", err, need)
	}
	if _, err := Estimate(path, Options{MemoryLimit: limit, Context: 4096}); !errors.As(err, &short) || short.Full != need.Total() ||
		short.Need.Residency != ResidencyLayered || short.Need.Weights >= need.Weights || short.Need.KV != need.KV {
		t.Errorf("error %v, want the figures of layered residency and of %+v", err, need)
	}
	if _, err := Load(path, Options{MemoryLimit: limit, Context: 4096}); !errors.Is(err, ErrMemory) {
		t.Errorf("load: %v, want %v", err, ErrMemory)
	}
	if ref, err := Estimate(path, Options{Activations: "f32"}); err != nil || ref.KV != 2*need.KV {
		t.Errorf("reference path: %+v, %v, want twice the cache", ref, err)
	}
	if _, err := Estimate(filepath.Join(t.TempDir(), "none"), Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
}

// Scratch is close to what load allocates: within a tenth above the truth.
func TestScratchEstimate(t *testing.T) {
	c := Config{Dim: 512, Layers: 1, Heads: 8, KVHeads: 4, HeadDim: 64, FFN: 1024, Vocab: 4000}
	for _, float := range []bool{false, true} {
		pool, err := kernels.NewPool([]int{firstCPU(t)}, false)
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		kv, size := &pagePool{}, sizes{ctx: 1000, chunk: 128, sequences: 8, float: float}
		w := &weights{layers: 1}
		got := testing.Benchmark(func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				newState(&c, w, pool, kv, size)
				shared := newScratch(c.Vocab)
				for range size.sequences {
					newSampler(shared, Sampling{RepeatPenalty: 2}, nil)
				}
			}
		}).AllocedBytesPerOp()
		want := scratchBytes(&c, 1, size)
		if ratio := float64(want) / float64(got); ratio < 0.95 || ratio > 1.15 {
			t.Errorf("reference %v: estimated %d bytes, allocated %d", float, want, got)
		}
	}
}

func firstCPU(t testing.TB) int {
	t.Helper()
	topo, err := kernels.DetectTopology()
	if err != nil {
		t.Fatal(err)
	}
	return topo.All[0]
}

// A file that is cut short under a running model fails the request with an
// error that names a fault, and does not end the process.
func TestTruncatedFileFailsTheRequest(t *testing.T) {
	if !faultsHaveAddresses(t) {
		t.Skip("qemu's user mode gives SIGBUS no address, so that it looks like a nil pointer")
	}
	c := testmodel.Default()
	c.Layers, c.Dim, c.FFN = 4, 256, 512
	path := testmodel.Write(t, c)
	size := int64(len(readFile(t, path)))
	for _, threads := range []int{1, cores(t)} {
		for _, keep := range []int64{4096, size / 2} { // what is gone: the embedding, or later layers only
			t.Run("", func(t *testing.T) {
				copied := filepath.Join(t.TempDir(), "cut.vqf")
				if err := os.WriteFile(copied, readFile(t, path), 0o644); err != nil {
					t.Fatal(err)
				}
				m := load(t, copied, Options{Threads: threads})
				if err := os.Truncate(copied, keep); err != nil {
					t.Fatal(err)
				}
				for _, prompt := range [][]int32{chat("a"), {1}} {
					_, err := m.Generate(context.Background(), Request{Tokens: prompt}, nil)
					var fault *kernels.FaultError
					if !errors.As(err, &fault) || !fault.HasAddr {
						t.Errorf("%d threads, %d bytes left: %v, want a fault", threads, keep, err)
					}
				}
				// The good bytes back: the model works again.
				if err := os.WriteFile(copied, readFile(t, path), 0o644); err != nil {
					t.Fatal(err)
				}
				got, err := m.Generate(context.Background(), Request{Tokens: chat("a")}, nil)
				if err != nil || got.Text != testmodel.Answer {
					t.Errorf("with the file back: %+v, %v", got, err)
				}
			})
		}
	}
}

// faultsHaveAddresses touches a page behind the end of a file.
func faultsHaveAddresses(t *testing.T) (have bool) {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "empty"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	mem, err := unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_, have = recover().(interface{ Addr() uintptr })
		if err := unix.Munmap(mem); err != nil {
			t.Error(err)
		}
	}()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	return mem[0] == 1
}
