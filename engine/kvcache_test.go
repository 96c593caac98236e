// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"windhover/kernels"
)

// A page is one run of memory where huge pages can back it, and gives every head a
// part of its own.
func TestCachePages(t *testing.T) {
	for _, kind := range []kvKind{{KV: kernels.KVF16}, {KV: kernels.KVInt8}, {wide: true}} {
		c := Config{Layers: 5, Heads: 6, KVHeads: 3, HeadDim: 128}
		pool, err := newPagePool(&c, 4, kind)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := int64(4*pool.pageBytes()), kvBytes(&c, 3*kernels.AttnBlock+1, kind); got != want {
			t.Errorf("%v: 4 pages have %d bytes, counted are %d", kind, got, want)
		}
		// Each block is filled with a number; none may lie in another.
		number := func(layer, head, page, which int) byte {
			return byte(((layer*c.KVHeads+head)*4+page)*2 + which + 1)
		}
		each := func(do func(b []byte, n byte)) {
			for page := range pool.list {
				for layer := range c.Layers {
					for head := range c.KVHeads {
						k, v := pool.block(&pool.list[page], layer, head)
						do(k, number(layer, head, page, 0))
						do(v, number(layer, head, page, 1))
					}
				}
			}
		}
		each(func(b []byte, n byte) {
			for i := range b {
				b[i] = n
			}
		})
		each(func(b []byte, n byte) {
			if want := kind.headBytes(c.HeadDim); len(b) != want || slices.ContainsFunc(b, func(x byte) bool { return x != n }) {
				t.Errorf("%v: a block of %d bytes, want %d of %d", kind, len(b), want, n)
			}
		})
		for i := range pool.list {
			p := pool.list[i].data
			if at := uintptr(unsafe.Pointer(unsafe.SliceData(p))); at%hugePage != 0 {
				t.Errorf("%v: page %d is at %#x", kind, i, at)
			}
			if slices.Contains(p, 0) {
				t.Errorf("%v: page %d has bytes of no block", kind, i)
			}
		}
		if err := pool.close(); err != nil {
			t.Error(err)
		}
	}
}

// A sequence takes a page when its first position comes and gives back what it
// cuts off; the pool gives each page once, and the one that was in use last.
func TestSequenceGrows(t *testing.T) {
	c := Config{Layers: 1, Heads: 1, KVHeads: 1, HeadDim: 16}
	pool, err := newPagePool(&c, 5, kvKind{})
	if err != nil {
		t.Fatal(err)
	}
	a, b := newSequence(pool, 1024), newSequence(pool, 1024)
	tokens := make([]int32, 600)
	for _, c := range []struct {
		q       *sequence
		n, have int
		ok      bool
	}{{a, 0, 0, true}, {a, 1, 1, true}, {a, 256, 1, true}, {a, 257, 2, true}, {b, 600, 3, true}, {a, 512, 2, true}, {a, 513, 2, false}} {
		if ok := c.q.grow(c.n); ok != c.ok || len(c.q.pages) != c.have {
			t.Errorf("%d positions: %v with %d pages, want %v with %d", c.n, ok, len(c.q.pages), c.ok, c.have)
		}
	}
	b.computed(tokens)
	var fill []int
	for _, pg := range b.pages {
		fill = append(fill, pg.fill)
	}
	if !slices.Equal(fill, []int{256, 256, 88}) {
		t.Errorf("filled %v", fill)
	}
	last := b.pages[1]
	b.cut(200)
	if b.len() != 200 || len(b.pages) != 1 || b.pages[0].fill != 200 || pool.inUse() != 3 {
		t.Errorf("cut to %d positions, %d pages, the first with %d; %d in use", b.len(), len(b.pages), b.pages[0].fill, pool.inUse())
	}
	if !a.grow(513) || a.pages[2] != last {
		t.Error("another page than the one that was in use last")
	}
	pool.trim()
	taken := 0
	for i := range pool.list {
		if pool.list[i].taken {
			taken++
		}
	}
	if taken != pool.inUse() {
		t.Errorf("%d pages have memory, %d are in use", taken, pool.inUse())
	}
	if n := testing.AllocsPerRun(10, func() {
		a.cut(0)
		a.grow(700)
	}); n != 0 {
		t.Errorf("growing allocates %v times", n)
	}
	if err := pool.close(); err != nil {
		t.Error(err)
	}
}

// A copy of a page has the positions that were asked for.
func TestCopyPage(t *testing.T) {
	c := Config{Layers: 2, Heads: 2, KVHeads: 2, HeadDim: 32}
	key := make([]float32, c.HeadDim)
	for _, kind := range []kvKind{{KV: kernels.KVF16}, {KV: kernels.KVInt8}, {wide: true}} {
		pool, err := newPagePool(&c, 3, kind)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{1, 63, 64, 65, 200, 256} {
			from, to, want := pool.take(), pool.take(), pool.take()
			for _, pg := range []*page{from, to, want} {
				clear(pg.data)
			}
			for l := range c.Layers {
				for h := range c.KVHeads {
					for i := range kernels.AttnBlock {
						for j := range key {
							key[j] = float32(i*j + l + h)
						}
						pool.store(from, l, h, i, key, key)
						if i < roundUpTo(n, pool) {
							pool.store(want, l, h, i, key, key)
						}
					}
				}
			}
			pool.copyPage(to, from, n)
			if !slices.Equal(to.data, want.data) {
				t.Errorf("%+v: %d positions: not what was stored", kind, n)
			}
			for _, pg := range []*page{from, to, want} {
				pool.drop(pg)
			}
		}
		if err := pool.close(); err != nil {
			t.Error(err)
		}
	}
}

// A page's memory is no more than counted, also where the system backs by huge
// pages what did not ask for them: what a page fills of its stride in part may not
// become one.
func TestCacheHugePages(t *testing.T) {
	if _, err := os.Stat("/sys/kernel/mm/transparent_hugepage"); err != nil {
		t.Skipf("a system without huge pages: %v", err)
	}
	if probe, err := unix.Mmap(-1, 0, hugePage, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANON); err != nil {
		t.Fatal(err)
	} else {
		defer unix.Munmap(probe)
		at := uintptr(unsafe.Pointer(unsafe.SliceData(probe)))
		if err := unix.Madvise(probe, unix.MADV_NOHUGEPAGE); err != nil || mappedWithout(t, at, at+hugePage, "nh") > 0 {
			t.Skipf("advice does not show in smaps, as under emulation: %v", err)
		}
	}
	for _, c := range []Config{
		{Layers: 5, Heads: 6, KVHeads: 3, HeadDim: 128}, // less than a huge page
		{Layers: 9, Heads: 6, KVHeads: 3, HeadDim: 128}, // one and a part
		{Layers: 8, Heads: 8, KVHeads: 4, HeadDim: 128}, // two
	} {
		pool, err := newPagePool(&c, 2, kvKind{KV: kernels.KVF16})
		if err != nil {
			t.Fatal(err)
		}
		for i := range pool.list {
			p := pool.take().data
			at, whole := uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)/hugePage*hugePage)
			for _, part := range []struct {
				from, to uintptr
				flag     string
			}{{at, at + whole, "hg"}, {at + whole, at + uintptr(pool.stride()), "nh"}} {
				if part.from == part.to {
					continue
				}
				if got := mappedWithout(t, part.from, part.to, part.flag); got > 0 {
					t.Errorf("page %d of %d bytes: %d of the %d bytes from %d on are without %q", i, len(p), got, part.to-part.from, part.from-at, part.flag)
				}
			}
		}
		if err := pool.close(); err != nil {
			t.Error(err)
		}
	}
}

// roundUpTo is n, up to whole groups where positions are stored together.
func roundUpTo(n int, pool *pagePool) int {
	if pool.kind.wide {
		return n
	}
	return (n + kernels.KVGroup - 1) / kernels.KVGroup * kernels.KVGroup
}

func (k kvKind) String() string { return fmt.Sprintf("wide %v, %v", k.wide, int(k.KV)) }

// mappedWithout is how many bytes of a range lack a flag in /proc/self/smaps.
func mappedWithout(t *testing.T, from, to uintptr, flag string) (n uintptr) {
	t.Helper()
	data, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	n = to - from
	var first, end uintptr
	for line := range strings.Lines(string(data)) {
		var a, b uintptr
		if _, err := fmt.Sscanf(line, "%x-%x ", &a, &b); err == nil {
			first, end = a, b
		}
		if flags, ok := strings.CutPrefix(line, "VmFlags:"); ok && slices.Contains(strings.Fields(flags), flag) && first < to && end > from {
			n -= min(end, to) - max(first, from)
		}
	}
	return n
}
