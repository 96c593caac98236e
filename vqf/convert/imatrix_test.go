// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"windhover/kernels"
	"windhover/vqf/convert"
)

// TestImatrixFiles: both forms that llama.cpp writes say the same, up to a factor
// for each matrix.
func TestImatrixFiles(t *testing.T) {
	for name, experts := range map[string]int{"qwen3-tiny": 1, "qwen3moe-tiny": 8} {
		path := filepath.Join("testdata", "imatrix", name)
		g, err := convert.ReadImatrix(path + ".gguf")
		if err != nil {
			t.Fatal(err)
		}
		d, err := convert.ReadImatrix(path + ".dat")
		if err != nil {
			t.Fatal(err)
		}
		for role, want := range map[string]int{"q": 128, "k": 128, "v": 128, "gate": 128 * experts, "up": 128 * experts} {
			a, b := g.Columns(role, 1), d.Columns(role, 1)
			if len(a) != want || len(b) != want {
				t.Errorf("%s, %s: %d and %d columns, want %d", name, role, len(a), len(b), want)
				continue
			}
			for c := range a {
				first := c / 128 * 128 // of the expert
				if a[c] <= 0 || math.Abs(float64(b[c]/a[c]*a[first]/b[first]-1)) > 1e-5 {
					t.Errorf("%s, %s, column %d: %g and %g", name, role, c, a[c], b[c])
					break
				}
			}
		}
		if g.Columns("lm", 0) != nil || g.Columns("moe_router", 0) != nil {
			t.Errorf("%s: knows matrices that are not in it", name)
		}
	}
}

// TestImatrixModels: the files fit the models they were made from, and no other.
func TestImatrixModels(t *testing.T) {
	src := filepath.Join("..", "..", "..", "shared", "golden", "models", "qwen3-tiny")
	if _, err := os.Stat(src); err != nil {
		t.Skip("the large set of goldens is not here")
	}
	read := func(name string) *convert.Importance {
		i, err := convert.ReadImatrix(filepath.Join("testdata", "imatrix", name))
		if err != nil {
			t.Fatal(err)
		}
		return i
	}
	_, r := run(t, src, convert.Options{Mode: "q4", Optimize: true, Importance: read("qwen3-tiny.gguf")})
	if s := r.String(); r.Quantiser != "B+mse+importance" || !strings.Contains(s, "importance matrix qwen3-tiny.gguf says nothing of lm:") {
		t.Errorf("quantiser %s, report\n%s", r.Quantiser, s)
	}
	mustFail(t, src, convert.Options{Mode: "q4", Optimize: true, Importance: read("qwen3moe-tiny.dat")}, convert.ErrSource, "is not of this model")
}

// imatrixDat writes the older form.
func imatrixDat(entries map[string][]float32) []byte {
	b := u32(uint32(len(entries)))
	for name, values := range entries {
		b = append(append(b, u32(uint32(len(name)))...), name...)
		b = append(append(b, u32(3)...), u32(uint32(len(values)))...)
		for _, v := range values {
			b = append(b, u32(math.Float32bits(v))...)
		}
	}
	return b
}

func parse(b []byte) (*convert.Importance, error) {
	return convert.ParseImatrix(bytes.NewReader(b), int64(len(b)), "test")
}

// TestImatrixExperts: each expert's rows are made with its own columns.
func TestImatrixExperts(t *testing.T) {
	m := miniature
	m.experts, m.used = 4, 2
	src := m.ggufFile(t, "qwen3moe", "F32", nil)
	columns := func(n int) []float32 {
		w := make([]float32, n)
		for c := range w {
			w[c] = float32(1 + (c*c+c/m.dim)%9)
		}
		return w
	}
	entries := map[string][]float32{}
	for _, l := range []string{"0", "1"} {
		entries["blk."+l+".ffn_gate_up_exps.weight"] = columns(m.experts * m.dim)
		entries["blk."+l+".ffn_down_exps.weight"] = columns(m.experts * m.ff)
	}
	i, err := parse(imatrixDat(entries))
	if err != nil {
		t.Fatal(err)
	}
	got, _ := optimised(t, src, convert.Options{Mode: "q4", Optimize: true, Importance: i, Chunk: 12})
	values := m.expertValues("up", 1)
	layer := got["q4_up"][len(got["q4_up"])/2:]
	size := len(layer) / m.experts
	for e, v := range values {
		row := make([]byte, size)
		kernels.QuantizeQ4Optimal(row, v, m.dim, entries["blk.1.ffn_gate_up_exps.weight"][e*m.dim:][:m.dim])
		want := make([]byte, size)
		kernels.Repack(want, row, m.ff, m.dim, kernels.Q4x4)
		if !bytes.Equal(layer[e*size:][:size], want) {
			t.Errorf("up of expert %d in layer 1 is not made with its own columns", e)
		}
	}
	even, _ := optimised(t, src, convert.Options{Mode: "q4", Optimize: true})
	if bytes.Equal(even["q4_down"], got["q4_down"]) {
		t.Error("down is made without its columns")
	}
}

// TestImatrixRefused: what is no importance matrix is refused at once.
func TestImatrixRefused(t *testing.T) {
	good := imatrixDat(map[string][]float32{"blk.0.attn_q.weight": {1, 2}})
	patch := func(at int, v uint32) []byte {
		b := bytes.Clone(good)
		binary.LittleEndian.PutUint32(b[at:], v)
		return b
	}
	values := len(good) - 8
	model, err := os.ReadFile(filepath.Join("..", "gguf", "testdata", "llama-tiny-Q4_K_M.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	twice := append(bytes.Clone(good), good[4:]...)
	binary.LittleEndian.PutUint32(twice, 2)
	for name, c := range map[string]struct {
		file []byte
		want string
	}{
		"empty":            {nil, "the file ends"},
		"no entries":       {patch(0, 0), "number of matrices 0"},
		"negative count":   {patch(0, 1<<31), "number of matrices -"},
		"endless name":     {patch(4, 1<<30), "length of a name"},
		"endless values":   {patch(values-4, 1<<27), "the file ends after 8"},
		"absurd values":    {patch(values-4, 1<<31-1), "number of values"},
		"cut off":          {good[:len(good)-1], "the file ends after 7"},
		"NaN":              {patch(values, 0x7fc00000), "column 0 has importance NaN"},
		"infinite":         {patch(values+4, 0x7f800000), "column 1 has importance +Inf"},
		"negative":         {patch(values, math.Float32bits(-1)), "column 0 has importance -1"},
		"twice":            {twice, "there twice"},
		"nothing of ours":  {imatrixDat(map[string][]float32{"blk.0.ssm_in.weight": {1}, "blk.01.attn_q.weight": {1}, "blk.9999.attn_q.weight": {1}}), "names no matrix"},
		"a model":          {model, `want "imatrix"`},
		"no file format":   {[]byte("Once upon a time there was"), "number of matrices"},
		"unknown too long": {patch(values-4, 1<<27), "the file ends"},
	} {
		start := time.Now()
		_, err := parse(c.file)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("%s: %s", name, took)
		}
	}
	if _, err := convert.ReadImatrix(t.TempDir()); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a directory: %v", err)
	}
}

// FuzzImatrix: any bytes give an error or columns that are numbers.
func FuzzImatrix(f *testing.F) {
	for _, name := range []string{"qwen3-tiny.gguf", "qwen3-tiny.dat"} {
		b, err := os.ReadFile(filepath.Join("testdata", "imatrix", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add(imatrixDat(map[string][]float32{"output.weight": {1, 0, 3}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		i, err := parse(b)
		if err != nil {
			return
		}
		known := 0
		for _, role := range []string{"q", "k", "v", "o", "gate", "up", "down", "lm"} {
			for layer := range 1024 {
				for _, v := range i.Columns(role, layer) {
					if known++; !(v >= 0) || v > math.MaxFloat32 {
						t.Fatalf("%s in layer %d: %v", role, layer, v)
					}
				}
			}
		}
		if 4*known > 2*len(b) { // gate and up may share
			t.Fatalf("%d columns out of %d bytes", known, len(b))
		}
	})
}
