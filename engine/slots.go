// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"runtime/debug"

	"golang.org/x/sys/unix"

	"windhover/kernels"
	"windhover/vqf"
)

// slotShape is how a layer lies in a slot: its matrices one after the other, each
// in a region of its own. A region is deciphered data from its first byte on, or
// the pages of the file that the matrix lies in.
type slotShape struct {
	page   int64 // what readings of the file are multiples of; 1: nothing
	piece  int64 // bytes read at once
	bytes  int64
	mats   []slotMatrix
	pieces []slotPiece
}

// slotMatrix is one of a layer's matrices in file and slot.
type slotMatrix struct {
	region
	at int64 // in the slot
}

// slotPiece is one reading of a layer's weights.
type slotPiece struct {
	mat int
	off int64 // in its region
}

// region is what is read of a tensor for one matrix: n bytes from off on.
type region struct {
	name string // tensor
	base int64  // of the tensor in the file
	off  int64
	n    int64
}

// shift is where in its region the data begins.
func (r *region) shift(page int64) int64 { return (r.base + r.off) % page }

// of is the matrix of layer l, where r is that of layer 0.
func (r region) of(l int) region {
	r.off += int64(l) * r.n
	return r
}

// slotRoom is the memory of a region of n bytes, wherever in a page they begin.
func slotRoom(n, page int64) int64 { return roundUp(roundUp(n+page-1, page), slotAlign) }

// slotPage is the page of slotRoom for a file.
func slotPage(encrypted bool) int64 {
	if encrypted {
		return 1
	}
	return vqf.PageAlign
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

// readers is how many readings of a plain file are under way at once: with some
// megabytes asked for a disk is as fast as it can, 96 % of that where four gave 85.
const readers = 8

// streamed lays out memory, starts the workers and deciphers what is kept. Of a
// plain file, layers and head that are kept are views of the mapping.
func (b *binder) streamed(need Need, stamp vqf.Stamp, workers int) *streamed {
	c := b.c
	s := &streamed{file: b.f, whole: b.f, row: make([]byte, b.embedding()), next: -1, stamp: stamp}
	s.posted.L, s.arrived.L = &s.mu, &s.mu
	encrypted := b.f.Flags()&vqf.FlagEnc != 0
	s.shape.page, s.shape.piece = slotPage(encrypted), pieceBytes
	var plain *mapped
	if encrypted {
		s.layers = b.vectors()
	} else {
		plain = b.mapped()
		s.layers, s.shape.piece, workers = plain.layers, directBytes, readers
	}
	for _, m := range c.layerMatrices() {
		name := b.family + "_" + m.name
		s.shape.add(b.region(name, b.size(name, c.Layers)/int64(c.Layers)))
	}
	s.lm = b.region(b.family+"_lm", b.size(b.family+"_lm", 1))
	if b.err != nil {
		return nil
	}
	room := s.lm.n
	if !need.keepHead {
		room = s.shape.bytes - 2*(s.shape.page-1)
	}
	s.cuts = headParts(c.Vocab, s.lm.n, room)
	s.plan(need)
	if err := s.allocate(b, plain); err != nil {
		b.fail("%w", err)
	}
	if b.err != nil {
		return s
	}
	if plain != nil {
		var err error
		if s.pages, err = b.f.Pages(); err != nil {
			b.fail("%w", err)
			return s
		}
	}
	if need.Experts > 0 {
		var err error
		if s.mixture, err = b.expertSlots(need.Experts, workers, s.unchangedNow); err != nil {
			b.fail("%w", err)
			return s
		}
	}
	s.start(workers)
	if err := s.load(); err != nil {
		b.fail("%w", err)
	}
	return s
}

// adviseSlots asks that memory be left out of core dumps and come in large pages,
// which are read faster and are fewer to hold while a disk writes to them. A kernel
// that does not take the advice does without.
func adviseSlots(mem []byte) {
	advise([][]byte{mem}, unix.MADV_DONTDUMP)
	advise([][]byte{mem}, unix.MADV_HUGEPAGE)
}

// advise leaves errors alone: advice that is not taken changes no result.
func advise(ranges [][]byte, advice int) {
	for _, r := range ranges {
		_ = unix.Madvise(r, advice)
	}
}

// region is the first n bytes of a tensor.
func (b *binder) region(name string, n int64) region {
	t, _ := b.f.Tensor(name)
	return region{name: name, base: int64(t.Offset), n: n}
}

// add puts a matrix into the slot.
func (p *slotShape) add(r region) {
	room := slotRoom(r.n, p.page)
	for off := int64(0); off < room; off += p.piece {
		p.pieces = append(p.pieces, slotPiece{mat: len(p.mats), off: off})
	}
	p.mats = append(p.mats, slotMatrix{region: r, at: p.bytes})
	p.bytes += room
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
func (s *streamed) allocate(b *binder, plain *mapped) error {
	own := s.kept // what has memory here
	if plain != nil {
		own = nil
		for i := range s.kept {
			sl := &s.kept[i]
			if sl.unit < len(s.layers) {
				sl.w = plain.layers[sl.unit]
			} else {
				sl.lm = plain.lm
			}
			s.at[sl.unit] = sl
		}
	}
	total := int64(len(s.slots)) * s.shape.bytes
	for i := range own {
		total += s.size(&own[i])
	}
	if total == 0 {
		return nil
	}
	mem, err := unix.Mmap(-1, 0, int(total), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return fmt.Errorf("engine: %d bytes for weights: %w", total, err)
	}
	s.mem = mem
	adviseSlots(mem)
	for _, slots := range [][]slot{s.slots, own} {
		for i := range slots {
			n := s.size(&slots[i])
			slots[i].mem, mem = mem[:n:n], mem[n:]
			s.view(b, &slots[i])
		}
	}
	for _, p := range s.cuts {
		if s.at[len(s.layers)] == nil { // of any memory: it is the sizes that are checked
			b.matrix(s.lm.name, s.mem[:p.bytes], p.rows, b.c.Dim)
		}
	}
	return nil
}

// size is the memory of a slot: a layer's, or that of the head where it is kept.
func (s *streamed) size(sl *slot) int64 {
	if sl.unit >= len(s.layers) {
		return roundUp(s.lm.n, slotAlign)
	}
	return s.shape.bytes
}

// view sets the shapes of a slot's matrices; fill sets what depends on the unit.
func (s *streamed) view(b *binder, sl *slot) {
	sl.lm = kernels.Matrix{Cols: b.c.Dim, Layout: b.layout}
	if sl.unit >= len(s.layers) {
		return
	}
	mats := sl.w.all()
	for i, m := range b.c.layerMatrices() {
		r := &s.shape.mats[i]
		*mats[i] = b.matrix(r.name, sl.mem[r.at:][:r.n:r.n], m.rows, m.cols)
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
		if s.at[u] != nil { // of a plain file
			continue
		}
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
