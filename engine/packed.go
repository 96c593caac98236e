// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"windhover/kernels"
)

// packedDown has the down matrices of a mapped mixture's experts, each in one piece.
// The file has them side by side in every row (docs/FORMAT.md section 12), so that an
// expert is thousands of runs of a kilobyte or two, of which a core reads half as
// much in a second as of long ones, or a third. An expert is copied when it computes
// for the first time, row by row by whoever multiplies them; the pages of the file
// are not asked for again, and the system's to take back.
//
// It is anonymous memory outside the Go heap, which takes room as it is written.
type packedDown struct {
	mem     []byte
	experts int
	down    []kernels.Matrix // [layers][experts]
	left    []atomic.Int32   // [layers][experts] rows that are not there yet
}

// newPackedDown is for layers whose experts have a down of the given shape.
func newPackedDown(c *Config, layout kernels.Layout) (*packedDown, error) {
	one := c.Dim * c.MoEFFN / kernels.BlockLen * layout.BlockBytes()
	n := c.Layers * c.NExperts
	mem, err := unix.Mmap(-1, 0, n*one, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("engine: %d bytes for weights: %w", n*one, err)
	}
	advise([][]byte{mem}, unix.MADV_HUGEPAGE)
	p := &packedDown{mem: mem, experts: c.NExperts, down: make([]kernels.Matrix, n), left: make([]atomic.Int32, n)}
	for i := range p.down {
		p.down[i], err = kernels.NewMatrix(mem[i*one:][:one:one], c.Dim, c.MoEFFN, layout)
		if err != nil {
			_ = p.close() // the first error tells more
			return nil, fmt.Errorf("engine: down of an expert: %w", err)
		}
		p.left[i].Store(int32(c.Dim))
	}
	return p, nil
}

// use makes w compute with what is there of an expert's down, else leaves its window
// and says where to copy it.
func (p *packedDown) use(w *expertWeights, layer int, expert int32) {
	i := layer*p.experts + int(expert)
	switch left := &p.left[i]; left.Load() {
	case 0:
		w.down = p.down[i]
	default:
		left.Store(int32(p.down[i].Rows)) // also what a pass that ended early had copied
		w.packed, w.left = &p.down[i], left
	}
}

func (p *packedDown) close() error {
	mem := p.mem
	p.mem = nil
	if err := unix.Munmap(mem); err != nil {
		return fmt.Errorf("engine: weights: %w", err)
	}
	return nil
}
