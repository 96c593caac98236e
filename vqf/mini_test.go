// SPDX-License-Identifier: Apache-2.0

package vqf_test

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"windhover/kernels"
	"windhover/vqf"
)

// miniArch is the model of the conformance vectors, docs/FORMAT.md section 17.6.
func miniArch() vqf.Arch {
	return vqf.Arch{
		Dim: 32, NLayers: 2, NHeads: 2, NKVHeads: 1, HeadDim: 32, FFNDim: 64, VocabSize: 16, MaxSeqLen: 1024,
		RopeTheta: 10000, NormEps: 1e-6, BosID: 1, EosID: 2, HasQNorm: 1, HeadDimFull: 32,
	}
}

// miniSpec is a file of that model as a converter plans it by default.
func miniSpec(mode vqf.Mode, fields int) vqf.Spec {
	return specOf(miniArch(), mode, vqf.Layout8x8, fields)
}

func specOf(a vqf.Arch, mode vqf.Mode, want vqf.Layout, fields int) vqf.Spec {
	q8, q4 := vqf.DefaultLayouts(a, mode, want)
	return vqf.Spec{Arch: a, Mode: mode, Q8: q8, Q4: q4, Fields: fields}
}

// sources numbers the source tensors of the vectors.
var sources = map[string]int{
	"token_embed": 0, "final_norm": 1, "attn_norm": 2, "ffn_norm": 3, "q_norm": 4, "k_norm": 5,
	"q": 6, "k": 7, "v": 8, "o": 9, "gate": 10, "up": 11, "down": 12, "lm": 13,
}

// source makes layer l of source tensor t.
func source(t, l, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32((37*i+11*t+5*l)%251-125) / 128
	}
	return x
}

func kernelLayout(q8 bool, l vqf.Layout) kernels.Layout {
	if !q8 {
		return map[vqf.Layout]kernels.Layout{vqf.LayoutRow: kernels.Q4Row, vqf.Layout4x4: kernels.Q4x4}[l]
	}
	return map[vqf.Layout]kernels.Layout{vqf.LayoutRow: kernels.Q8Row, vqf.Layout4x4: kernels.Q8x4, vqf.Layout8x8: kernels.Q8x8}[l]
}

// payload makes a tensor's bytes; layout says how its matrices are to lie.
func payload(t *testing.T, a vqf.Arch, mode vqf.Mode, e vqf.Tensor, layout vqf.Layout) []byte {
	t.Helper()
	shape, ok := a.Shape(e.Name)
	if !ok {
		t.Fatalf("no shape for %q", e.Name)
	}
	family, matrix, quantised := strings.Cut(e.Name, "_")
	quantised = quantised && (family == "q8" || family == "q4")
	src := e.Name
	if quantised {
		src = matrix
	}
	var out []byte
	for l := range shape.Parts {
		x := source(sources[src], l, shape.Rows*shape.Cols)
		switch {
		case e.Type == vqf.F32:
			for _, v := range x {
				out = binary.LittleEndian.AppendUint32(out, math.Float32bits(v))
			}
		case e.Type == vqf.F16:
			for _, v := range x {
				out = binary.LittleEndian.AppendUint16(out, kernels.F32ToF16Trunc(v))
			}
		case quantised:
			out = append(out, quantise(x, mode, family == "q8", shape, layout)...)
		default:
			t.Fatalf("cannot make %q", e.Name)
		}
	}
	return out
}

func quantise(x []float32, mode vqf.Mode, q8 bool, shape vqf.Shape, layout vqf.Layout) []byte {
	size := vqf.Q4BlockBytes
	if q8 {
		size = vqf.Q8BlockBytes
	}
	row := make([]byte, len(x)/vqf.BlockLen*size)
	switch {
	case mode == vqf.ModeQ4I:
		kernels.QuantizeQ4I(row, x)
	case mode == vqf.ModeG256:
		kernels.QuantizeG256(row, x)
	case q8:
		kernels.QuantizeQ8(row, x)
	default:
		kernels.QuantizeQ4(row, x)
	}
	out := make([]byte, len(row))
	kernels.Repack(out, row, shape.Rows, shape.Cols, kernelLayout(q8, layout))
	return out
}

// layoutOf is how the plan lays out the tensor.
func layoutOf(s vqf.Spec, name string) vqf.Layout {
	switch {
	case strings.HasPrefix(name, "q8_"):
		return s.Q8
	case strings.HasPrefix(name, "q4_"):
		return s.Q4
	}
	return vqf.LayoutRow
}

// writeMini writes the whole file of a specification; layout may override how
// single tensors lie, to make files that no writer here would.
func writeMini(t *testing.T, s vqf.Spec, layout func(name string) vqf.Layout, extra map[string]string) (string, vqf.Result) {
	t.Helper()
	if layout == nil {
		layout = func(name string) vqf.Layout { return layoutOf(s, name) }
	}
	for _, name := range []string{vqf.NameTokenizer, vqf.NameMeta} {
		if v, ok := extra[name]; ok {
			s.Extra = append(s.Extra, vqf.Extra{Name: name, Size: int64(len(v))})
		}
	}
	plan, err := vqf.NewPlan(s)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "mini.vqf")
	w, err := vqf.Create(path, plan)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	for _, e := range plan.Tensors {
		b := []byte(extra[e.Name])
		if len(b) == 0 {
			b = payload(t, s.Arch, s.Mode, e, layout(e.Name))
		}
		if err := w.WriteTensor(e.Name, b); err != nil {
			t.Fatal(err)
		}
	}
	res, err := w.Commit()
	if err != nil {
		t.Fatal(err)
	}
	return path, res
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// tempFile writes bytes to a file of their own.
func tempFile(t testing.TB, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.vqf")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// open opens and closes with the test.
func open(t *testing.T, path string, opt vqf.OpenOptions) *vqf.File {
	t.Helper()
	f, err := vqf.Open(path, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// patch returns a copy of b with little-endian words put at offsets.
func patch(b []byte, words map[int]uint32) []byte {
	c := append([]byte(nil), b...)
	for at, v := range words {
		binary.LittleEndian.PutUint32(c[at:], v)
	}
	return c
}
