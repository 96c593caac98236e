// SPDX-License-Identifier: Apache-2.0

package vision

import (
	"context"
	"sync/atomic"

	"windhover/kernels"
)

// runner does work that is cut into units, with all workers of a pool. Which
// worker does a unit does not matter to the result.
type runner struct {
	pool *kernels.Pool
	ctx  context.Context
	stop atomic.Bool
	next atomic.Int64
	end  int
	do   func(worker, unit int)
}

// watch ends the work when the context does. The function it returns ends the
// watching.
func (r *runner) watch(ctx context.Context) func() bool {
	r.ctx = ctx
	return context.AfterFunc(ctx, func() { r.stop.Store(true) })
}

// run does n units from one on, unless the context ends: then some.
func (r *runner) run(from, n int, do func(worker, unit int)) error {
	r.end, r.do = from+n, do
	r.next.Store(int64(from))
	if err := r.pool.Run(r); err != nil {
		return err
	}
	return context.Cause(r.ctx)
}

// Run makes the runner a task of the pool.
func (r *runner) Run(worker, _ int) {
	for !r.stop.Load() {
		u := int(r.next.Add(1)) - 1
		if u >= r.end {
			return
		}
		r.do(worker, u)
	}
}
