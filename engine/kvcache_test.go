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

// A page is made when its first position comes, is one run of memory where huge
// pages can back it, and gives every head a part of its own.
func TestCachePages(t *testing.T) {
	for _, kind := range []kvKind{{KV: kernels.KVF16}, {KV: kernels.KVInt8}} {
		c := Config{Layers: 5, Heads: 6, KVHeads: 3, HeadDim: 128}
		const ctx = 3*kernels.AttnBlock + 1
		kv, err := newKVCache(&c, ctx, kind)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := int64(4*kv.pageBytes()), kvBytes(&c, ctx, kind); got != want {
			t.Errorf("%v: 4 pages have %d bytes, counted are %d", kind, got, want)
		}
		made := func() (n int) {
			for _, p := range kv.pages {
				if p != nil {
					n++
				}
			}
			return n
		}
		for _, c := range []struct{ positions, pages int }{{0, 0}, {1, 1}, {256, 1}, {257, 2}, {100, 2}, {ctx, 4}} {
			if kv.grow(c.positions); made() != c.pages {
				t.Errorf("%v: %d pages for %d positions, want %d", kind, made(), c.positions, c.pages)
			}
		}
		// Each block is filled with a number; none may lie in another.
		number := func(layer, head, page, which int) byte {
			return byte(((layer*c.KVHeads+head)*4+page)*2 + which + 1)
		}
		each := func(do func(b []byte, n byte)) {
			for page := range kv.pages {
				for layer := range c.Layers {
					for head := range c.KVHeads {
						k, v := kv.block(layer, head, page)
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
		for i, p := range kv.pages {
			if at := uintptr(unsafe.Pointer(unsafe.SliceData(p))); at%hugePage != 0 {
				t.Errorf("%v: page %d is at %#x", kind, i, at)
			}
			if slices.Contains(p, 0) {
				t.Errorf("%v: page %d has bytes of no block", kind, i)
			}
		}
		if n := testing.AllocsPerRun(10, func() {
			clear(kv.pages)
			kv.grow(ctx)
		}); n != 0 {
			t.Errorf("%v: growing allocates %v times", kind, n)
		}
		if err := kv.close(); err != nil {
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
		kv, err := newKVCache(&c, 2*kernels.AttnBlock, kvKind{KV: kernels.KVF16})
		if err != nil {
			t.Fatal(err)
		}
		kv.grow(2 * kernels.AttnBlock)
		for i, p := range kv.pages {
			at, whole := uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)/hugePage*hugePage)
			for _, part := range []struct {
				from, to uintptr
				flag     string
			}{{at, at + whole, "hg"}, {at + whole, at + uintptr(kv.stride()), "nh"}} {
				if part.from == part.to {
					continue
				}
				if got := mappedWithout(t, part.from, part.to, part.flag); got > 0 {
					t.Errorf("page %d of %d bytes: %d of the %d bytes from %d on are without %q", i, len(p), got, part.to-part.from, part.from-at, part.flag)
				}
			}
		}
		if err := kv.close(); err != nil {
			t.Error(err)
		}
	}
}

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
