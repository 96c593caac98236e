// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"windhover/kernels"
	"windhover/vqf"
)

// Words for how four-bit weights were made (docs/FORMAT.md section 16). Eight
// bits are always made by the format's own arithmetic.
const (
	quantiserPlain    = "B"
	quantiserOptimal  = "B+mse"
	quantiserWeighted = "B+mse+importance"
)

// quantiser is the word for what a file of mode holds.
func (s *settings) quantiser(mode vqf.Mode) string {
	switch {
	case !s.Optimize || !mode.HasQ4() && mode != vqf.ModeQ4I:
		return quantiserPlain
	case s.Importance != nil:
		return quantiserWeighted
	}
	return quantiserOptimal
}

// optimise changes how entry t of the file is made, if that was asked for and
// it holds four-bit codes.
func (s *settings) optimise(e *encoding, t vqf.Tensor) {
	if !s.Optimize {
		return
	}
	var best func(dst []byte, src []float32, cols int, weights []float32)
	switch {
	case t.Type == vqf.Q4_0:
		best = kernels.QuantizeQ4Optimal
	case t.Type == vqf.Q8_0 && e.limit == limitQ4:
		best = kernels.QuantizeQ4IOptimal
	default:
		return
	}
	r := role(t.Name)
	e.optimise = func(dst []byte, src []float32, j *piece) {
		best(dst, src, j.m.cols, s.Importance.weights(r, j.part))
	}
}
