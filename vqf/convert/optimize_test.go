// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"bytes"
	"errors"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"windhover/kernels"
	"windhover/vqf"
	"windhover/vqf/convert"
)

// optimised converts and returns the tensors by name.
func optimised(t *testing.T, src string, opt convert.Options) (map[string][]byte, *convert.Report) {
	t.Helper()
	out, r := run(t, src, opt)
	_, tensors := tensorBytes(t, out)
	tensors[vqf.NameMeta] = bytes.Clone(openVQF(t, out).Meta())
	return tensors, r
}

// metaQuantiser is the word in a file's metadata.
func metaQuantiser(t *testing.T, tensors map[string][]byte) string {
	t.Helper()
	_, rest, _ := strings.Cut(string(tensors[vqf.NameMeta]), `"quantiser":"`)
	word, _, _ := strings.Cut(rest, `"`)
	return word
}

// TestOptimize: four-bit weights become better, nothing else changes, and
// report and metadata say so.
func TestOptimize(t *testing.T) {
	src := miniature.ggufFile(t, "qwen3", "F32", nil)
	plain, before := optimised(t, src, convert.Options{Mode: "dual"})
	best, after := optimised(t, src, convert.Options{Mode: "dual", Optimize: true})
	if before.Quantiser != "B" || metaQuantiser(t, plain) != "B" || after.Quantiser != "B+mse" || metaQuantiser(t, best) != "B+mse" {
		t.Errorf("quantisers %q, %q in the metadata, then %q, %q", before.Quantiser, metaQuantiser(t, plain), after.Quantiser, metaQuantiser(t, best))
	}
	changed := 0
	for name, b := range plain {
		same := bytes.Equal(b, best[name])
		if four := strings.HasPrefix(name, "q4_"); !same && !four && name != vqf.NameMeta {
			t.Errorf("%s changed", name)
		} else if four && !same {
			changed++
		}
		if e := after.Errors[name]; e > before.Errors[name] {
			t.Errorf("%s: error %g, plain rounding has %g", name, e, before.Errors[name])
		}
	}
	if changed != 8 {
		t.Errorf("%d of 8 four-bit tensors changed", changed)
	}

	// The bytes of q4i hold the same codes, and chunks and threads do not matter.
	inBytes, _ := optimised(t, src, convert.Options{Mode: "q4i", Optimize: true})
	other, _ := optimised(t, src, convert.Options{Mode: "dual", Optimize: true, Chunk: 4, Threads: 3})
	if !maps.EqualFunc(best, other, bytes.Equal) {
		t.Error("chunk and threads change the result")
	}
	codes := inBytes["q8_down"]
	packed := best["q4_down"]
	row := make([]byte, len(packed))
	kernels.Unpack(row[:len(row)/2], packed[:len(row)/2], 32, 64, kernels.Q4x4)
	for b := range 64 {
		q4, q4i := row[b*kernels.Q4BlockBytes:], codes[b*kernels.Q8BlockBytes:]
		for j := range kernels.BlockLen {
			if c := int8(q4[2+j%16]>>(j/16*4)&15) - 8; c != int8(q4i[2+j]) || !bytes.Equal(q4[:2], q4i[:2]) {
				t.Fatalf("q4i, block %d: differs at value %d", b, j)
			}
		}
	}
}

// TestOptimizeLeavesQ8Alone: a file without four-bit weights is the same.
func TestOptimizeLeavesQ8Alone(t *testing.T) {
	src := miniature.ggufFile(t, "qwen3", "F32", nil)
	for _, mode := range []string{"q8", "g256"} {
		plain, _ := run(t, src, convert.Options{Mode: mode})
		same, r := run(t, src, convert.Options{Mode: mode, Optimize: true})
		if !bytes.Equal(readFile(t, plain), readFile(t, same)) {
			t.Errorf("%s: the file changed", mode)
		}
		if r.Quantiser != "B" || !strings.Contains(r.String(), "changed nothing") {
			t.Errorf("%s: the report says\n%s", mode, r)
		}
	}
}

// importanceOf makes an importance for a mini, whose columns count by f.
func importanceOf(m mini, f func(c int) float32) *convert.Importance {
	i := convert.NewImportance("a test")
	add := func(layer, cols int, roles ...string) {
		s := kernels.NewMoments(cols, 0)
		for c := range s.Square {
			s.Square[c] = f(c)
		}
		i.AddMoments(roles, layer, s)
	}
	for l := range m.layers {
		add(l, m.dim, "q", "k", "v")
		add(l, m.heads*m.hd, "o")
		add(l, m.dim, "gate", "up")
		add(l, m.ff, "down")
	}
	add(0, m.dim, "lm")
	return i
}

// TestImportance: columns that matter more become better than without.
func TestImportance(t *testing.T) {
	src := miniature.ggufFile(t, "qwen3", "F32", nil)
	heavy := func(c int) float32 {
		if c%8 == 0 {
			return 50
		}
		return 1
	}
	i := importanceOf(miniature, heavy)
	got, r := optimised(t, src, convert.Options{Mode: "q4", Optimize: true, Importance: i})
	if word := metaQuantiser(t, got); word != "B+mse+importance" || r.Quantiser != word || r.Importance != "a test" {
		t.Errorf("quantiser %q in the metadata, %q and %q in the report", word, r.Quantiser, r.Importance)
	}
	even, _ := optimised(t, src, convert.Options{Mode: "q4", Optimize: true, Importance: importanceOf(miniature, func(int) float32 { return 3 })})
	best, _ := optimised(t, src, convert.Options{Mode: "q4", Optimize: true})
	for name := range best {
		if strings.HasPrefix(name, "q4_") && !bytes.Equal(best[name], even[name]) {
			t.Errorf("%s: columns of one weight give other bytes than columns without", name)
		}
	}
	if a, b := downError(t, got, heavy), downError(t, best, heavy); !(a < b) {
		t.Errorf("weighted error of down %g, without weights %g", a, b)
	}
}

// downError is the weighted error of down in layer 0.
func downError(t *testing.T, tensors map[string][]byte, weight func(c int) float32) (sum float64) {
	t.Helper()
	data := tensors["q4_down"]
	m, err := kernels.NewMatrix(data[:len(data)/2], 32, 64, kernels.Q4x4)
	if err != nil {
		t.Fatal(err)
	}
	var src []float32
	for _, w := range miniature.weights() {
		if w.name == "model.layers.0.mlp.down_proj.weight" {
			src = w.values()
		}
	}
	row := make([]float32, 64)
	for r := range 32 {
		m.DequantizeRow(row, r)
		for c, v := range row {
			sum += float64(weight(c)) * math.Pow(float64(src[r*64+c]-v), 2)
		}
	}
	return sum
}

// TestImportanceRefused: what is of another model is told apart, and what is
// missing is told.
func TestImportanceRefused(t *testing.T) {
	src := miniature.ggufFile(t, "qwen3", "F32", nil)
	even := func(int) float32 { return 1 }
	wide, deep := miniature, miniature
	wide.ff, deep.layers = 96, 3
	mustFail(t, src, convert.Options{Mode: "q4", Optimize: true, Importance: importanceOf(wide, even)}, convert.ErrSource, "96 columns for down in layer 0")
	mustFail(t, src, convert.Options{Mode: "q4", Optimize: true, Importance: importanceOf(deep, even)}, convert.ErrSource, `knows "q" in 3 layers`)
	mustFail(t, src, convert.Options{Mode: "q4", Optimize: true, Importance: convert.NewImportance("nothing")}, convert.ErrSource, "none of the model's matrices")
	mustFail(t, src, convert.Options{Mode: "q4", Importance: importanceOf(miniature, even)}, convert.ErrOption, "optimising was not asked for")

	flat := miniature
	flat.layers = 1
	_, r := run(t, src, convert.Options{Mode: "q4", Optimize: true, Importance: importanceOf(flat, even)})
	if s := r.String(); !strings.Contains(s, "says nothing of q in layer 1, k in layer 1") {
		t.Errorf("the report says\n%s", s)
	}
}

// TestCalibrated: products of inputs make the rows' outputs better, whatever
// chunk and threads.
func TestCalibrated(t *testing.T) {
	src := miniature.ggufFile(t, "qwen3", "F32", nil)
	calibration := func() *convert.Importance {
		pool, err := kernels.NewPool([]int{0}, false)
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		g := kernels.NewGatherer(pool, 64)
		i := convert.NewImportance("a test")
		for l := range miniature.layers {
			for roles, cols := range map[string]int{"q k v": 32, "o": 64, "gate up": 32, "down": 64} {
				m := kernels.NewMoments(cols, 32)
				x := make([]float32, 100*cols)
				for k := range x {
					x[k] = float32((k*k*7+k*13)%31-15) / 8 * float32(1+k%cols%3)
				}
				if err := g.Add(m, x, 100); err != nil {
					t.Fatal(err)
				}
				i.AddMoments(strings.Fields(roles), l, m)
			}
		}
		return i
	}
	a, r := optimised(t, src, convert.Options{Mode: "q4", Optimize: true, Importance: calibration()})
	b, _ := optimised(t, src, convert.Options{Mode: "q4", Optimize: true, Importance: calibration(), Chunk: 4, Threads: 4})
	if !maps.EqualFunc(a, b, bytes.Equal) {
		t.Error("chunk and threads change the result")
	}
	best, _ := optimised(t, src, convert.Options{Mode: "q4", Optimize: true})
	if word := metaQuantiser(t, a); word != "B+mse+calibration" || bytes.Equal(a["q4_up"], best["q4_up"]) || !bytes.Equal(a["q4_lm"], best["q4_lm"]) {
		t.Errorf("quantiser %q; up is as without: %t; lm, which nothing is known of, is as without: %t",
			word, bytes.Equal(a["q4_up"], best["q4_up"]), bytes.Equal(a["q4_lm"], best["q4_lm"]))
	}
	if !strings.Contains(r.String(), "says nothing of lm") {
		t.Errorf("the report says\n%s", r)
	}
}

// TestExamine: what would be made, without making it.
func TestExamine(t *testing.T) {
	src := miniature.hfDir(t, "qwen3", "F32", nil)
	for mode, four := range map[string]bool{"auto": false, "q8": false, "q4": true, "dual": true, "q4i": true} {
		r, err := convert.Examine(src, convert.Options{Mode: mode})
		if err != nil || r.FourBit() != four {
			t.Errorf("%s: %v, four bits %t", mode, err, r.FourBit())
		}
	}
	if _, err := os.Stat(filepath.Join(src, "model.vqf")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something was made: %v", err)
	}
	if _, err := convert.Examine(t.TempDir(), convert.Options{}); err == nil {
		t.Error("an empty directory was examined")
	}
}
