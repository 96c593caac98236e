// SPDX-License-Identifier: Apache-2.0

package vision

import (
	"context"
	"fmt"
	"unsafe"

	"windhover/kernels"
)

// Encoding is a picture that is being computed, step by step, so that others can
// have the workers in between. One goroutine uses it.
type Encoding struct {
	t           *Tower
	e           *Embedding
	run         *runner
	frame, next int
	parts       int // of a frame
	part        func(frame, i int) []stage
	stages      []stage // what is left of the part in hand
	done        int     // units of the first of them
	err         error
}

// Begin takes the memory for a picture or the frames of a video.
func (t *Tower) Begin(p *Patches, pool *kernels.Pool) (*Encoding, error) {
	if p.cfg.Patch != t.cfg.Patch || p.cfg.Merge != t.cfg.Merge || p.cfg.Temporal != t.cfg.Temporal {
		return nil, fmt.Errorf("vision: patches of %d x %d pixels and %d frames, the tower's have %d x %d and %d",
			p.cfg.Patch, p.cfg.Patch, p.cfg.Temporal, t.cfg.Patch, t.cfg.Patch, t.cfg.Temporal)
	}
	e := &Embedding{Grid: p.Grid, Places: p.Places(), DeepStack: make([][]float32, t.Levels())}
	e.Tokens = make([]float32, e.Places*t.s.out)
	for i := range e.DeepStack {
		e.DeepStack[i] = make([]float32, e.Places*t.s.out)
	}
	c := &Encoding{t: t, e: e, run: &runner{pool: pool}, parts: len(t.w.blocks) + 2}
	if t.reference {
		c.part = newReference(t, p, pool.Size(), e).part
	} else {
		c.part = newPass(t, p, c.run, e).part
	}
	return c, nil
}

// Step computes the next part, a block of the tower for one of its frames at most and
// never more than takes each worker about a tenth of a second; the embedding comes
// with the last one, nil before. The error is the context's, or a *kernels.FaultError
// where a page of the file cannot be read; there is no going on after one.
func (c *Encoding) Step(ctx context.Context) (*Embedding, error) {
	if c.err != nil {
		return nil, c.err
	}
	defer c.run.watch(ctx)()
	workers := c.run.pool.Size()
	for all, left := c.t.work*int64(workers), c.t.work*int64(workers); ; {
		if len(c.stages) == 0 {
			c.stages = c.part(c.frame, c.next)
		}
		s := &c.stages[0]
		n := int(min(left/s.cost, int64(s.units-c.done)))
		if n <= 0 { // a unit for each worker, if there is nothing else in the step
			if left < all {
				return nil, nil
			}
			n = min(workers, s.units-c.done)
		}
		if c.done == 0 && s.begin != nil {
			s.begin()
		}
		if c.err = c.run.run(c.done, n, s.do); c.err != nil {
			return nil, c.err
		}
		left -= int64(n) * s.cost
		if c.done += n; c.done < s.units {
			continue
		}
		if c.stages, c.done = c.stages[1:], 0; len(c.stages) == 0 {
			return c.ended(), nil
		}
	}
}

// ended goes on behind a part; it gives the embedding behind the last one.
func (c *Encoding) ended() *Embedding {
	if !c.t.reference {
		c.t.leave(c.next)
	}
	if c.next++; c.next == c.parts {
		c.frame, c.next = c.frame+1, 0
	}
	if c.frame < c.e.Grid.T {
		return nil
	}
	return c.e
}

// Encode computes a picture or the frames of a video, with all workers of the
// pool. A frame of the tower looks at itself only; the result is the same for
// any number of workers. The errors are those of [Encoding.Step].
func (t *Tower) Encode(ctx context.Context, p *Patches, pool *kernels.Pool) (*Embedding, error) {
	c, err := t.Begin(p, pool)
	if err != nil {
		return nil, err
	}
	for {
		if e, err := c.Step(ctx); e != nil || err != nil {
			return e, err
		}
	}
}

// leave tells whose weights a part of a frame was the last to use.
func (t *Tower) leave(part int) {
	if t.drop == nil {
		return
	}
	bytes := func(x []float32) []byte {
		return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x))
	}
	merged := func(m *merger) {
		t.drop(bytes(m.f1))
		t.drop(bytes(m.f2))
	}
	switch block := part - 1; {
	case part == 0:
		t.drop(bytes(t.w.patch))
		t.drop(bytes(t.w.position))
	case block == len(t.w.blocks):
		merged(&t.w.merger)
	default:
		b := &t.w.blocks[block]
		for _, m := range []*kernels.Matrix{&b.qkv, &b.proj, &b.fc1, &b.fc2} {
			t.drop(m.Data)
		}
		for i := range t.w.deepstack {
			if m := &t.w.deepstack[i]; m.after == block {
				merged(m)
			}
		}
	}
}
