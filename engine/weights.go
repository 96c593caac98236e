// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"

	"windhover/kernels"
	"windhover/vqf"
)

// weights are views of the mapped file; nothing is copied.
type weights struct {
	embed     []byte    // [vocab][dim] little-endian, binary16 or float32
	embedF32  bool      // else binary16
	finalNorm []float32 // [dim]
	layers    []layerWeights
	lm        kernels.Matrix // [vocab x dim]
	bytes     int64          // of all tensors in use
}

type layerWeights struct {
	attnNorm, ffnNorm []float32 // [dim]
	qNorm, kNorm      []float32 // [headDim], nil without Config.QKNorm

	q        kernels.Matrix // [heads*headDim x dim]
	k, v     kernels.Matrix // [kvHeads*headDim x dim]
	o        kernels.Matrix // [dim x heads*headDim]
	gate, up kernels.Matrix // [ffn x dim]
	down     kernels.Matrix // [dim x ffn]
}

// Families, as tensors are named: q4_q, q8_q …
const (
	familyQ4 = "q4"
	familyQ8 = "q8"
)

// chooseFamily picks the copy that computes: what is there, and of two what
// was asked for.
func chooseFamily(f *vqf.File, want string) (string, error) {
	switch want {
	case "", familyQ4, familyQ8:
	default:
		return "", badRequest("family %q, want q4 or q8", want)
	}
	switch q4, q8 := f.HasQ4(), f.HasQ8(); {
	case q4 && q8 && want == familyQ8:
		return familyQ8, nil
	case q4:
		return familyQ4, nil
	case q8:
		return familyQ8, nil
	}
	return "", fmt.Errorf("engine: %s: holds neither q4_* nor q8_* matrices", f.Path())
}

// layoutOf translates the file's layout of a family to the kernels' name.
func layoutOf(f *vqf.File, family string) (kernels.Layout, error) {
	file := f.Q4Layout
	names := map[vqf.Layout]kernels.Layout{vqf.LayoutRow: kernels.Q4Row, vqf.Layout4x4: kernels.Q4x4}
	if family == familyQ8 {
		file = f.Q8Layout
		names = map[vqf.Layout]kernels.Layout{
			vqf.LayoutRow: kernels.Q8Row, vqf.Layout4x4: kernels.Q8x4, vqf.Layout8x8: kernels.Q8x8,
		}
	}
	l, err := file()
	if err != nil {
		return 0, err
	}
	k, ok := names[l]
	if !ok {
		return 0, unsupported("%s matrices in layout %v", family, l)
	}
	return k, nil
}

// binder collects the first error, so that the list of tensors reads as one.
type binder struct {
	f      *vqf.File
	layout kernels.Layout
	bytes  int64
	err    error
}

func (b *binder) fail(format string, args ...any) {
	if b.err == nil {
		b.err = fmt.Errorf(format, args...)
	}
}

func (b *binder) data(name string) []byte {
	data, err := b.f.Data(name)
	if err != nil {
		b.fail("engine: %w", err)
		return nil
	}
	b.bytes += int64(len(data))
	return data
}

// floats returns an F32 tensor of n values for each of count parts.
func (b *binder) floats(name string, count, n int) [][]float32 {
	parts := make([][]float32, count)
	all, err := b.f.Floats(name)
	if err != nil {
		b.fail("engine: %w", err)
		return parts
	}
	b.bytes += 4 * int64(len(all))
	if len(all) != count*n {
		b.fail("engine: tensor %q: %d values, want %d x %d", name, len(all), count, n)
		return parts
	}
	for i := range parts {
		parts[i] = all[i*n : (i+1)*n : (i+1)*n]
	}
	return parts
}

// matrices returns count matrices [rows x cols] that lie one after the other.
func (b *binder) matrices(name string, count, rows, cols int) []kernels.Matrix {
	mats := make([]kernels.Matrix, count)
	data := b.data(name)
	if b.err != nil {
		return mats
	}
	size := len(data) / count
	if size*count != len(data) {
		b.fail("engine: tensor %q: %d bytes do not divide into %d layers", name, len(data), count)
		return mats
	}
	for i := range mats {
		m, err := kernels.NewMatrix(data[i*size:(i+1)*size:(i+1)*size], rows, cols, b.layout)
		if err != nil {
			b.fail("engine: tensor %q, layer %d: %w", name, i, err)
			return mats
		}
		mats[i] = m
	}
	return mats
}

// bind finds every tensor the family needs (docs/FORMAT.md section 5.1).
func bind(f *vqf.File, c *Config, family string) (*weights, error) {
	layout, err := layoutOf(f, family)
	if err != nil {
		return nil, err
	}
	b := &binder{f: f, layout: layout}
	p := family + "_"
	nl, qo, ko := c.Layers, c.QO(), c.KO()

	w := &weights{layers: make([]layerWeights, nl)}
	w.embed = b.data("token_embed")
	w.embedF32 = f.Flags()&vqf.FlagEmbF16 == 0
	elem := 2
	if w.embedF32 {
		elem = 4
	}
	if b.err == nil && len(w.embed) != elem*c.Vocab*c.Dim {
		b.fail("engine: tensor %q: %d bytes, want %d x %d x %d", "token_embed", len(w.embed), c.Vocab, c.Dim, elem)
	}
	w.finalNorm = b.floats("final_norm", 1, c.Dim)[0]
	attnNorm, ffnNorm := b.floats("attn_norm", nl, c.Dim), b.floats("ffn_norm", nl, c.Dim)
	qNorm, kNorm := make([][]float32, nl), make([][]float32, nl)
	if c.QKNorm {
		qNorm, kNorm = b.floats("q_norm", nl, c.HeadDim), b.floats("k_norm", nl, c.HeadDim)
	}
	q := b.matrices(p+"q", nl, qo, c.Dim)
	k := b.matrices(p+"k", nl, ko, c.Dim)
	v := b.matrices(p+"v", nl, ko, c.Dim)
	o := b.matrices(p+"o", nl, c.Dim, qo)
	gate := b.matrices(p+"gate", nl, c.FFN, c.Dim)
	up := b.matrices(p+"up", nl, c.FFN, c.Dim)
	down := b.matrices(p+"down", nl, c.Dim, c.FFN)
	w.lm = b.matrices(p+"lm", 1, c.Vocab, c.Dim)[0]
	if b.err != nil {
		return nil, b.err
	}
	for l := range w.layers {
		w.layers[l] = layerWeights{
			attnNorm: attnNorm[l], ffnNorm: ffnNorm[l], qNorm: qNorm[l], kNorm: kNorm[l],
			q: q[l], k: k[l], v: v[l], o: o[l], gate: gate[l], up: up[l], down: down[l],
		}
	}
	w.bytes = b.bytes
	return w, nil
}
