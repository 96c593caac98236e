// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"fmt"
	"sync"
)

// matrix is one matrix of the file before it is quantised: of one layer, or of
// the model. Most are one tensor of the source. A stack of experts is a row or
// a column of slabs, read where they lie: it never exists as a whole.
type matrix struct {
	name       string // of the source's tensor, the first of several
	rows, cols int
	slabs      []slab // by rows of the grid, then by columns
	height     int    // rows of a slab
	width      int    // columns of a slab; the columns that no slab reaches are zero
	heads      int    // if > 0, rows lie in rotary pairs within each of so many heads
}

// slab is a run of rows of a tensor.
type slab struct {
	*tensor
	first int // row of the tensor, counted in rows of the slab's width
}

// whole makes a matrix of one tensor.
func whole(t *tensor, rows, cols int) matrix {
	return matrix{name: t.name, rows: rows, cols: cols, slabs: []slab{{t, 0}}, height: rows, width: cols}
}

// beside is how many slabs share a row of the matrix.
func (x *matrix) beside() int { return len(x.slabs) / (x.rows / x.height) }

// strips lends a worker the rows of one slab that lies beside others.
var strips = sync.Pool{New: func() any { return new([]float32) }}

// readRows fills dst with n whole rows from row first on, in the order the
// format wants: halves of a head one after the other, not pair by pair.
func (x *matrix) readRows(dst []float32, first, n int) error {
	if x.heads > 0 {
		for i := range n {
			from := uint64(x.sourceRow(first+i)) * uint64(x.cols)
			if err := x.slabs[0].read(dst[i*x.cols:(i+1)*x.cols], from); err != nil {
				return err
			}
		}
		return nil
	}
	for n > 0 {
		in := first % x.height
		band := min(n, x.height-in)
		if err := x.readBand(dst[:band*x.cols], first/x.height, in, band); err != nil {
			return err
		}
		dst, first, n = dst[band*x.cols:], first+band, n-band
	}
	return nil
}

// readBand reads n rows that lie in one row of slabs, from its row in on. Each
// slab is read at one go, however many there are side by side.
func (x *matrix) readBand(dst []float32, grid, in, n int) error {
	beside := x.beside()
	slabs := x.slabs[grid*beside:][:beside]
	if x.width == x.cols {
		return slabs[0].readRows(dst, x.width, in)
	}
	lent := strips.Get().(*[]float32)
	defer strips.Put(lent)
	*lent = grow(*lent, n*x.width)
	strip := *lent
	for k := range slabs {
		if err := slabs[k].readRows(strip, x.width, in); err != nil {
			return err
		}
		for r := range n {
			copy(dst[r*x.cols+k*x.width:][:x.width], strip[r*x.width:])
		}
	}
	for r := range n {
		clear(dst[r*x.cols+beside*x.width : (r+1)*x.cols])
	}
	return nil
}

// readRows fills dst with rows of the slab from its row in on.
func (s *slab) readRows(dst []float32, width, in int) error {
	return s.read(dst, uint64(s.first+in)*uint64(width))
}

// where names an element of the matrix as the source counts, for errors.
func (x *matrix) where(row, col int) string {
	if x.rows == 1 {
		return fmt.Sprintf("tensor %q: element %d", x.name, col)
	}
	s := &x.slabs[row/x.height*x.beside()+col/x.width]
	row, col = s.first+x.sourceRow(row)%x.height, col%x.width
	return fmt.Sprintf("tensor %q: element %d (row %d, column %d)", s.name, int64(row)*int64(x.width)+int64(col), row, col)
}

// sourceRow is where the source has a row of the format's order.
func (x *matrix) sourceRow(row int) int {
	if x.heads == 0 {
		return row
	}
	dim := x.rows / x.heads
	in := row % dim
	return row - in + 2*(in%(dim/2)) + in/(dim/2)
}

// gatherValues is the least that is worth reading of a slab that lies beside
// others: with 128 experts, pieces of the usual size would be millions of
// reads of a few kilobytes from all over the file.
const gatherValues = 32 << 10

// gatherRows is the number of rows that a piece should have at least so that
// slabs side by side are read in runs of a sensible length; 1 for others.
func (x *matrix) gatherRows() int {
	if len(x.slabs) <= 1 || x.width == x.cols {
		return 1
	}
	return min(x.height, (gatherValues+x.width-1)/x.width)
}
