// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"sync/atomic"

	"windhover/kernels"
)

// mapped has the weights of a plain file: views of the mapping, nothing copied.
// The system reads pages when they are touched, and takes back what nobody reads
// when it must.
type mapped struct {
	layers []layerWeights
	lm     kernels.Matrix
	embed  []byte // [vocab] rows
	row    int    // bytes

	list  []expertWeights // what experts returned last
	width int             // of an expert
	packs *packedDown     // nil: experts compute with windows of down
}

func (b *binder) mapped() *mapped {
	c := b.c
	m := &mapped{layers: b.vectors(), row: b.embedding(), embed: b.view("token_embed")}
	for i, mat := range append(c.layerMatrices(), c.expertStacks()...) {
		name := b.family + "_" + mat.name
		size := int(b.size(name, c.Layers)) / c.Layers
		data := b.view(name)
		if b.err != nil {
			return m
		}
		for l := range m.layers {
			*m.layers[l].all()[i] = b.matrix(name, data[l*size:(l+1)*size:(l+1)*size], mat.rows, mat.cols)
		}
	}
	m.list, m.width = make([]expertWeights, 0, c.NExperts), c.MoEFFN
	lm := b.family + "_lm"
	m.lm = b.matrix(lm, b.view(lm), c.Vocab, c.Dim)
	return m
}

func (m *mapped) layer(l int, _ *atomic.Bool) (*layerWeights, error) { return &m.layers[l], nil }

// experts cuts all that are asked for out of the stacks.
func (m *mapped) experts(l int, ids []int32, _ *atomic.Bool) ([]expertWeights, error) {
	w := &m.layers[l]
	m.list = m.list[:0]
	for _, id := range ids {
		at, end := int(id)*m.width, (int(id)+1)*m.width
		x := expertWeights{
			gate: w.gate.Part(at, end, 0, w.gate.Cols), up: w.up.Part(at, end, 0, w.up.Cols), down: w.down.Part(0, w.down.Rows, at, end),
		}
		if m.packs != nil {
			m.packs.use(&x, l, id)
		}
		m.list = append(m.list, x)
	}
	return m.list, nil
}

func (m *mapped) parts() int { return 1 }

func (m *mapped) head(int, *atomic.Bool) (*kernels.Matrix, int, error) { return &m.lm, 0, nil }

func (m *mapped) embedding(id int32) ([]byte, error) {
	return m.embed[int(id)*m.row:][:m.row], nil
}

func (m *mapped) read() int64 { return 0 }

func (m *mapped) move(rebase func() error) error { return rebase() }

func (m *mapped) close() error {
	if m.packs == nil {
		return nil
	}
	return m.packs.close()
}
