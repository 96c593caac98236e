// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"

	"windhover/kernels"
	"windhover/vqf"
	"windhover/vqf/convert"
)

// The report's numbers are those of the plain formula on what is in the file,
// and t_meta has them too.
func TestQuality(t *testing.T) {
	m := mini{dim: 64, layers: 2, heads: 4, kv: 2, hd: 32, ff: 96, vocab: 48, qnorm: true, tied: true}
	src := m.hfDir(t, "qwen3", "F32", func(_ map[string]any, v map[string][]float32) {
		v["model.layers.1.mlp.down_proj.weight"][100] = 3.3 // one block is coarser
	})
	file := m.ggufFile(t, "qwen3", "F32", func(_ *ggufWriter, v map[string][]float32) {
		v["model.layers.1.mlp.down_proj.weight"][100] = 3.3
	})
	_, r := run(t, src, convert.Options{Mode: "dual"})
	dst, again := run(t, file, convert.Options{Mode: "dual", Threads: 7, Chunk: 8, Q8Layout: "row"})
	if got, want := fmt.Sprint(again.Quality), fmt.Sprint(r.Quality); got != want {
		t.Errorf("other threads, pieces and layout give\n%s, not\n%s", got, want)
	}
	f, err := vqf.Open(dst, vqf.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var meta struct {
		Errors map[string]float64 `json:"errors"`
		Max    map[string]float64 `json:"max_errors"`
	}
	if err := json.Unmarshal(f.Meta(), &meta); err != nil {
		t.Fatal(err)
	}
	if len(r.Errors) != 16 || len(r.MaxErrors) != 16 || len(meta.Errors) != 16 || len(meta.Max) != 16 || len(r.Quality) != 22 {
		t.Fatalf("%d, %d, %d, %d tensors of %d", len(r.Errors), len(r.MaxErrors), len(meta.Errors), len(meta.Max), len(r.Quality))
	}
	near := func(a, b, part float64) bool { return math.Abs(a-b) <= part*math.Abs(b) }
	for _, q := range r.Quality {
		if !strings.HasPrefix(q.Tensor, "q") || !strings.HasPrefix(q.Type, "Q") {
			if q.Error != 0 || q.Max != 0 || q.PartErrors != nil {
				t.Errorf("%s is not quantised and has an error: %+v", q.Tensor, q)
			}
			continue
		}
		want, most := plainErrors(t, f, m, q)
		if !near(q.Error, want, 1e-6) || q.Max != most || !near(meta.Errors[q.Tensor], want, 1e-3) || !near(meta.Max[q.Tensor], most, 1e-3) {
			t.Errorf("%s: error %v, in t_meta %v, want %v; largest %v, in t_meta %v, want %v", q.Tensor, q.Error, meta.Errors[q.Tensor], want, q.Max, meta.Max[q.Tensor], most)
		}
		if r.Errors[q.Tensor] != q.Error || r.MaxErrors[q.Tensor] != q.Max {
			t.Errorf("%s: errors %v and %v", q.Tensor, r.Errors[q.Tensor], r.MaxErrors[q.Tensor])
		}
	}
	text := r.QualityTable()
	for _, want := range []string{`Q4_0 +2 +64 +96 +0\.0 +\d\.\d{3}% +\d\.\d\de-0\d +q4_down\n`, ` all 22 tensors\n`, `LAYER +q8_q `, `LAYER +q4_q `,
		`\n +1( +\d+\.\d{3}%[ *]){6} +\d+\.\d{3}%\* +\d\.\d\de-0\d +q8_down\n`} {
		if !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("the table lacks %q:\n%s", want, text)
		}
	}
}

// plainErrors computes what a quality says from the file and the mini's values.
func plainErrors(t *testing.T, f *vqf.File, m mini, q convert.Quality) (relative, most float64) {
	t.Helper()
	data, err := f.Data(q.Tensor)
	if err != nil {
		t.Fatal(err)
	}
	layout := kernels.Q8Row
	if q.Type == "Q4_0" {
		layout = kernels.Q4x4
	}
	x, err := kernels.NewMatrix(data, q.Parts*q.Rows, q.Cols, layout)
	if err != nil {
		t.Fatal(err)
	}
	role := map[string]int{"q": 6, "k": 7, "v": 8, "o": 9, "gate": 10, "up": 11, "down": 12, "lm": 0}[q.Tensor[3:]]
	row, at := make([]float32, q.Cols), 0
	var lost, all float64
	for _, w := range m.weights() {
		if w.t != role {
			continue
		}
		v := w.values()
		if w.t == 12 && w.layer == 1 {
			v[100] = 3.3
		}
		for ; len(v) > 0; v = v[q.Cols:] {
			x.DequantizeRow(row, at)
			at++
			for i := range row {
				lost += math.Pow(float64(v[i])-float64(row[i]), 2)
				all += float64(v[i]) * float64(v[i])
				most = max(most, math.Abs(float64(v[i]-row[i])))
			}
		}
	}
	if at != q.Parts*q.Rows {
		t.Fatalf("%s: %d rows of %d", q.Tensor, at, q.Parts*q.Rows)
	}
	return math.Sqrt(lost / all), most
}
