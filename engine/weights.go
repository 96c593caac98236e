// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"

	"windhover/kernels"
	"windhover/vqf"
)

// weights are what the forward pass computes with. Vectors are here; matrices and
// embeddings are asked of res.
type weights struct {
	res       residency
	embedF32  bool      // rows of res.embedding are [dim] float32, else binary16, little-endian
	finalNorm []float32 // [dim]
	layers    int
	layout    kernels.Layout
	bytes     int64 // held in memory: Need.Weights
}

type layerWeights struct {
	attnNorm, ffnNorm []float32 // [dim]
	qNorm, kNorm      []float32 // [headDim], nil without Config.QKNorm

	q        kernels.Matrix // [heads*headDim x dim]
	k, v     kernels.Matrix // [kvHeads*headDim x dim]
	o        kernels.Matrix // [dim x heads*headDim]
	gate, up kernels.Matrix // [ffn x dim]
	down     kernels.Matrix // [dim x ffn]

	// Of a mixture of experts. What gate, up and down hold then is the residency's
	// matter: the forward pass asks it for experts.
	router []float32 // [experts][dim]
}

// all are the matrices in the order of Config.layerMatrices.
func (w *layerWeights) all() [7]*kernels.Matrix {
	return [...]*kernels.Matrix{&w.q, &w.k, &w.v, &w.o, &w.gate, &w.up, &w.down}
}

// setVectors takes over what is no matrix: it stays in memory in every residency.
func (w *layerWeights) setVectors(from *layerWeights) {
	w.attnNorm, w.ffnNorm, w.qNorm, w.kNorm, w.router = from.attnNorm, from.ffnNorm, from.qNorm, from.kNorm, from.router
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

// bind finds every tensor the family needs (docs/FORMAT.md section 5.1) and holds
// them as admission chose. stamp is that of the file when it was verified.
func bind(f *vqf.File, c *Config, family string, need Need, stamp vqf.Stamp, workers int) (*weights, error) {
	layout, err := layoutOf(f, family)
	if err != nil {
		return nil, err
	}
	w := &weights{layers: c.Layers, layout: layout, embedF32: f.Flags()&vqf.FlagEmbF16 == 0, bytes: need.Weights}
	b := &binder{f: f, c: c, family: family, layout: layout}
	if f.Flags()&vqf.FlagEnc == 0 && need.Residency == ResidencyFull {
		m := b.mapped()
		if w.res = m; need.packs && b.err == nil {
			if m.packs, err = newPackedDown(c, layout); err != nil {
				b.fail("%w", err)
			}
		}
	} else if s := b.streamed(need, stamp, workers); s != nil {
		w.res = s
	}
	w.finalNorm = b.floats("final_norm", 1, c.Dim)[0]
	if b.err != nil {
		if w.res != nil {
			_ = w.res.close() // the first error tells more
		}
		return nil, b.err
	}
	return w, nil
}
