// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"errors"
	"math"
)

// Feedback tells how columns of a matrix make good the errors of those before
// them, for the inputs that [Moments] were gathered from.
//
// A matrix whose columns are off by E makes its outputs wrong by E·x, and the
// sum of their squares is E·H·Eᵀ with H = Σx·xᵀ. With H = (I+U)·D·(I+U)ᵀ, U
// strictly upper and D diagonal, that is Σ D[k]·(E[k] + Σ_{j<k} E[j]·U[j][k])²:
// when the columns are rounded one after the other, each towards its value plus
// Σ_{j<k} E[j]·U[j][k], the terms do not touch each other, and only what is
// rounded away in each step is left.
type Feedback struct {
	cols, width int

	// weight[k] is D: what an error costs that no later column makes good.
	weight []float32
	// pull has U of each band, turned: row k has the k values U[j][k], rows one
	// after the other.
	pull []float32
}

// Weight is what an error of each column costs that no later one makes good:
// the mean square of the part of the column that the later ones do not tell.
// It is not to be changed.
func (f *Feedback) Weight() []float32 { return f.weight }

// errProducts is returned for sums that no rows can have.
var errProducts = errors.New("kernels: the products of the inputs cannot be factored")

// damping is added to every square, as a part of their mean. It keeps columns
// that say almost the same from making up for each other without bound, and
// stands for the rows that were not seen.
const damping = 0.02

// Feedback factors the sums and takes over their memory: m is of no use then.
// It fails when there are no products, or they are all zero or not numbers.
func (m *Moments) Feedback() (*Feedback, error) {
	f := &Feedback{cols: m.Cols, width: m.Width, weight: make([]float32, m.Cols), pull: m.products}
	m.products = nil
	var mean float64
	for _, v := range m.Square {
		mean += float64(v)
	}
	mean /= float64(m.Cols)
	if m.Width == 0 || !(mean > 0) || math.IsInf(mean, 0) {
		return nil, errProducts
	}
	c := make([]float32, m.Width*m.Width)
	for from := 0; from < m.Cols; from += m.Width {
		if !f.factor(from, c, float32(damping*mean)) {
			return nil, errProducts
		}
	}
	return f, nil
}

// factor makes weight and pull of a band of its products; c is scratch.
func (f *Feedback) factor(from int, c []float32, damp float32) bool {
	n := min(f.width, f.cols-from)
	h := f.pull[from/f.width*triangle(f.width):][:triangle(n)]
	c = c[:n*n]
	// With the columns in reverse, the factor wanted is that of Cholesky. What
	// rounding did to the products may need more damping than is good.
	for try := 0; ; try++ {
		for i := range n {
			for j, v := range h[triangle(i):][:i+1] {
				if i == j {
					v += damp
				}
				c[(n-1-j)*n+n-1-i] = v
			}
		}
		if cholesky(c, n) {
			break
		}
		if damp *= 10; try == 3 {
			return false
		}
	}
	for k := range n {
		rk := n - 1 - k
		d := c[rk*n+rk]
		f.weight[from+k] = d * d
		for j := range k {
			h[triangle(k-1)+j] = c[(n-1-j)*n+rk] / d
		}
	}
	return true
}

// cholesky turns the lower triangle of c [n][n] into the L of c = L·Lᵀ, if there
// is one.
func cholesky(c []float32, n int) bool {
	for i := range n {
		row := c[i*n:][:n]
		for j := range i {
			row[j] = (row[j] - Dot(row[:j], c[j*n:][:j])) / c[j*n+j]
		}
		d := row[i] - Dot(row[:i], row[:i])
		if !(d > 0) || math.IsInf(float64(d), 0) {
			return false
		}
		row[i] = float32(math.Sqrt(float64(d)))
	}
	return true
}

// pulls returns U[j][k] of the earlier columns j of the same band.
func (f *Feedback) pulls(k int) []float32 {
	in := k % f.width
	return f.pull[k/f.width*triangle(f.width)+triangle(in-1):][:in]
}
