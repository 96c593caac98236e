// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// pagePool is the memory of the KV cache, of all sequences and of the prefixes
// that are kept. Address space for the budget is reserved at load, outside the Go
// heap. A page takes memory when its first position is written, and keeps it for
// the next that needs a page until trim gives it back: a short conversation takes
// little, and decoding allocates nothing.
type pagePool struct {
	kind                     kvKind
	layers, kvHeads, headDim int
	size                     int // bytes of the keys, or the values, of a head in a page

	list []page
	free []*page      // what was given back last is on top; it has memory
	mem  []byte       // the reservation; nil when closed
	took atomic.Int64 // pages that have memory
}

// hugePage is what pages are aligned to and the system is asked to back them by:
// attention goes through much memory a token, and translating addresses would
// show.
const hugePage = 2 << 20

// newPagePool reserves n pages.
func newPagePool(c *Config, n int, kind kvKind) (*pagePool, error) {
	p := &pagePool{kind: kind, layers: c.Layers, kvHeads: c.KVHeads, headDim: c.HeadDim, size: kind.headBytes(c.HeadDim)}
	size := int64(n)*p.stride() + hugePage
	mem, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("engine: kv cache of %d bytes in %d pages: %w", size, n, err)
	}
	p.mem = mem
	p.list, p.free = make([]page, n), make([]*page, n)
	at := int(-uintptr(unsafe.Pointer(unsafe.SliceData(mem))) % hugePage)
	for i := range p.list {
		p.list[i].data = mem[at:][:p.pageBytes():p.stride()]
		p.free[n-1-i] = &p.list[i]
		at += int(p.stride())
	}
	return p, nil
}

// pageBytes is the size of a page, stride the address space it has.
func (p *pagePool) pageBytes() int { return 2 * p.layers * p.kvHeads * p.size }

func (p *pagePool) stride() int64 { return roundUp(int64(p.pageBytes()), hugePage) }

// take gives a page that belongs to the caller, or nil when there is none. Where
// a page has room for huge ones it asks for them, but not for one at its end that
// it would fill in part.
func (p *pagePool) take() *page {
	if len(p.free) == 0 {
		return nil
	}
	pg := p.free[len(p.free)-1]
	p.free = p.free[:len(p.free)-1]
	if !pg.taken {
		// What it fills of its stride in part may not become a huge page, where the
		// system takes those unasked: the cache would cost more than kvBytes counts.
		whole := p.pageBytes() / hugePage * hugePage
		advise([][]byte{pg.data[:whole]}, unix.MADV_HUGEPAGE)
		advise([][]byte{pg.data[whole:p.stride()]}, unix.MADV_NOHUGEPAGE)
		p.took.Add(1)
	}
	pg.refs, pg.fill, pg.writer, pg.taken = 1, 0, nil, true
	return pg
}

// drop gives a page back that the caller has.
func (p *pagePool) drop(pg *page) {
	if pg.refs--; pg.refs == 0 {
		pg.writer = nil
		p.free = append(p.free, pg)
	}
}

// inUse is how many pages somebody has.
func (p *pagePool) inUse() int { return len(p.list) - len(p.free) }

// trim gives the memory of free pages back to the system. Pages that have some
// are used first all the same.
func (p *pagePool) trim() {
	for _, pg := range p.free {
		if pg.taken {
			advise([][]byte{pg.data}, unix.MADV_DONTNEED)
			// Where the system's huge pages are larger (32 MiB with pages of 16 KiB), one of
			// a neighbour's would bring this page's memory back.
			advise([][]byte{pg.data}, unix.MADV_NOHUGEPAGE)
			pg.taken = false
			p.took.Add(-1)
		}
	}
}

// copyPage copies the first n positions of a page.
func (p *pagePool) copyPage(dst, src *page, n int) {
	used := p.used(n)
	for l := range p.layers {
		for h := range p.kvHeads {
			dk, dv := p.block(dst, l, h)
			sk, sv := p.block(src, l, h)
			copy(dk[:used], sk)
			copy(dv[:used], sv)
		}
	}
}

func (p *pagePool) close() error {
	if p.mem == nil {
		return nil
	}
	mem := p.mem
	p.list, p.free, p.mem = nil, nil, nil
	p.took.Store(0)
	if err := unix.Munmap(mem); err != nil {
		return fmt.Errorf("engine: kv cache: %w", err)
	}
	return nil
}
