// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"windhover/kernels"
)

// mapped has the weights of a plain file: views of the mapping, nothing copied.
// The kernel reads pages when they are touched.
//
// In layered residency it is told what comes next and what is not needed before
// the next token: the layer after this one is read ahead, the one before is
// dropped from the process. Only whole pages of a layer's matrices are dropped,
// so that none goes that another tensor shares. Embeddings, norms and head stay
// mapped; they are the page cache's, which takes back what nobody reads.
type mapped struct {
	layers []layerWeights
	lm     kernels.Matrix
	embed  []byte // [vocab] rows
	row    int    // bytes

	pages [][][]byte // [layers][matrices] whole pages; nil in full residency
	last  int        // layer that was asked for last, -1 before the first
}

func (b *binder) mapped(layered bool) residency {
	c := b.c
	m := &mapped{layers: b.vectors(), last: -1, row: b.embedding(), embed: b.view("token_embed")}
	for i, mat := range c.layerMatrices() {
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
	lm := b.family + "_lm"
	m.lm = b.matrix(lm, b.view(lm), c.Vocab, c.Dim)
	if !layered || b.err != nil {
		return m
	}
	m.pages = make([][][]byte, c.Layers)
	for l := range m.layers {
		for _, mat := range m.layers[l].all() {
			if p := wholePages(mat.Data); len(p) > 0 {
				m.pages[l] = append(m.pages[l], p)
			}
		}
	}
	return m
}

// wholePages cuts b to the pages that lie in it entirely.
func wholePages(b []byte) []byte {
	page := os.Getpagesize()
	at := int(uintptr(unsafe.Pointer(unsafe.SliceData(b))) % uintptr(page))
	from := (page - at) % page
	to := len(b) - (at+len(b))%page
	if from >= to {
		return nil
	}
	return b[from:to]
}

func (m *mapped) layer(l int, _ *atomic.Bool) (*layerWeights, error) {
	if m.pages != nil && l != m.last {
		if m.last >= 0 {
			advise(m.pages[m.last], unix.MADV_DONTNEED)
		}
		if next := (l + 1) % len(m.pages); next != l {
			advise(m.pages[next], unix.MADV_WILLNEED)
		}
		m.last = l
	}
	return &m.layers[l], nil
}

// advise leaves errors alone: advice that is not taken changes no result, and the
// system takes clean pages back by itself when it must.
func advise(ranges [][]byte, advice int) {
	for _, r := range ranges {
		_ = unix.Madvise(r, advice)
	}
}

func (m *mapped) parts() int { return 1 }

func (m *mapped) head(int, *atomic.Bool) (*kernels.Matrix, int, error) { return &m.lm, 0, nil }

func (m *mapped) embedding(id int32) ([]byte, error) {
	return m.embed[int(id)*m.row:][:m.row], nil
}

func (m *mapped) move(rebase func() error) error { return rebase() }

func (m *mapped) close() error { return nil }
