// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"runtime/debug"

	"golang.org/x/sys/unix"

	"windhover/kernels"
	"windhover/vqf"
)

// slotShape is how a layer lies in a slot: its matrices one after the other, as
// the file has them, each from a multiple of slotAlign on.
type slotShape struct {
	bytes  int64
	at     [7]int64 // of the matrices
	pieces []slotPiece
}

// slotPiece is one reading of a layer's weights.
type slotPiece struct {
	name  string // tensor
	layer int64  // bytes of a layer in the tensor
	off   int64  // in those
	at, n int64  // in the slot
}

// headPart is a run of rows of lm.
type headPart struct {
	row, rows  int
	off, bytes int64 // in the tensor
}

// partRows is what the first row of a part is a multiple of; every row group
// divides it, and so do the units that products are cut into.
const partRows = unitRows

// headParts cuts lm into parts of at most room bytes.
func headParts(rows int, bytes, room int64) []headPart {
	rowBytes := bytes / int64(rows)
	most := int(min(room/rowBytes, int64(rows)))
	if most < rows {
		most = most / partRows * partRows
	}
	var parts []headPart
	for row := 0; row < rows; row += most {
		n := min(most, rows-row)
		parts = append(parts, headPart{row: row, rows: n, off: int64(row) * rowBytes, bytes: int64(n) * rowBytes})
	}
	return parts
}

// streamed lays out memory, starts the workers and deciphers what is kept.
func (b *binder) streamed(need Need, stamp vqf.Stamp, workers int) residency {
	c := b.c
	s := &streamed{file: b.f, lm: b.family + "_lm", layers: b.vectors(), row: make([]byte, b.embedding()), next: -1, stamp: stamp}
	s.posted.L, s.arrived.L = &s.mu, &s.mu
	for i, m := range c.layerMatrices() {
		name := b.family + "_" + m.name
		n := b.size(name, c.Layers) / int64(c.Layers)
		s.shape.add(i, name, n)
	}
	lm := b.size(b.family+"_lm", 1)
	if b.err != nil {
		return nil
	}
	if need.keepHead {
		s.cuts = headParts(c.Vocab, lm, lm)
	} else {
		s.cuts = headParts(c.Vocab, lm, s.shape.bytes)
	}
	s.plan(need)
	if err := s.allocate(b, lm); err != nil {
		b.fail("%w", err)
	}
	if b.err != nil {
		return s
	}
	s.start(workers)
	if err := s.load(); err != nil {
		b.fail("%w", err)
	}
	return s
}

// add puts matrix i of n bytes into the slot.
func (p *slotShape) add(i int, name string, n int64) {
	p.at[i] = p.bytes
	for off := int64(0); off < n; off += pieceBytes {
		p.pieces = append(p.pieces, slotPiece{name: name, layer: n, off: off, at: p.bytes + off, n: min(pieceBytes, n-off)})
	}
	p.bytes += roundUp(n, slotAlign)
}

// plan says which units are kept: layers spread evenly, so that there is
// something to compute while the next of the others is deciphered.
func (s *streamed) plan(need Need) {
	nl := len(s.layers)
	s.units = nl + len(s.cuts)
	s.at = make([]*slot, s.units)
	s.first = make([]int, s.units)
	for u := range s.units {
		s.first[u] = len(s.order)
		keep := need.keepHead
		if u < nl {
			keep = (u+1)*need.Kept/nl > u*need.Kept/nl
		}
		if keep {
			s.kept = append(s.kept, slot{unit: u})
		} else {
			s.order = append(s.order, u)
		}
	}
	for u := range s.first {
		if s.first[u] == len(s.order) {
			s.first[u] = 0 // round again
		}
	}
	s.slots = make([]slot, min(slotCount, len(s.order)))
	for i := range s.slots {
		s.slots[i].unit = -1
	}
}

// allocate takes the memory of all slots in one mapping.
func (s *streamed) allocate(b *binder, lm int64) error {
	head := roundUp(lm, slotAlign)
	total := int64(0)
	for i := range s.kept {
		total += s.size(&s.kept[i], head)
	}
	total += int64(len(s.slots)) * s.shape.bytes
	mem, err := unix.Mmap(-1, 0, int(total), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return fmt.Errorf("engine: %d bytes for weights: %w", total, err)
	}
	s.mem = mem
	_ = unix.Madvise(mem, unix.MADV_DONTDUMP) // a kernel without it dumps them
	for _, slots := range [][]slot{s.slots, s.kept} {
		for i := range slots {
			n := s.size(&slots[i], head)
			slots[i].mem, mem = mem[:n:n], mem[n:]
			s.view(b, &slots[i])
		}
	}
	for _, p := range s.cuts { // of any memory: it is the sizes that are checked
		b.matrix(b.family+"_lm", s.mem[:p.bytes], p.rows, b.c.Dim)
	}
	return nil
}

// size is the memory of a slot: a layer's, or that of the head where it is kept.
func (s *streamed) size(sl *slot, head int64) int64 {
	if sl.unit >= len(s.layers) {
		return head
	}
	return s.shape.bytes
}

// view sets the matrices of a slot, which stay where they are whatever is in it.
// The rows and data of a part of the head are set when it is filled.
func (s *streamed) view(b *binder, sl *slot) {
	sl.lm = kernels.Matrix{Cols: b.c.Dim, Layout: b.layout}
	if sl.unit >= len(s.layers) {
		return
	}
	mats := sl.w.all()
	for i, m := range b.c.layerMatrices() {
		n := b.size(b.family+"_"+m.name, b.c.Layers) / int64(b.c.Layers)
		*mats[i] = b.matrix(b.family+"_"+m.name, sl.mem[s.shape.at[i]:][:n:n], m.rows, m.cols)
	}
}

// start starts the workers.
func (s *streamed) start(workers int) {
	for range workers {
		s.ended.Add(1)
		go func() {
			debug.SetPanicOnFault(true)
			s.work()
		}()
	}
}

// load deciphers the units that are kept.
func (s *streamed) load() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.kept {
		sl := &s.kept[i]
		u := sl.unit
		s.fill(sl, u)
		for s.at[u] == nil {
			if s.failed != nil {
				return s.failed
			}
			s.arrived.Wait()
		}
	}
	return nil
}
