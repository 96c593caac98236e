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
	steps       int // of a frame
	do          func(frame, step int) error
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
	c := &Encoding{t: t, e: e, run: &runner{pool: pool}, steps: 1}
	if t.reference {
		frame := newReference(t, p, c.run, e).frame
		c.do = func(i, _ int) error { return frame(i) }
	} else {
		c.steps = len(t.w.blocks) + 2
		c.do = newPass(t, p, c.run, e).step
	}
	return c, nil
}

// Step computes the next part, about a block of the tower for one of its frames; the
// embedding comes with the last one, nil before. The error is the context's, or a
// *kernels.FaultError where a page of the file cannot be read; there is no going on
// after one.
func (c *Encoding) Step(ctx context.Context) (*Embedding, error) {
	if c.err != nil {
		return nil, c.err
	}
	defer c.run.watch(ctx)()
	if c.err = c.do(c.frame, c.next); c.err != nil {
		return nil, c.err
	}
	if !c.t.reference {
		c.t.leave(c.next)
	}
	if c.next++; c.next == c.steps {
		c.frame, c.next = c.frame+1, 0
	}
	if c.frame < c.e.Grid.T {
		return nil, nil
	}
	return c.e, nil
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

// leave tells whose weights a step of a frame was the last to use.
func (t *Tower) leave(step int) {
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
	switch block := step - 1; {
	case step == 0:
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
