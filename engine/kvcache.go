// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"windhover/kernels"
)

// kvCache holds keys and values of one sequence, in pages of kernels.AttnBlock
// positions: what attention computes together. A page has all layers and heads
// of its positions, [layer][kv head][keys, values][groups], see kernels.KV, in
// the order in which a token's attention reads them, so that it is one run of
// memory. Attention and store find a page by the table alone.
//
// The address space of the whole context is reserved at load, outside the Go
// heap. Memory is taken page by page as positions are written: a short
// conversation takes little, and decoding allocates nothing.
type kvCache struct {
	kind  kvKind
	pages [][]byte // by position / AttnBlock; empty where none is written yet

	k32, v32 []float32 // instead, [layers][kvHeads][ctx][headDim], when wide

	ctx, layers, kvHeads, headDim int

	size int    // bytes of the keys, or the values, of a head in a page
	mem  []byte // the reservation; nil when closed
}

// kvKind is how the cache holds its numbers.
type kvKind struct {
	wide bool // float32, for the reference path
	kernels.KV
}

func (o *Options) kvKind() kvKind {
	if o.KV == "int8" {
		return kvKind{o.reference(), kernels.KVInt8}
	}
	return kvKind{o.reference(), kernels.KVF16}
}

// hugePage is what pages are aligned to and the system is asked to back them by:
// attention goes through much memory a token, and translating addresses would
// show.
const hugePage = 2 << 20

// kvPages is the number of pages of ctx positions.
func kvPages(ctx int) int { return (ctx + kernels.AttnBlock - 1) / kernels.AttnBlock }

// headBytes is what the keys of a head take in a page.
func (k kvKind) headBytes(headDim int) int {
	return kernels.AttnBlock / kernels.KVGroup * k.GroupBytes(headDim)
}

// kvPageBytes is the size of a page.
func kvPageBytes(c *Config, kind kvKind) int64 {
	return 2 * int64(c.Layers) * int64(c.KVHeads) * int64(kind.headBytes(c.HeadDim))
}

// kvBytes is what the cache of ctx positions takes when it is full: whole pages.
func kvBytes(c *Config, ctx int, kind kvKind) int64 {
	if kind.wide {
		return 2 * 4 * int64(c.Layers) * int64(c.KVHeads) * int64(c.HeadDim) * int64(ctx)
	}
	return int64(kvPages(ctx)) * kvPageBytes(c, kind)
}

// kvPerToken is what a position takes.
func kvPerToken(c *Config, kind kvKind) int64 {
	return kvBytes(c, kernels.AttnBlock, kind) / kernels.AttnBlock
}

// newKVCache reserves a cache.
func newKVCache(c *Config, ctx int, kind kvKind) (*kvCache, error) {
	kv := &kvCache{kind: kind, ctx: ctx, layers: c.Layers, kvHeads: c.KVHeads, headDim: c.HeadDim}
	size := kvBytes(c, ctx, kind)
	if !kind.wide {
		kv.size = kind.headBytes(c.HeadDim)
		kv.pages = make([][]byte, kvPages(ctx))
		size = int64(len(kv.pages))*kv.stride() + hugePage
	}
	mem, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("engine: kv cache of %d bytes for %d tokens: %w", size, ctx, err)
	}
	kv.mem = mem
	if kind.wide {
		// A fresh anonymous mapping is aligned to a page; the slice lives as
		// long as mem.
		all := unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(mem))), len(mem)/4)
		half := len(all) / 2
		kv.k32, kv.v32 = all[:half:half], all[half:]
	}
	return kv, nil
}

// pageBytes is the size of a page, stride the address space it has.
func (kv *kvCache) pageBytes() int { return 2 * kv.layers * kv.kvHeads * kv.size }

func (kv *kvCache) stride() int64 { return roundUp(int64(kv.pageBytes()), hugePage) }

// grow makes the pages of the first n positions. Where a page has room for huge
// ones it asks for them; for the rest of its stride, of which its end fills a part,
// it asks for none: where the system takes huge ones unasked, that part would cost
// the whole, and the cache more than kvBytes counts.
func (kv *kvCache) grow(n int) {
	if kv.kind.wide {
		return
	}
	for i := kvPages(n) - 1; i >= 0 && kv.pages[i] == nil; i-- {
		base := uintptr(unsafe.Pointer(unsafe.SliceData(kv.mem)))
		at := int(-base%hugePage) + i*int(kv.stride())
		stride := kv.mem[at:][:kv.stride()]
		kv.pages[i] = stride[:kv.pageBytes():kv.pageBytes()]
		whole := kv.pageBytes() / hugePage * hugePage
		advise([][]byte{stride[:whole]}, unix.MADV_HUGEPAGE)
		advise([][]byte{stride[whole:]}, unix.MADV_NOHUGEPAGE)
	}
}

// block gives a head's keys and values of a page.
func (kv *kvCache) block(layer, head, page int) (k, v []byte) {
	at := 2 * (layer*kv.kvHeads + head) * kv.size
	b := kv.pages[page][at:][:2*kv.size]
	return b[:kv.size:kv.size], b[kv.size:]
}

// at is the index of the first element of a position in k32 and v32.
func (kv *kvCache) at(layer, head, pos int) int {
	return ((layer*kv.kvHeads+head)*kv.ctx + pos) * kv.headDim
}

// store puts the key and the value of a position and head in the cache, which
// has grown to it.
func (kv *kvCache) store(layer, head, pos int, key, value []float32) {
	if kv.kind.wide {
		at := kv.at(layer, head, pos)
		copy(kv.k32[at:][:kv.headDim], key)
		copy(kv.v32[at:][:kv.headDim], value)
		return
	}
	k, v := kv.block(layer, head, pos/kernels.AttnBlock)
	i, n := pos%kernels.AttnBlock, kv.kind.GroupBytes(kv.headDim)
	group := i / kernels.KVGroup * n
	kv.kind.StoreKey(k[group:][:n], i%kernels.KVGroup, key)
	kv.kind.StoreValue(v[group:][:n], i%kernels.KVGroup, value)
}

func (kv *kvCache) close() error {
	if kv.mem == nil {
		return nil
	}
	mem := kv.mem
	*kv = kvCache{}
	if err := unix.Munmap(mem); err != nil {
		return fmt.Errorf("engine: kv cache: %w", err)
	}
	return nil
}
