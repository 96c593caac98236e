// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"fmt"
	"sync/atomic"
)

// Gatherer adds rows to [Moments], with all workers of a pool. Products are made
// of int8 codes, a scale for 32 rows of a column, by [MatMul]: that is fast, and
// the sums are the same on any machine with any number of workers.
type Gatherer struct {
	pool   *Pool
	turned []float32 // [columns][whole]: the rows in hand, column by column
	codes  []byte    // the same as a matrix [columns x whole], Q8 8x8
	spaces []gatherSpace

	m     *Moments
	x     []float32
	rows  int // in hand
	whole int // rows and zeros up to whole blocks
	step  int
	next  atomic.Int64 // column to do next
}

// gatherSpace is one worker's own.
type gatherSpace struct {
	plain []byte    // eight columns, row-major
	acts  *Acts     // a tile of columns
	out   []float32 // [tile][columns]
}

// Steps of adding rows: the second needs what the first makes of all columns.
const (
	gatherTurn = iota
	gatherMultiply
)

const (
	gatherRows = 256 // taken at once
	gatherTile = 32  // columns that a worker multiplies with the others at once
	turnTile   = 8   // columns that a worker turns at once: a group of Q8 8x8
)

// NewGatherer makes one for matrices of up to cols columns.
func NewGatherer(pool *Pool, cols int) *Gatherer {
	const blocks = gatherRows / BlockLen
	g := &Gatherer{pool: pool, turned: make([]float32, cols*gatherRows), codes: make([]byte, cols*blocks*Q8BlockBytes)}
	for range pool.Size() {
		g.spaces = append(g.spaces, gatherSpace{make([]byte, turnTile*blocks*Q8BlockBytes), NewActs(gatherTile, gatherRows), make([]float32, gatherTile*cols)})
	}
	return g
}

// Add adds rows of x [rows][m.Cols] to m. How rows are divided among calls
// changes the sums in their last bits. Errors are those of [Pool.Run].
func (g *Gatherer) Add(m *Moments, x []float32, rows int) error {
	if rows < 0 || len(x) < rows*m.Cols || m.Cols*gatherRows > len(g.turned) {
		panic(fmt.Sprintf("kernels: Gatherer.Add: %d rows of %d columns of %d values, made for %d columns",
			rows, m.Cols, len(x), len(g.turned)/gatherRows))
	}
	g.m = m
	for at := 0; at < rows; at += g.rows {
		g.rows = min(gatherRows, rows-at)
		g.whole = (g.rows + BlockLen - 1) / BlockLen * BlockLen
		g.x = x[at*m.Cols:][:g.rows*m.Cols]
		if err := g.run(gatherTurn); err != nil {
			return err
		}
		if m.Width > 0 {
			if err := g.run(gatherMultiply); err != nil {
				return err
			}
		}
		m.Rows += int64(g.rows)
	}
	return nil
}

func (g *Gatherer) run(step int) error {
	g.step = step
	g.next.Store(0)
	return g.pool.Run(g)
}

// Run makes the gatherer a task of the pool.
func (g *Gatherer) Run(worker, _ int) {
	s := &g.spaces[worker]
	for {
		if g.step == gatherTurn {
			at := int(g.next.Add(turnTile)) - turnTile
			if at >= g.m.Cols {
				return
			}
			g.turn(s, at)
			continue
		}
		at := int(g.next.Add(gatherTile)) - gatherTile
		if at >= g.m.Cols {
			return
		}
		g.multiply(s, at)
	}
}

// turn takes a few columns from at on: their squares and their codes.
func (g *Gatherer) turn(s *gatherSpace, at int) {
	n := g.whole
	for c := at; c < at+turnTile; c++ {
		col := g.turned[c*n:][:n]
		for r := range g.rows {
			col[r] = g.x[r*g.m.Cols+c]
		}
		clear(col[g.rows:])
		g.m.Square[c] += Dot(col, col)
	}
	if g.m.Width > 0 {
		size := turnTile * n / BlockLen * Q8BlockBytes
		QuantizeQ8(s.plain[:size], g.turned[at*n:][:turnTile*n])
		Repack(g.codes[at*n/BlockLen*Q8BlockBytes:][:size], s.plain[:size], turnTile, n, Q8x8)
	}
}

// multiply takes a tile of columns from at on with all of its band up to it.
func (g *Gatherer) multiply(s *gatherSpace, at int) {
	from, _, products := g.m.band(at / g.m.Width)
	n, first := g.whole, at-from
	s.acts.Cols = n
	s.acts.Quantize(g.turned[at*n:][:gatherTile*n], gatherTile)
	rows := first + gatherTile
	w := Matrix{Data: g.codes[from*n/BlockLen*Q8BlockBytes:][:rows*n/BlockLen*Q8BlockBytes], Rows: rows, Cols: n, Layout: Q8x8}
	MatMul(s.out, rows, &w, s.acts, 0, rows)
	for i := range gatherTile {
		row := products[triangle(first+i):][:first+i+1]
		Add(row, s.out[i*rows:][:len(row)])
	}
}
