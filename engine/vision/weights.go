// SPDX-License-Identifier: Apache-2.0

package vision

import (
	"fmt"
	"math"
	"unsafe"

	"windhover/kernels"
	"windhover/vqf"
)

// shape is the tower's geometry.
type shape struct {
	dim     int // of a patch in the tower
	heads   int
	headDim int
	ffn     int
	ffnPad  int // columns of fc2: ffn rounded up to whole blocks
	out     int // of a place, the text model's width
	side    int // of the position table
	eps     float32
}

// merged is the width of a place's patches together.
func (t *Tower) merged() int { return t.s.dim * t.cfg.Merge * t.cfg.Merge }

// weights are views of the file.
type weights struct {
	patch     []float32 // [dim][patch values]
	patchBias []float32 // [dim]
	position  []float32 // [side*side or more][dim]
	blocks    []block
	merger    merger
	deepstack []merger
}

type block struct {
	qkv, proj, fc1, fc2                 kernels.Matrix // [3*dim][dim], [dim][dim], [ffn][dim], [dim][ffnPad]
	qkvBias, projBias, fc1Bias, fc2Bias []float32
	norm1, bias1, norm2, bias2          []float32 // [dim]
}

// merger makes a place of its patches. Its norm goes over each patch, or over
// all of them together.
type merger struct {
	after      int       // the block whose output it takes; the last one's for the main merger
	norm, bias []float32 // [dim], or [merged]
	f1, f1Bias []float32 // [merged][merged], [merged]
	f2, f2Bias []float32 // [out][merged], [out]
}

// bind finds every tensor of the tower.
func bind(f *vqf.File, s *shape, data func(name string) ([]byte, error)) (*weights, error) {
	a := f.Arch()
	w := &weights{blocks: make([]block, a.VisDepth), deepstack: make([]merger, a.VisDSCount)}
	b := binder{f: f, arch: &a, data: data}
	w.patch, w.patchBias, w.position = b.one("v_patch_embed"), b.one("v_patch_bias"), b.one("v_pos_embed")
	qkv, proj, fc1, fc2 := b.matrices("v_q8_qkv"), b.matrices("v_q8_proj"), b.matrices("v_q8_fc1"), b.matrices("v_q8_fc2")
	qkvBias, projBias, fc1Bias, fc2Bias := b.parts("v_qkv_bias"), b.parts("v_proj_bias"), b.parts("v_fc1_bias"), b.parts("v_fc2_bias")
	norm1, bias1, norm2, bias2 := b.parts("v_norm1_w"), b.parts("v_norm1_b"), b.parts("v_norm2_w"), b.parts("v_norm2_b")
	w.merger = merger{
		after: len(w.blocks) - 1, norm: b.one("v_merger_nw"), bias: b.one("v_merger_nb"),
		f1: b.one("v_merger_f1w"), f1Bias: b.one("v_merger_f1b"), f2: b.one("v_merger_f2w"), f2Bias: b.one("v_merger_f2b"),
	}
	if len(w.deepstack) > 0 {
		norm, bias := b.parts("v_ds_nw"), b.parts("v_ds_nb")
		f1, f1Bias, f2, f2Bias := b.parts("v_ds_f1w"), b.parts("v_ds_f1b"), b.parts("v_ds_f2w"), b.parts("v_ds_f2b")
		for i := range w.deepstack {
			if b.err == nil {
				w.deepstack[i] = merger{int(a.VisDSIdx[i]), norm[i], bias[i], f1[i], f1Bias[i], f2[i], f2Bias[i]}
			}
		}
	}
	if b.err != nil {
		return nil, b.err
	}
	for i := range w.blocks {
		w.blocks[i] = block{
			qkv: qkv[i], proj: proj[i], fc1: fc1[i], fc2: fc2[i],
			qkvBias: qkvBias[i], projBias: projBias[i], fc1Bias: fc1Bias[i], fc2Bias: fc2Bias[i],
			norm1: norm1[i], bias1: bias1[i], norm2: norm2[i], bias2: bias2[i],
		}
	}
	if len(w.position) < s.side*s.side*s.dim {
		return nil, fmt.Errorf("vision: %s: position table of %d values for a square of %d: %w", f.Path(), len(w.position), s.side, vqf.ErrFormat)
	}
	return w, nil
}

// binder keeps the first error.
type binder struct {
	f    *vqf.File
	arch *vqf.Arch
	data func(name string) ([]byte, error) // Options.Data, or the file's
	err  error
}

func (b *binder) fail(err error) {
	if b.err == nil {
		b.err = fmt.Errorf("vision: %w", err)
	}
}

// one is a tensor as a whole.
func (b *binder) one(name string) []float32 {
	t, ok := b.f.Tensor(name)
	if ok && t.Type != vqf.F32 {
		b.fail(fmt.Errorf("%s: tensor %q has type %v, want F32: %w", b.f.Path(), name, t.Type, vqf.ErrFormat))
		return nil
	}
	data, err := b.data(name)
	if err != nil {
		b.fail(err)
		return nil
	}
	p := unsafe.SliceData(data)
	if len(data)%4 != 0 || uintptr(unsafe.Pointer(p))%4 != 0 {
		b.fail(fmt.Errorf("%s: tensor %q: %d bytes at %p are no float32 values: %w", b.f.Path(), name, len(data), p, vqf.ErrFormat))
		return nil
	}
	// Files are little-endian, as are the machines this runs on.
	return unsafe.Slice((*float32)(unsafe.Pointer(p)), len(data)/4)
}

// parts is a tensor by its parts. The sizes were held to the header when the
// file was opened.
func (b *binder) parts(name string) [][]float32 {
	x := b.one(name)
	s, ok := b.arch.Shape(name)
	if !ok || s.Parts*s.Rows*s.Cols != len(x) {
		b.fail(fmt.Errorf("%s: tensor %q: %d values: %w", b.f.Path(), name, len(x), vqf.ErrFormat))
	}
	if b.err != nil {
		return nil
	}
	n := s.Rows * s.Cols
	parts := make([][]float32, s.Parts)
	for i := range parts {
		parts[i] = x[i*n:][:n:n]
	}
	return parts
}

// matrices is a quantised tensor by its parts, which are row-major in any file.
func (b *binder) matrices(name string) []kernels.Matrix {
	data, err := b.data(name)
	s, ok := b.arch.Shape(name)
	if err == nil && (!ok || s.Parts == 0 || len(data)%s.Parts != 0) {
		err = fmt.Errorf("%s: tensor %q: %d bytes in %d parts: %w", b.f.Path(), name, len(data), s.Parts, vqf.ErrFormat)
	}
	if err != nil {
		b.fail(err)
		return nil
	}
	n := len(data) / s.Parts
	list := make([]kernels.Matrix, s.Parts)
	for i := range list {
		if list[i], err = kernels.NewMatrix(data[i*n:][:n:n], s.Rows, s.Cols, kernels.Q8Row); err != nil {
			b.fail(fmt.Errorf("%s: tensor %q: %w", b.f.Path(), name, err))
			return nil
		}
	}
	return list
}

// shapeOf reads the header. The file's sizes were held to it when it was opened.
func shapeOf(f *vqf.File) (*shape, error) {
	a := f.Arch()
	s := &shape{
		dim: int(a.VisHidden), heads: int(a.VisHeads), ffn: int(a.VisFFN), out: int(a.VisOutDim),
		side: int(math.Sqrt(float64(a.VisMaxPos))), eps: a.NormEps,
	}
	if s.heads < 1 || s.dim%s.heads != 0 || s.dim/s.heads%4 != 0 {
		return nil, fmt.Errorf("vision: %s: heads of %d/%d values, want a multiple of 4: %w", f.Path(), s.dim, s.heads, vqf.ErrUnsupported)
	}
	s.headDim = s.dim / s.heads
	s.ffnPad = (s.ffn + kernels.BlockLen - 1) / kernels.BlockLen * kernels.BlockLen
	return s, nil
}
