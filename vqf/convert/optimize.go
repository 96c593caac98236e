// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"context"
	"sync"

	"windhover/kernels"
	"windhover/vqf"
)

// Words for how four-bit weights were made (docs/FORMAT.md section 16). Eight
// bits are always made by the format's own arithmetic.
const (
	quantiserPlain    = "B"
	quantiserOptimal  = "B+mse"
	quantiserWeighted = "B+mse+importance"
	quantiserFeedback = "B+mse+calibration"
)

// quantiser is the word for what a file of mode holds.
func (s *settings) quantiser(mode vqf.Mode) string {
	switch {
	case !s.Optimize || !fourBit(mode):
		return quantiserPlain
	case s.Importance == nil:
		return quantiserOptimal
	case s.Importance.calibrated():
		return quantiserFeedback
	}
	return quantiserWeighted
}

// calibrated is whether there are, or were, products of inputs.
func (i *Importance) calibrated() bool {
	for _, list := range i.parts {
		for _, in := range list {
			if in != nil && (in.feedback != nil || in.moments != nil && in.moments.Width > 0) {
				return true
			}
		}
	}
	return false
}

func fourBit(mode vqf.Mode) bool { return mode.HasQ4() || mode == vqf.ModeQ4I }

// prepareOptimizing readies what was asked for, and says what comes of it.
func (j *work) prepareOptimizing(ctx context.Context) error {
	switch {
	case !j.set.Optimize:
		return nil
	case !fourBit(j.spec.Mode):
		j.note("optimising changed nothing: mode " + string(j.spec.Mode) + " has no four-bit weights")
		return nil
	case j.set.Importance == nil:
		return nil
	}
	j.report.Importance = j.set.Importance.From
	notes, err := j.set.Importance.prepare(ctx, j.model, j.set.Threads)
	j.report.Notes = append(j.report.Notes, notes...)
	return err
}

// fourBitCodes are the ways to make the blocks of one encoding.
type fourBitCodes struct {
	nearest  func(dst []byte, src []float32, cols int, weights []float32)
	feedback func(dst []byte, src []float32, f *kernels.Feedback, lost []float32)
}

// lostValues lends a worker room for the errors of a piece.
var lostValues = sync.Pool{New: func() any { return new([]float32) }}

// optimise changes how entry t of the file is made, if that was asked for and
// it holds four-bit codes.
func (s *settings) optimise(e *encoding, t vqf.Tensor) {
	if !s.Optimize || !e.fourBit {
		return
	}
	codes := fourBitCodes{kernels.QuantizeQ4Optimal, kernels.QuantizeQ4Feedback}
	if t.Type == vqf.Q8_0 {
		codes = fourBitCodes{kernels.QuantizeQ4IOptimal, kernels.QuantizeQ4IFeedback}
	}
	r := role(t.Name)
	e.optimise = func(dst []byte, src []float32, j *piece) {
		in := s.Importance.of(r, j.part)
		switch {
		case in == nil:
			codes.nearest(dst, src, j.m.cols, nil)
		case in.feedback != nil:
			lost := lostValues.Get().(*[]float32)
			*lost = grow(*lost, len(src))
			codes.feedback(dst, src, in.feedback, *lost)
			lostValues.Put(lost)
		case in.slabs(j.m) == 1:
			codes.nearest(dst, src, j.m.cols, in.columns)
		default:
			codes.bySlab(dst, src, j, in)
		}
	}
}

// bySlab takes each row with the columns of its own expert.
func (c *fourBitCodes) bySlab(dst []byte, src []float32, j *piece, in *inputs) {
	cols := j.m.cols
	size := len(dst) / j.rows
	for done := 0; done < j.rows; {
		expert := (j.row + done) / j.m.height
		n := min(j.rows-done, (expert+1)*j.m.height-j.row-done)
		c.nearest(dst[done*size:(done+n)*size], src[done*cols:(done+n)*cols], cols, in.columns[expert*cols:(expert+1)*cols])
		done += n
	}
}
