// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"context"
	"math"
	"sync"

	"windhover/kernels"
	"windhover/vqf"
)

// Sizes of pieces, in values. A piece of the default size and what is made of
// it stay in a core's own cache; the largest bounds memory whatever is asked.
const (
	defaultPiece = 128 << 10
	largestPiece = 4 << 20
	allPieces    = 32 << 20 // of all threads together
)

// piece is some rows of one matrix on their way from source to file.
type piece struct {
	m     *matrix
	enc   *encoding
	entry int // in the plan
	part  int // of the entry: a layer
	row   int // first row of the matrix
	rows  int

	out  []byte    // the file's bytes
	sums []float64 // rowErrors
	err  error
	done chan struct{} // one element: out or err is ready
}

// pipeline cuts tensors into pieces, has workers convert them and writes them
// in order. Pieces in flight are bounded, and so is memory.
type pipeline struct {
	m       *model
	plan    *vqf.Plan
	encs    []encoding // by entry of the plan, extras excluded
	threads int
	chunk   int // rows asked for, 0: as many as make a default piece
}

// rowsOf is the number of rows in a piece of a matrix.
func (p *pipeline) rowsOf(m *matrix, e *encoding) int {
	most := min(largestPiece, allPieces/p.threads)
	rows := p.chunk
	if rows == 0 {
		rows = max(1, defaultPiece/m.cols, m.gatherRows())
	}
	rows = min(rows, max(1, most/m.cols), m.rows)
	return (rows + e.unit - 1) / e.unit * e.unit
}

// run converts every tensor into w. The first error in file order is returned,
// whichever worker met it first. add hears of each entry's row errors.
func (p *pipeline) run(ctx context.Context, w *vqf.Writer, add func(entry int, sums []float64)) error {
	inner, cancel := context.WithCancel(ctx)
	flight := 3 * p.threads
	free, order, work := make(chan *piece, flight), make(chan *piece, flight), make(chan *piece, flight)
	for range flight {
		free <- &piece{done: make(chan struct{}, 1)}
	}
	var wg sync.WaitGroup
	for range p.threads {
		wg.Go(func() {
			var b buffers
			for j := range work {
				if j.err = inner.Err(); j.err == nil {
					j.err = b.convert(j)
				}
				j.done <- struct{}{}
			}
		})
	}
	wg.Go(func() {
		p.cut(inner, free, order, work)
		close(order)
		close(work)
	})
	err := p.write(order, free, w, add)
	cancel()
	for range order { // so that nothing is left waiting for this goroutine
	}
	wg.Wait()
	if cause := ctx.Err(); cause != nil {
		return cause
	}
	return err
}

// cut hands out pieces in file order until all are out or ctx ends.
func (p *pipeline) cut(ctx context.Context, free <-chan *piece, order, work chan<- *piece) {
	for i := range p.encs {
		parts := p.m.parts[role(p.plan.Tensors[i].Name)]
		for k := range parts {
			m, e := &parts[k], &p.encs[i]
			step := p.rowsOf(m, e)
			for row := 0; row < m.rows; row += step {
				var j *piece
				select {
				case j = <-free:
				case <-ctx.Done():
					return
				}
				j.m, j.enc, j.entry, j.part, j.row, j.rows = m, e, i, k, row, min(step, m.rows-row)
				order <- j // both hold as many as there are pieces: no wait
				work <- j
			}
		}
	}
}

// write takes finished pieces in order.
func (p *pipeline) write(order <-chan *piece, free chan<- *piece, w *vqf.Writer, add func(int, []float64)) error {
	for j := range order {
		<-j.done
		if j.err != nil {
			return j.err
		}
		if _, err := w.Write(j.out); err != nil {
			return err
		}
		add(j.entry, j.sums)
		free <- j
	}
	return nil
}

// buffers are one worker's own.
type buffers struct {
	values []float32
	blocks []byte // row-major, before re-laying-out
}

// convert makes the bytes of a piece.
func (b *buffers) convert(j *piece) error {
	n := j.rows * j.m.cols
	e := j.enc
	b.values = grow(b.values, n)
	if err := j.m.readRows(b.values, j.row, j.rows); err != nil {
		return &failure{kind: ErrSource, msg: "reading", err: err}
	}
	if err := e.checkValues(j.m, b.values, j.row); err != nil {
		return err
	}
	j.out = grow(j.out, e.size(n))
	j.sums = j.sums[:0]
	if e.layout == 0 {
		e.quantise(j.out, b.values)
		return nil
	}
	blocks := j.out
	if e.layout.Rows() > 1 {
		b.blocks = grow(b.blocks, e.size(n))
		blocks = b.blocks
	}
	if e.optimise != nil {
		e.optimise(blocks, b.values, j)
	} else {
		e.quantise(blocks, b.values)
	}
	if e.layout.Rows() > 1 {
		kernels.Repack(j.out, blocks, j.rows, j.m.cols, e.layout)
	}
	j.sums = grow(j.sums, 2*j.rows)
	clear(j.sums)
	e.rowErrors(j.sums, blocks, b.values, j.m.cols)
	return nil
}

// grow returns s with length n, made anew only when it is too small.
func grow[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// errorSums gathers rowErrors by entry.
type errorSums [][2]float64

func (s errorSums) add(entry int, sums []float64) {
	for i := 0; i+1 < len(sums); i += 2 {
		s[entry][0] += sums[i]
		s[entry][1] += sums[i+1]
	}
}

// relative is the root of lost over all: 0.01 means one percent.
func (s errorSums) relative(entry int) float64 {
	if s[entry][1] == 0 {
		return 0
	}
	return math.Sqrt(s[entry][0] / s[entry][1])
}
