// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"windhover/kernels"
	"windhover/vqf"
)

// encoding is how the rows of one tensor of the file are stored.
type encoding struct {
	quantise func(dst []byte, src []float32) // to row-major bytes
	bytes    int                             // a block of `block` values
	block    int
	layout   kernels.Layout // 0: not re-laid-out
	unit     int            // rows a piece must be a multiple of
	limit    float32        // values must be smaller than this: their scale, or they, would not fit
	fourBit  bool           // its codes have four bits

	// optimise, if set, takes the place of quantise for the rows of a piece.
	optimise func(dst []byte, src []float32, j *piece)
}

// Largest values. A half rounds to infinity from 65520 on, and is cut to
// infinity from 65536 on; the scale of a Q8 block is its largest value / 127,
// that of a Q4 block / 8.
const (
	limitF32 = math.MaxFloat32 // infinities are above it
	limitF16 = 65536
	limitQ8  = 65520 * 127
	limitQ4  = 65520 * 8
)

// encodingOf says how entry t of the file is made in a mode. The vision
// tower's matrices are the same in every file.
func encodingOf(t vqf.Tensor, mode vqf.Mode, q8, q4 vqf.Layout) (encoding, error) {
	if slices.Contains(visionQuantised, t.Name) {
		mode, q8 = vqf.ModeQ8, vqf.LayoutRow
	}
	switch t.Type {
	case vqf.F32:
		return encoding{quantise: putF32, bytes: 4, block: 1, unit: 1, limit: limitF32}, nil
	case vqf.F16:
		return encoding{quantise: putF16, bytes: 2, block: 1, unit: 1, limit: limitF16}, nil
	case vqf.Q4_0:
		l := map[vqf.Layout]kernels.Layout{vqf.LayoutRow: kernels.Q4Row, vqf.Layout4x4: kernels.Q4x4}[q4]
		return encoding{quantise: kernels.QuantizeQ4, bytes: kernels.Q4BlockBytes, block: kernels.BlockLen, layout: l, unit: l.Rows(), limit: limitQ4, fourBit: true}, nil
	case vqf.Q8_0:
		l := map[vqf.Layout]kernels.Layout{vqf.LayoutRow: kernels.Q8Row, vqf.Layout4x4: kernels.Q8x4, vqf.Layout8x8: kernels.Q8x8}[q8]
		e := encoding{quantise: kernels.QuantizeQ8, bytes: kernels.Q8BlockBytes, block: kernels.BlockLen, layout: l, unit: l.Rows(), limit: limitQ8}
		switch mode {
		case vqf.ModeQ4I:
			e.quantise, e.limit, e.fourBit = kernels.QuantizeQ4I, limitQ4, true
		case vqf.ModeG256:
			// Eight rows are a multiple of 256 values whatever the columns, so
			// that no group of 256 is cut by the end of a piece.
			e.quantise, e.unit = kernels.QuantizeG256, 8
		}
		return e, nil
	}
	return encoding{}, fmt.Errorf("convert: internal error: tensor %q of type %s", t.Name, t.Type)
}

// size is the number of bytes of n values.
func (e *encoding) size(n int) int { return n / e.block * e.bytes }

func putF32(dst []byte, src []float32) {
	for i, v := range src {
		binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(v))
	}
}

func putF16(dst []byte, src []float32) {
	for i, v := range src {
		binary.LittleEndian.PutUint16(dst[2*i:], kernels.F32ToF16Trunc(v))
	}
}

// checkValues refuses values that are not finite or too large for the encoding;
// row is the first row of x.
func (e *encoding) checkValues(m *matrix, x []float32, row int) error {
	fine := func(v float32) bool {
		a := math.Abs(float64(v))
		return a < float64(e.limit) || a == limitF32 && e.limit == limitF32
	}
	if fine(kernels.MaxAbs(x)) {
		return nil
	}
	for i, v := range x {
		if !fine(v) {
			why := "not a finite number"
			if math.Abs(float64(v)) <= math.MaxFloat32 {
				why = fmt.Sprintf("too large to be stored, which ends at %v", e.limit)
			}
			return faulty("%s is %v: %s", m.where(row+i/m.cols, i%m.cols), v, why)
		}
	}
	return fmt.Errorf("convert: internal error: tensor %q: a value vanished", m.name)
}
