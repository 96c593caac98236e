// SPDX-License-Identifier: Apache-2.0

package engine

import "sync/atomic"

// unitsOf counts the units of a phase that are taken. Each worker has a share,
// units next to each other; who is through with it takes from the others, one at
// a time and in their order. So all end together but for a unit, whatever their
// speeds: a little core, or one that another process uses too, does fewer. Equal
// shares are therefore good enough for cores that are not.
type unitsOf struct {
	total  int
	shares []share // [workers]
}

// share counts the units of a worker that are taken, on cache lines of its own.
type share struct {
	next atomic.Int64
	_    [120]byte
}

// begin sets up a phase of total units.
func (q *unitsOf) begin(total int) {
	q.total = total
	for i := range q.shares {
		q.shares[i].next.Store(0)
	}
}

// begun is how many units of the phase were begun, or somewhat more. It may be asked
// for at any time.
func (q *unitsOf) begun() uint64 {
	n := int64(0)
	for i := range q.shares {
		n += q.shares[i].next.Load()
	}
	return uint64(n)
}

// take gives one of workers its next unit. from is whose share it is working
// through, 0 for its own, and where take goes on: false when there is nothing
// left to take.
func (q *unitsOf) take(worker, workers int, from *int) (u int, ok bool) {
	for ; *from < workers; *from++ {
		owner := (worker + *from) % workers
		first, end := q.total*owner/workers, q.total*(owner+1)/workers
		if u := first + int(q.shares[owner].next.Add(1)) - 1; u < end {
			return u, true
		}
	}
	return 0, false
}
