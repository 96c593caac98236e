// SPDX-License-Identifier: Apache-2.0

package kernels

import "fmt"

// Moments are sums over the rows that a matrix is fed, for its input columns:
// of each column's square and of the product of any two columns that lie in
// the same band. A band is Width columns; with Width 0 there are only squares.
// A [Gatherer] adds rows, and [Moments.Feedback] makes of the sums what
// [QuantizeQ4Feedback] needs.
type Moments struct {
	Cols   int
	Width  int       // of a band; the last one may be narrower
	Rows   int64     // added so far
	Square []float32 // [Cols]

	// products has the lower triangle of each band, row by row, the bands one
	// after the other: row i of a band has i+1 values.
	products []float32
}

// NewMoments makes empty sums of cols columns in bands of width, both multiples
// of 32.
func NewMoments(cols, width int) *Moments {
	if cols < BlockLen || cols%BlockLen != 0 || width < 0 || width%BlockLen != 0 {
		panic(fmt.Sprintf("kernels: NewMoments: %d columns in bands of %d, want multiples of %d", cols, width, BlockLen))
	}
	return &Moments{Cols: cols, Width: min(width, cols), Square: make([]float32, cols), products: make([]float32, products(cols, width))}
}

// MomentsBytes is about what NewMoments allocates.
func MomentsBytes(cols, width int) int64 { return 4 * int64(cols+products(cols, width)) }

func products(cols, width int) int {
	if width = min(width, cols); width == 0 {
		return 0
	}
	return cols/width*triangle(width) + triangle(cols%width)
}

// triangle is the number of values in rows of 1, 2 … n.
func triangle(n int) int { return n * (n + 1) / 2 }

// bands is their number.
func (m *Moments) bands() int {
	if m.Width == 0 {
		return 0
	}
	return (m.Cols + m.Width - 1) / m.Width
}

// band returns the first column of band b, the number of columns and their
// products.
func (m *Moments) band(b int) (from, n int, products []float32) {
	from = b * m.Width
	n = min(m.Width, m.Cols-from)
	return from, n, m.products[b*triangle(m.Width):][:triangle(n)]
}
