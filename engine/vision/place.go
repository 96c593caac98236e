// SPDX-License-Identifier: Apache-2.0

package vision

import (
	"math"

	"windhover/kernels"
)

// Where a patch is, the tower is told twice: by a table of learned vectors for
// a square grid, interpolated to the picture's own, and by turning queries and
// keys by row and column.

// theta is the base of the tower's rotary frequencies.
const theta = 10000

// turns are the rotary tables of the positions along a side.
type turns struct {
	quarter  int       // of a head's width
	cos, sin []float32 // [side of the grid][quarter]
}

// newTurns makes tables for a grid. Pairs of the first half of a head turn by
// the row, with the frequencies of a head of half the width, and those of the
// second by the column.
func newTurns(g Grid, headDim int) *turns {
	t := &turns{quarter: headDim / 4}
	freqs := kernels.RopeFreqs(theta, headDim/2)
	n := max(g.H, g.W)
	t.cos, t.sin = make([]float32, n*t.quarter), make([]float32, n*t.quarter)
	for i := range n {
		kernels.RopeRow(t.cos[i*t.quarter:][:t.quarter], t.sin[i*t.quarter:][:t.quarter], freqs, i)
	}
	return t
}

// at fills the angles of a patch, cos and sin of half a head's width.
func (t *turns) at(cos, sin []float32, row, col int) {
	n := t.quarter
	copy(cos, t.cos[row*n:][:n])
	copy(sin, t.sin[row*n:][:n])
	copy(cos[n:], t.cos[col*n:][:n])
	copy(sin[n:], t.sin[col*n:][:n])
}

// grid interpolates the position table.
type grid struct {
	table      []float32
	dim        int
	side       int
	rows, cols []spot
}

// spot is a coordinate in the table: between lo and hi, the weight of hi.
type spot struct {
	lo, hi int
	weight float32
}

func newGrid(w *weights, s *shape, g Grid) *grid {
	return &grid{table: w.position, dim: s.dim, side: s.side, rows: spots(g.H, s.side), cols: spots(g.W, s.side)}
}

// spots spreads n patches over a side of the table, corners on corners: in
// float32, from the near end.
func spots(n, side int) []spot {
	list := make([]spot, n)
	last := float32(side - 1)
	step := last / float32(max(n-1, 1))
	for i := range list {
		x := float32(step * float32(i))
		if i >= n/2 && n > 1 {
			x = last - float32(step*float32(n-1-i))
		}
		lo := int(x)
		list[i] = spot{lo, min(lo+1, side-1), x - float32(lo)}
	}
	return list
}

// add adds the vector of a patch to x: the four nearest ones of the table, each
// with its weight, are summed first.
func (g *grid) add(x []float32, row, col int) {
	r, c := g.rows[row], g.cols[col]
	at := func(row, col int) []float32 { return g.table[(row*g.side+col)*g.dim:][:len(x)] }
	p0, p1, p2, p3 := at(r.lo, c.lo), at(r.lo, c.hi), at(r.hi, c.lo), at(r.hi, c.hi)
	w0, w1 := float32((1-r.weight)*(1-c.weight)), float32((1-r.weight)*c.weight)
	w2, w3 := float32(r.weight*(1-c.weight)), float32(r.weight*c.weight)
	for i := range x {
		sum := float32(p0[i]*w0) + float32(p1[i]*w1)
		sum += float32(p2[i] * w2)
		sum += float32(p3[i] * w3)
		x[i] += sum
	}
}

// attnScale is the factor of attention scores.
func attnScale(headDim int) float32 { return float32(1 / math.Sqrt(float64(headDim))) }
