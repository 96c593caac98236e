// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"windhover/vqf"
)

// Tolerances, and where they come from: the goldens' measured_deviation. The
// reference path differs from the golden arithmetic in the order of float32
// sums only; int8 activations are noise of about half of what is allowed.
const (
	refOfRange   = 1e-3 // largest difference of a logit, as a share of their range
	int8RelRMS   = 0.06
	int8MeanKL   = 0.02
	clearMargin  = 0.8 // argmax must agree where best and second are this far apart
	hiddenRelRMS = 0.05
)

// goldenCase is a model, the mode of its file and the variant to compare with.
type goldenCase struct {
	model, variant string
	mode           vqf.Mode
}

// goldenCases are all that can be run here: from testdata always, from the
// large set where it is and the run is not short.
func goldenCases() []goldenCase {
	cases := []goldenCase{
		{"qwen3-tiny", "q8_0", vqf.ModeQ8}, {"qwen3-tiny", "q4_0", vqf.ModeQ4},
		{"llama-tiny", "vqf_q8", vqf.ModeQ8},
	}
	if shared() != "" && !testing.Short() {
		cases = append(cases, goldenCase{"llama-tiny", "vqf_q4", vqf.ModeQ4})
		for _, model := range []string{"qwen3-tiny-sharded", "qwen3-tiny-untied", "qwen3vl-tiny"} {
			cases = append(cases, goldenCase{model, "q8_0", vqf.ModeQ8}, goldenCase{model, "q4_0", vqf.ModeQ4})
		}
	}
	return cases
}

// activations are the paths to compare. The reference path is plain Go, which
// takes minutes under the race detector or an emulator: those runs are short,
// and leave it to TestReferenceMatchesGolden.
func activations() []string {
	if testing.Short() {
		return []string{"int8"}
	}
	return []string{"int8", "f32"}
}

// goldenDir prefers the large set: it has what testdata has and more.
func goldenDir(model string) string {
	if dir := shared("models", model); dir != "" {
		return dir
	}
	return filepath.Join("testdata", model)
}

func (c goldenCase) String() string { return c.model + "/" + string(c.mode) }

// open returns the goldens, the variant's logits and the loaded model.
func (c goldenCase) open(t testing.TB, layout vqf.Layout, opt Options) (*golden, []float32, *Model) {
	t.Helper()
	dir := goldenDir(c.model)
	path := filepath.Join(dir, "model.vqf")
	if _, err := os.Stat(path); err != nil {
		path = readHF(t, dir).write(t, c.mode, layout)
	}
	g := readGolden(t, dir)
	if g.Same != "" {
		dir = goldenDir(g.Same)
		g = readGolden(t, dir)
	}
	logits := readNPY(t, filepath.Join(dir, "golden", g.Variants[c.variant].Logits.File))
	return g, logits, load(t, path, opt)
}

var update = flag.Bool("update", false, "write the VQF files in testdata anew")

// The VQF files among the test data are those that their sources give.
func TestGoldenFile(t *testing.T) {
	if shared() == "" {
		t.Skip("the large set of goldens is not here")
	}
	for model, mode := range map[string]vqf.Mode{"llama-tiny": vqf.ModeQ8, "qwen3moe-tiny": vqf.ModeQ4} {
		made := readFile(t, readHF(t, shared("models", model)).write(t, mode, vqf.Layout8x8))
		path := filepath.Join("testdata", model, "model.vqf")
		if *update {
			if err := os.WriteFile(path, made, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(readFile(t, path), made) {
			t.Errorf("%s is not what the source gives; go test -run TestGoldenFile -update writes it", path)
		}
	}
}

// load loads and closes at the end of the test.
func load(t testing.TB, path string, opt Options) *Model {
	t.Helper()
	m, err := Load(path, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return m
}

// logitsOf collects the logits of a whole sequence, [tokens][vocab].
func logitsOf(t testing.TB, m *Model, tokens []int32, chunk int) []float32 {
	t.Helper()
	var all []float32
	err := m.Logits(context.Background(), tokens, chunk, func(pos int, logits []float32) error {
		if pos*m.cfg.Vocab != len(all) {
			return fmt.Errorf("position %d after %d values", pos, len(all))
		}
		all = append(all, logits...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestReferenceMatchesGolden(t *testing.T) {
	for _, c := range goldenCases() {
		t.Run(c.String(), func(t *testing.T) {
			g, want, m := c.open(t, vqf.Layout8x8, Options{Activations: "f32"})
			worst, lo, hi := 0.0, math.Inf(1), math.Inf(-1)
			for _, p := range g.Prompts {
				got := logitsOf(t, m, p.IDs, 0)
				w := want[p.Rows[0]*g.Vocab : p.Rows[1]*g.Vocab]
				if len(got) != len(w) {
					t.Fatalf("%s: %d logits, want %d", p.Name, len(got), len(w))
				}
				for i := range w {
					worst = max(worst, math.Abs(float64(got[i])-float64(w[i])))
					lo, hi = min(lo, float64(w[i])), max(hi, float64(w[i]))
				}
			}
			t.Logf("worst difference %.2e of the range %.1f", worst/(hi-lo), hi-lo)
			if worst > refOfRange*(hi-lo) {
				t.Errorf("worst difference %.3g, range %.3g: %.2e of it, want at most %.0e", worst, hi-lo, worst/(hi-lo), refOfRange)
			}
		})
	}
}

func TestInt8MatchesGolden(t *testing.T) {
	for _, c := range goldenCases() {
		t.Run(c.String(), func(t *testing.T) {
			g, want, m := c.open(t, vqf.Layout8x8, Options{})
			var d deviation
			for _, p := range g.Prompts {
				got := logitsOf(t, m, p.IDs, 0)
				for i := range p.IDs {
					d.row(got[i*g.Vocab:][:g.Vocab], want[(p.Rows[0]+i)*g.Vocab:][:g.Vocab])
				}
			}
			d.check(t)
		})
	}
}

// deviation gathers how far rows of logits are from what they should be.
type deviation struct {
	err2, want2, kl float64
	rows, flips     int
	flipMargin      float64 // the widest margin an argmax was lost at
}

func (d *deviation) row(got, want []float32) {
	var best, second int
	for i, w := range want {
		d.err2 += sqr(float64(got[i]) - float64(w))
		d.want2 += sqr(float64(w))
		if w > want[best] {
			best, second = i, best
		} else if i != best && (second == best || w > want[second]) {
			second = i
		}
	}
	gz, wz := logSumExp(got), logSumExp(want)
	for i, w := range want {
		lp := float64(w) - wz
		d.kl += math.Exp(lp) * (lp - (float64(got[i]) - gz))
	}
	d.rows++
	if id, err := argmax(got, make([]float32, maxBlocks(len(got)))); err != nil || int(id) != best {
		d.flips++
		d.flipMargin = max(d.flipMargin, float64(want[best]-want[second]))
	}
}

func (d *deviation) check(t *testing.T) {
	t.Helper()
	rms, kl := math.Sqrt(d.err2/d.want2), d.kl/float64(d.rows)
	t.Logf("relative RMS %.4f, mean KL %.5f, argmax lost %d of %d, at margins up to %.3f", rms, kl, d.flips, d.rows, d.flipMargin)
	if !(rms <= int8RelRMS) {
		t.Errorf("relative RMS %.4f, want at most %v", rms, int8RelRMS)
	}
	if !(kl <= int8MeanKL) {
		t.Errorf("mean KL %.5f, want at most %v", kl, int8MeanKL)
	}
	if d.flipMargin > clearMargin {
		t.Errorf("argmax lost at a margin of %.3f, want none over %v", d.flipMargin, clearMargin)
	}
}

func sqr(x float64) float64 { return x * x }

func TestGreedyMatchesGolden(t *testing.T) {
	for _, c := range goldenCases() {
		for _, act := range activations() {
			t.Run(c.String()+"/"+act, func(t *testing.T) {
				g, _, m := c.open(t, vqf.Layout8x8, Options{Activations: act})
				limit := clearMargin
				if act == "f32" {
					limit = 0.02 // 1e-3 of a range of some 20
				}
				for _, p := range g.Prompts {
					want := g.Variants[c.variant].Greedy[p.Name]
					got, margins, err := m.Greedy(context.Background(), p.IDs, len(want.IDs))
					if err != nil {
						t.Fatal(err)
					}
					for i, id := range want.IDs {
						if want.Margins[i] < limit && !c.wide(p.Name) {
							break
						}
						if got[i] != id {
							t.Errorf("%s: token %d is %d (margin %.3f), want %d (margin %.3f)", p.Name, i, got[i], margins[i], id, want.Margins[i])
							break
						}
					}
				}
			})
		}
	}
}

// wide tells whether a prompt was chosen to have wide margins all the way for
// this variant: all its tokens must come out.
func (c goldenCase) wide(prompt string) bool {
	return prompt == "random_12_wide_q8_0" && c.mode == vqf.ModeQ8 || prompt == "random_20_wide_q4_0" && c.mode == vqf.ModeQ4
}

// Long sequences go through several chunks and attend over hundreds of
// positions. Their goldens are of the weights as stored and, for the last four
// positions, of Q8_0.
func TestLongMatchesGolden(t *testing.T) {
	for _, c := range goldenCases() {
		if c.variant != "q8_0" && c.variant != "vqf_q8" {
			continue
		}
		for _, act := range activations() {
			t.Run(c.String()+"/"+act, func(t *testing.T) {
				g, _, m := c.open(t, vqf.Layout8x8, Options{Activations: act, Chunk: 128})
				dir := goldenDir(c.model)
				if c.model == "qwen3-tiny-sharded" {
					dir = goldenDir("qwen3-tiny")
				}
				got := logitsOf(t, m, g.Long.IDs, 0)
				lost := 0
				for i, want := range g.Long.Argmax {
					id, err := argmax(got[i*g.Vocab:][:g.Vocab], make([]float32, maxBlocks(g.Vocab)))
					if err != nil {
						t.Fatal(err)
					}
					if id != want {
						lost++
						if g.Long.Margin[i] > clearMargin {
							t.Errorf("position %d: best %d, want %d with a margin of %.3f", i, id, want, g.Long.Margin[i])
						}
					}
				}
				t.Logf("argmax of the stored weights lost at %d of %d positions", lost, len(g.Long.Argmax))
				var d deviation
				last := readNPY(t, filepath.Join(dir, "golden", g.Long.Last4.File))
				tail := got[len(got)-len(last):]
				for i := 0; i < len(last); i += g.Vocab {
					d.row(tail[i:][:g.Vocab], last[i:][:g.Vocab])
				}
				d.check(t)
			})
		}
	}
}

// hidden is a prompt and the reference's states for it, [layers+2][tokens][dim].
func (c goldenCase) hidden(t *testing.T, g *golden) (ids []int32, states []float32) {
	t.Helper()
	dir := goldenDir(c.model)
	if c.model == "qwen3-tiny-sharded" {
		dir = goldenDir("qwen3-tiny")
	}
	for _, p := range g.Prompts {
		if p.Name == g.Hidden.Prompt {
			return p.IDs, readNPY(t, filepath.Join(dir, "golden", g.Hidden.Q8.File))
		}
	}
	t.Fatalf("no prompt %s", g.Hidden.Prompt)
	return nil, nil
}

func TestHiddenStatesMatchGolden(t *testing.T) {
	for _, c := range goldenCases() {
		if c.variant != "q8_0" && c.variant != "vqf_q8" {
			continue
		}
		for _, act := range activations() {
			t.Run(c.String()+"/"+act, func(t *testing.T) {
				g, _, m := c.open(t, vqf.Layout8x8, Options{Activations: act})
				ids, want := c.hidden(t, g)
				limit := hiddenRelRMS
				if act == "f32" {
					// llama-tiny's q8_0 has the embedding rounded where the file's is cut.
					limit = 2e-3
				}
				seen := 0
				m.st.trace = func(layer int, x []float32) {
					w := want[layer*len(ids)*m.cfg.Dim:][:len(x)]
					if rms := relativeRMS(x, w); !(rms <= limit) {
						t.Errorf("entry %d: relative RMS %.4f, want at most %v", layer, rms, limit)
					}
					seen++
				}
				logitsOf(t, m, ids, 0)
				if seen != m.cfg.Layers+2 {
					t.Errorf("%d entries seen, want %d", seen, m.cfg.Layers+2)
				}
			})
		}
	}
}

// relativeRMS is how far got is from want, as a part of want.
func relativeRMS(got, want []float32) float64 {
	var err2, want2 float64
	for i := range want {
		err2 += sqr(float64(got[i]) - float64(want[i]))
		want2 += sqr(float64(want[i]))
	}
	return math.Sqrt(err2 / want2)
}
