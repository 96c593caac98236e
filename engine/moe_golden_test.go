// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"windhover/vqf"
)

// A tie in the router flips an expert by any deviation, and a row is far off then:
// gaps that are clear to float32 arithmetic, and to int8 activations.
const (
	clearGapFloat = 2e-3
	clearGapInt8  = 0.2
)

// mixtureCase is a golden model of experts.
type mixtureCase struct {
	dir, variant string
	mode         vqf.Mode
}

func mixtureCases() []mixtureCase {
	list := []mixtureCase{{filepath.Join("testdata", "qwen3moe-tiny"), "q4_0", vqf.ModeQ4}}
	if dir := shared("models", "qwen3moe-tiny"); dir != "" && !testing.Short() {
		list = append(list, mixtureCase{dir, "q8_0", vqf.ModeQ8}, mixtureCase{dir, "q4_0", vqf.ModeQ4})
	}
	return list
}

// routing is what the goldens say of a prompt.
type routing struct {
	Gap     [][]float64 `json:"gap"`     // [layers][tokens] between the last chosen and the first rejected logit
	Experts [][][]int32 `json:"experts"` // [layers][tokens][topK], best first
}

func (c mixtureCase) open(t *testing.T, opt Options) (*golden, []float32, map[string]routing, []int, *Model) {
	t.Helper()
	g := readGolden(t, c.dir)
	var routes map[string]routing
	unmarshal(t, g.Router[c.variant], &routes)
	var safe map[string][]int
	unmarshal(t, g.Router["safe_rows_gap_0.2"], &safe)
	path := filepath.Join(c.dir, "model.vqf")
	if !strings.HasPrefix(c.dir, "testdata") {
		path = readHF(t, c.dir).write(t, c.mode, vqf.Layout8x8)
	}
	logits := readNPY(t, filepath.Join(c.dir, "golden", g.Variants[c.variant].Logits.File))
	return g, logits, routes, safe[c.variant], load(t, path, opt)
}

// routesOf collects the experts chosen for a sequence, [layers][tokens][topK].
func routesOf(t *testing.T, m *Model, ids []int32, chunk int) ([]float32, [][][]int32) {
	t.Helper()
	routes := make([][][]int32, m.cfg.Layers)
	m.st.moe.routed = func(layer int, ids []int32) {
		for row := range slices.Chunk(slices.Clone(ids), m.cfg.TopK) {
			routes[layer] = append(routes[layer], row)
		}
	}
	defer func() { m.st.moe.routed = nil }()
	return logitsOf(t, m, ids, chunk), routes
}

func TestMixtureMatchesGolden(t *testing.T) {
	for _, c := range mixtureCases() {
		for _, act := range activations() {
			t.Run(c.dir+"/"+c.variant+"/"+act, func(t *testing.T) {
				g, want, routes, safe, m := c.open(t, Options{Activations: act})
				var d deviation
				worst, lo, hi, compared := 0.0, math.Inf(1), math.Inf(-1), 0
				for _, p := range g.Prompts {
					logits, chosen := routesOf(t, m, p.IDs, 0)
					r := routes[p.Name]
					for i := range p.IDs {
						row := p.Rows[0] + i
						clear := act == "f32" || slices.Contains(safe, row)
						for l := range r.Gap {
							// What int8 makes of the first layer does not depend on any choice before.
							if gap := r.Gap[l][i]; act == "f32" && gap < clearGapFloat || act != "f32" && (gap < clearGapInt8 || l > 0 && !clear) {
								continue
							}
							expect := slices.Sorted(slices.Values(r.Experts[l][i]))
							if !slices.Equal(chosen[l][i], expect) {
								t.Errorf("%s: layer %d, token %d: experts %v, want %v with a gap of %.3f", p.Name, l, i, chosen[l][i], expect, r.Gap[l][i])
							}
							compared++
						}
						if !clear {
							continue
						}
						w := want[row*g.Vocab:][:g.Vocab]
						got := logits[i*g.Vocab:][:g.Vocab]
						d.row(got, w)
						for j := range w {
							worst = max(worst, math.Abs(float64(got[j])-float64(w[j])))
							lo, hi = min(lo, float64(w[j])), max(hi, float64(w[j]))
						}
					}
				}
				t.Logf("%d choices of experts, %d rows of logits compared", compared, d.rows)
				if compared < 40 || d.rows < 30 {
					t.Errorf("%d choices and %d rows compared", compared, d.rows)
				}
				if act != "f32" {
					d.check(t)
				} else if worst > refOfRange*(hi-lo) {
					t.Errorf("worst difference %.3g, range %.3g: %.2e of it, want at most %.0e", worst, hi-lo, worst/(hi-lo), refOfRange)
				}
			})
		}
	}
}

// Greedy runs of the reference path only: with int8 activations an expert flips on
// the way.
func TestMixtureGreedyMatchesGolden(t *testing.T) {
	if testing.Short() {
		t.Skip("the reference path is slow")
	}
	for _, c := range mixtureCases() {
		t.Run(c.dir+"/"+c.variant, func(t *testing.T) {
			g, _, _, _, m := c.open(t, Options{Activations: "f32"})
			for _, p := range g.Prompts {
				want := g.Variants[c.variant].Greedy[p.Name]
				if len(want.IDs) == 0 {
					continue // the small set has none
				}
				got, margins, err := m.Greedy(context.Background(), p.IDs, len(want.IDs))
				if err != nil {
					t.Fatal(err)
				}
				for i, id := range want.IDs {
					if want.Margins[i] < 0.05 {
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
