// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"
	"math"
	"slices"

	"windhover/kernels"
)

// Inputs is what some matrices of a layer are fed with.
type Inputs struct {
	Roles []string // the matrices, as docs/FORMAT.md section 5.1 calls them: q, k, v
	Layer int
	*kernels.Moments
}

// inputsWindow is how many tokens of a calibration text are computed from an
// empty cache at a time.
const inputsWindow = 512

// firstRoot is the root of how often the first token of a window counts among
// the inputs of q, k and v, beyond once. Every later token attends to it, so
// that what its key and its value are off by is off in all of them; yet there is
// one such token in a window, and it is unlike all others. So it counts as much
// as half a window.
const firstRoot = 16

// Importance computes tokens, in windows of 512 from an empty cache, and
// gathers what the matrices of every layer are fed with. The moments have bands
// as wide as fit into budget bytes all together, at most the matrix's width. The
// result depends on the file, the tokens, the budget, the model's chunk and a
// context below 512, and on nothing else. progress hears of tokens done.
//
// Errors: those of [Model.Logits], and [ErrNumeric] for inputs that are not
// numbers.
func (m *Model) Importance(ctx context.Context, tokens []int32, budget int64, progress func(done, total int)) (list []Inputs, err error) {
	end, err := m.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end(&err)
	if err := m.checkTokens(tokens, false); err != nil {
		return nil, err
	}
	if m.cfg.NExperts > 0 {
		return nil, unsupported("importance of a mixture of experts: a text meets too few of them")
	}
	if len(tokens) < 2 {
		return nil, badRequest("%d tokens tell nothing of what matters to the model", len(tokens))
	}
	g := newGathering(m, budget)
	m.st.gathering = g
	defer func() {
		m.st.gathering = nil
		m.seq.cut(0)
	}()
	if err := m.gather(tokens, g, progress); err != nil {
		return nil, evalError(ctx, err)
	}
	return g.list, g.check()
}

// gather computes the windows.
func (m *Model) gather(tokens []int32, g *gathering, progress func(done, total int)) error {
	var begin []int32
	if m.meta.AddBOS && m.meta.BosID >= 0 && int(m.meta.BosID) < m.cfg.Vocab {
		begin = []int32{m.meta.BosID}
	}
	size := min(inputsWindow, m.st.size.ctx) - len(begin)
	for from := 0; from < len(tokens); from += size {
		window := slices.Concat(begin, tokens[from:min(from+size, len(tokens))])
		m.seq.cut(0)
		for len(window) > 0 {
			n := min(len(window), m.chunk)
			if err := m.feed(window[:n]); err != nil {
				return err
			}
			if err := m.st.gatherHead(); err != nil {
				return err
			}
			window = window[n:]
		}
		progress(min(from+size, len(tokens)), len(tokens))
	}
	return nil
}

// gathering is what a pass feeds to while inputs are gathered.
type gathering struct {
	*kernels.Gatherer
	list  []Inputs // inputKinds for each layer, then the head's
	first []float32
}

// Kinds of inputs in the order of a layer.
const (
	inputAttn = iota
	inputOut
	inputFFN
	inputDown
	inputKinds
)

func newGathering(m *Model, budget int64) *gathering {
	c := &m.cfg
	kinds := [inputKinds]struct {
		roles []string
		cols  int
	}{{[]string{"q", "k", "v"}, c.Dim}, {[]string{"o"}, c.QO()}, {[]string{"gate", "up"}, c.Dim}, {[]string{"down"}, c.FFN}}
	size := func(width int) int64 {
		sum := kernels.MomentsBytes(c.Dim, width)
		for _, k := range kinds {
			sum += int64(c.Layers) * kernels.MomentsBytes(k.cols, width)
		}
		return sum
	}
	width := m.st.widest()
	for width > 0 && size(width) > budget {
		width -= kernels.BlockLen
	}
	g := &gathering{Gatherer: kernels.NewGatherer(m.pool, m.st.widest()), first: make([]float32, c.Dim)}
	for l := range c.Layers {
		for _, k := range kinds {
			g.list = append(g.list, Inputs{k.roles, l, kernels.NewMoments(k.cols, width)})
		}
	}
	g.list = append(g.list, Inputs{[]string{"lm"}, 0, kernels.NewMoments(c.Dim, width)})
	return g
}

// gather takes the inputs x [tokens][cols] of matrices of the layer in hand,
// if somebody asked for them.
func (s *state) gather(kind int, x []float32) {
	if s.gathering == nil || s.err != nil {
		return
	}
	g := s.gathering
	sums := g.list[s.layer*inputKinds+kind].Moments
	s.err = g.Add(sums, x, s.tokens)
	if kind == inputAttn && s.spans[0].pos == 0 && s.err == nil {
		// By itself, because its size would drown its neighbours in the codes
		// that the products are made of.
		for i := range g.first {
			g.first[i] = firstRoot * x[i]
		}
		s.err = g.Add(sums, g.first, 1)
	}
}

// gatherHead takes what the head would be fed with for all tokens of the pass.
func (s *state) gatherHead() error {
	dim := s.cfg.Dim
	for t := range s.tokens {
		s.normalise(s.norm[t*dim:][:dim], s.x[t*dim:][:dim], s.w.finalNorm)
	}
	g := s.gathering
	return g.Add(g.list[len(g.list)-1].Moments, s.norm, s.tokens)
}

// check refuses sums that are not numbers.
func (g *gathering) check() error {
	for _, in := range g.list {
		for _, v := range in.Square {
			if v != v || math.IsInf(float64(v), 0) {
				return fmt.Errorf("engine: inputs of %s in layer %d: %w", in.Roles[0], in.Layer, ErrNumeric)
			}
		}
	}
	return nil
}
