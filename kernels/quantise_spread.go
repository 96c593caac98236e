// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"fmt"
	"math"
)

// QuantizeQ4Feedback stores src, rows of as many columns as f has, as row-major
// Q4_0 blocks, with the error of each column fed to those after it. It keeps
// the products of the rows with the inputs that f comes from near, not the
// rows themselves: single values may be further off than by plain rounding.
//
// For each block of columns: its values and what they are to make good are the
// target; the scale is that of the smallest error of the target weighted with
// [Feedback.Weight], as [QuantizeQ4Optimal] finds it; then the codes are chosen
// from left to right, each nearest to its target and what the block's own
// errors add to that. lost is scratch as long as src. Rows do not depend on
// each other, and every step is one rounded operation.
func QuantizeQ4Feedback(dst []byte, src []float32, f *Feedback, lost []float32) {
	f.quantize("QuantizeQ4Feedback", dst, src, lost, Q4BlockBytes)
}

// QuantizeQ4IFeedback is QuantizeQ4Feedback in the blocks of [QuantizeQ4I].
func QuantizeQ4IFeedback(dst []byte, src []float32, f *Feedback, lost []float32) {
	f.quantize("QuantizeQ4IFeedback", dst, src, lost, Q8BlockBytes)
}

// spreading is the quantising of one block.
type spreading struct {
	scaleSearch
	target [BlockLen]float32
	lost   [BlockLen]float32
}

func (f *Feedback) quantize(op string, dst []byte, src, lost []float32, size int) {
	checkBlocks(op, dst, src, size)
	checkColumns(op, len(src), f.cols)
	if len(lost) < len(src) {
		panic(fmt.Sprintf("kernels: %s: scratch of %d values, want %d", op, len(lost), len(src)))
	}
	var s spreading
	// By columns outside: what the columns pull stays in the cache for all rows.
	for at := 0; at < f.cols; at += BlockLen {
		from := at / f.width * f.width
		for row := 0; row < len(src); row += f.cols {
			x := src[row+at:][:BlockLen]
			before := lost[row+from : row+at]
			for i, v := range x {
				s.target[i] = v + Dot(before, f.pulls(at + i)[:len(before)])
			}
			s.load(s.target[:])
			s.weigh(f.weight[at:][:BlockLen])
			s.best()
			s.spread(f, x, at)
			copy(lost[row+at:], s.lost[:])
			putQ4(dst[(row+at)/BlockLen*size:][:size], s.scale, &s.codes)
		}
	}
}

// spread chooses the codes of the values x of the columns from at on.
func (s *spreading) spread(f *Feedback, x []float32, at int) {
	d := F16ToF32(s.scale)
	if d == 0 {
		clear(s.codes[:])
		copy(s.lost[:], x)
		return
	}
	id := 1 / d
	for i, v := range x {
		t := s.target[i]
		pull := f.pulls(at + i)
		for j, p := range pull[len(pull)-i:] {
			t += float32(s.lost[j] * p)
		}
		c := max(-8, min(7, math.Floor(float64(t*id)+0.5)))
		s.codes[i] = int8(c)
		s.lost[i] = v - float32(d*float32(c))
	}
}
