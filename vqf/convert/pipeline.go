// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"context"
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

	out  []byte  // the file's bytes
	sums []tally // of each row, if quantised
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
	from    start
}

// start is where a conversion that is continued begins.
type start struct{ entry, part, row int }

// startAt finds the entry and row that a writer wants next, or says that it is
// in the middle of rows that belong together.
func (p *pipeline) startAt(w *vqf.Writer) (start, bool) {
	next, left, ok := w.Next()
	for i := range p.encs {
		if !ok || p.plan.Tensors[i].Name != next.Name {
			continue
		}
		done := next.Bytes - left
		for k, m := range p.m.parts[role(next.Name)] {
			e := &p.encs[i]
			if size := uint64(e.size(m.rows * m.cols)); done >= size {
				done -= size
				continue
			}
			unit := uint64(e.size(e.unit * m.cols))
			return start{i, k, int(done/unit) * e.unit}, done%unit == 0
		}
	}
	return start{entry: len(p.encs)}, !ok || next.Name == p.extra()
}

// extra is the name of the first entry that is no weight.
func (p *pipeline) extra() string {
	if len(p.plan.Tensors) == len(p.encs) {
		return ""
	}
	return p.plan.Tensors[len(p.encs)].Name
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

// run converts every tensor, from where the pipeline begins, into w. The first
// error in file order is returned, whichever worker met it first. add hears of
// each piece that was written; its error ends the work.
func (p *pipeline) run(ctx context.Context, w *vqf.Writer, add func(*piece) error) error {
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
	at := p.from
	for i := at.entry; i < len(p.encs); i++ {
		parts := p.m.parts[role(p.plan.Tensors[i].Name)]
		for k := at.part; k < len(parts); k++ {
			m, e := &parts[k], &p.encs[i]
			step := p.rowsOf(m, e)
			for row := at.row; row < m.rows; row += step {
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
			at.row = 0
		}
		at.part = 0
	}
}

// write takes finished pieces in order.
func (p *pipeline) write(order <-chan *piece, free chan<- *piece, w *vqf.Writer, add func(*piece) error) error {
	for j := range order {
		<-j.done
		if j.err != nil {
			return j.err
		}
		if _, err := w.Write(j.out); err != nil {
			return err
		}
		if err := add(j); err != nil {
			return err
		}
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
	j.sums = grow(j.sums, j.rows)
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
