// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"windhover/engine"
	"windhover/kernels"
	"windhover/vqf/convert"
)

// Tests on a real model: SmolLM2-135M-Instruct as a GGUF file, named by the
// environment variable WINDHOVER_SMOLLM2 (scripts say where it comes from).

var smol struct {
	sync.Once
	dir  string
	path map[string]string // mode -> VQF file
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if smol.dir != "" {
		if err := os.RemoveAll(smol.dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// smolPath converts the model once for all tests and returns the file of a
// mode.
func smolPath(t testing.TB, mode string) string {
	t.Helper()
	src := os.Getenv("WINDHOVER_SMOLLM2")
	if src == "" {
		t.Skip("WINDHOVER_SMOLLM2 does not name the model")
	}
	smol.Do(func() {
		if smol.dir, smol.err = os.MkdirTemp("", "engine-smollm2-"); smol.err != nil {
			return
		}
		smol.path = map[string]string{}
		for _, mode := range []string{"q8", "q4"} {
			smol.path[mode] = filepath.Join(smol.dir, mode+".vqf")
			if _, smol.err = convert.Run(context.Background(), src, smol.path[mode], convert.Options{Mode: mode}, nil); smol.err != nil {
				return
			}
		}
	})
	if smol.err != nil {
		t.Fatal(smol.err)
	}
	return smol.path[mode]
}

func loadSmol(t testing.TB, mode string, opt engine.Options) *engine.Model {
	t.Helper()
	m, err := engine.Load(smolPath(t, mode), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

type smolGolden struct {
	Greedy struct {
		Cases []struct {
			Question  string    `json:"question"`
			PromptIDs []int32   `json:"prompt_ids"`
			IDs       []int32   `json:"hf_ids"`
			Margins   []float64 `json:"hf_margins"`
			Q8IDs     []int32   `json:"hf_q8_0_ids"`
			Q8Margins []float64 `json:"hf_q8_0_margins"`
		} `json:"cases"`
	} `json:"greedy"`
	NLL struct {
		IDs    []int32            `json:"ids"`
		Window int                `json:"window"`
		Means  map[string]float64 `json:"mean_nll"`
	} `json:"nll"`
}

func readSmolGolden(t testing.TB) *smolGolden {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "shared", "golden", "smollm2-135m", "golden.json"))
	if os.IsNotExist(err) {
		t.Skip("the large set of goldens is not here")
	}
	if err != nil {
		t.Fatal(err)
	}
	g := new(smolGolden)
	if err := json.Unmarshal(data, g); err != nil {
		t.Fatal(err)
	}
	return g
}

// Up to the first margin under 0.8 the text is not a matter of taste. Behind
// it, given the golden text, the best token is the golden one wherever it is
// clear.
func TestSmolLM2Greedy(t *testing.T) {
	g := readSmolGolden(t)
	m := loadSmol(t, "q8", engine.Options{})
	ctx := context.Background()
	const clear = 0.8
	for _, c := range g.Greedy.Cases {
		got, margins, err := m.Greedy(ctx, c.PromptIDs, len(c.IDs))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []struct {
			name    string
			ids     []int32
			margins []float64
		}{{"hf", c.IDs, c.Margins}, {"hf_q8_0", c.Q8IDs, c.Q8Margins}} {
			n, same, forced := 0, 0, 0
			for n < len(want.ids) && want.margins[n] >= clear {
				if got[n] != want.ids[n] {
					t.Errorf("%q: token %d is %d (margin %.2f), %s has %d (margin %.2f)", c.Question, n, got[n], margins[n], want.name, want.ids[n], want.margins[n])
					break
				}
				n++
			}
			for same < len(want.ids) && got[same] == want.ids[same] {
				same++
			}
			err := m.Logits(ctx, slices.Concat(c.PromptIDs, want.ids), 0, func(pos int, logits []float32) error {
				i := pos + 1 - len(c.PromptIDs)
				if i < 0 || i == len(want.ids) || want.margins[i] < clear {
					return nil
				}
				forced++
				if id := best(logits); id != want.ids[i] {
					t.Errorf("%q: behind %d golden tokens the best is %d, %s has %d with a margin of %.2f", c.Question, i, id, want.name, want.ids[i], want.margins[i])
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%-40q %-8s %2d tokens up to the first that is not clear; %2d equal; %2d clear in all", c.Question, want.name, n, same, forced)
		}
	}
}

func best(logits []float32) int32 {
	id := 0
	for i, l := range logits {
		if l > logits[id] {
			id = i
		}
	}
	return int32(id)
}

func TestSmolLM2SaysParis(t *testing.T) {
	m := loadSmol(t, "q8", engine.Options{})
	var deltas strings.Builder
	res, err := m.Generate(context.Background(), engine.Request{
		Tokens: m.Tokenizer().Encode("The capital of France is", true), MaxTokens: 8,
	}, func(e engine.Event) error {
		if e.Delta != nil {
			deltas.WriteString(e.Delta.Text)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(res.Text, " Paris") || deltas.String() != res.Text {
		t.Errorf("%q, streamed %q, want Paris", res.Text, deltas.String())
	}
}

func TestSmolLM2NLL(t *testing.T) {
	if testing.Short() {
		t.Skip("computes 2463 tokens twice")
	}
	g := readSmolGolden(t)
	for _, c := range []struct {
		mode, column string
		limit        float64
	}{{"q8", "hf_f32", 0.01}, {"q4", "hf_requantised_q4_0", 0.02}} {
		mean, scored, err := loadSmol(t, c.mode, engine.Options{}).NLL(context.Background(), g.NLL.IDs, g.NLL.Window, nil)
		if err != nil {
			t.Fatal(err)
		}
		want := g.NLL.Means[c.column]
		t.Logf("%s: mean NLL %.6f over %d tokens, %s has %.6f", c.mode, mean, scored, c.column, want)
		if scored != 2458 || math.Abs(mean-want) > c.limit {
			t.Errorf("%s: mean NLL %.6f of %d tokens, want %.6f ± %v of 2458", c.mode, mean, scored, want, c.limit)
		}
	}
}

// A cache in int8 costs next to nothing: at most 0.01 nats a token.
func TestSmolLM2KVInt8(t *testing.T) {
	if testing.Short() {
		t.Skip("computes 2463 tokens twice")
	}
	g := readSmolGolden(t)
	var means [2]float64
	for i, kv := range []string{"f16", "int8"} {
		m := loadSmol(t, "q8", engine.Options{KV: kv})
		mean, _, err := m.NLL(context.Background(), g.NLL.IDs, g.NLL.Window, nil)
		if err != nil {
			t.Fatal(err)
		}
		means[i] = mean
		t.Logf("%s: mean NLL %.6f, %d bytes a token", kv, mean, m.Info().Need.KVPerToken)
	}
	if d := means[1] - means[0]; d > 0.01 || d < -0.01 {
		t.Errorf("int8 moves the mean NLL by %.6f, want at most 0.01", d)
	}
}

// The determinism contract on the real model: threads and chunks.
func TestSmolLM2IsDeterministic(t *testing.T) {
	prompt := loadSmol(t, "q8", engine.Options{}).Tokenizer().Encode(strings.Repeat("It was a bright cold day in April. ", 12), true)
	topo, err := kernels.DetectTopology()
	if err != nil {
		t.Fatal(err)
	}
	var want []int32
	for _, opt := range []engine.Options{{Threads: 1, Chunk: 7}, {Threads: len(topo.All)}} {
		m := loadSmol(t, "q8", opt)
		res, err := m.Generate(context.Background(), engine.Request{
			Tokens: prompt, MaxTokens: 24, IgnoreEOS: true, Sampling: engine.Sampling{Temperature: 0.8, TopK: 40, TopP: 0.95, Seed: 11},
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if want == nil {
			want = res.Tokens
		}
		if !slices.Equal(res.Tokens, want) {
			t.Errorf("%+v: tokens %v, want %v", opt, res.Tokens, want)
		}
	}
}

func BenchmarkSmolLM2(b *testing.B) {
	topo, err := kernels.DetectTopology()
	if err != nil {
		b.Fatal(err)
	}
	for _, mode := range []string{"q8", "q4"} {
		for threads := 1; threads <= len(topo.All); threads++ {
			m := loadSmol(b, mode, engine.Options{Threads: threads, Pin: true})
			prompt := make([]int32, 512)
			for i := range prompt {
				prompt[i] = int32(1000 + i*37%20000)
			}
			b.Run(fmt.Sprintf("%s/%d", mode, threads), func(b *testing.B) {
				var prefill, decode float64
				for i := range b.N {
					prompt[0] = int32(i + 5) // nothing to reuse
					res, err := m.Generate(context.Background(), engine.Request{Tokens: prompt, MaxTokens: 64, IgnoreEOS: true, Raw: true}, nil)
					if err != nil {
						b.Fatal(err)
					}
					prefill, decode = max(prefill, res.Timing.PrefillTPS), max(decode, res.Timing.DecodeTPS)
				}
				b.ReportMetric(prefill, "prefill-tok/s")
				b.ReportMetric(decode, "decode-tok/s")
			})
		}
	}
}
