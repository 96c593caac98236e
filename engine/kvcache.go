// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"windhover/kernels"
)

// kvCache holds keys and values of one sequence. The whole context is reserved
// as address space at load, outside the Go heap; memory is taken by the system
// page by page, as positions are written. So the cache of a short conversation
// is small, a kv head's positions still lie one after the other, and decoding
// allocates nothing.
type kvCache struct {
	kind kvKind
	k, v []byte // [layers][kvHeads][groups] groups of positions, see kernels.KV; nil when wide

	k32, v32 []float32 // [layers][kvHeads][ctx][headDim] when wide, else nil

	ctx, kvHeads, headDim int
	groups, size          int    // of a head; bytes of each
	mem                   []byte // the mapping; nil when closed
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

// headBytes is what the positions of a head take, of keys alone.
func (k kvKind) headBytes(headDim, ctx int) int64 {
	if k.wide {
		return 4 * int64(headDim) * int64(ctx)
	}
	return int64(k.GroupBytes(headDim)) * int64((ctx+kernels.KVGroup-1)/kernels.KVGroup)
}

// kvBytes is what the cache of ctx positions takes when it is full.
func kvBytes(c *Config, ctx int, kind kvKind) int64 {
	return 2 * int64(c.Layers) * int64(c.KVHeads) * kind.headBytes(c.HeadDim, ctx)
}

// kvPerToken is what a position takes.
func kvPerToken(c *Config, kind kvKind) int64 {
	return kvBytes(c, kernels.KVGroup, kind) / kernels.KVGroup
}

// newKVCache reserves a cache.
func newKVCache(c *Config, ctx int, kind kvKind) (*kvCache, error) {
	size := kvBytes(c, ctx, kind)
	mem, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("engine: kv cache of %d bytes for %d tokens: %w", size, ctx, err)
	}
	kv := &kvCache{kind: kind, ctx: ctx, kvHeads: c.KVHeads, headDim: c.HeadDim, mem: mem}
	half := len(mem) / 2
	if kind.wide {
		// A fresh anonymous mapping is aligned to a page; the slice lives as
		// long as mem.
		all := unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(mem))), len(mem)/4)
		kv.k32, kv.v32 = all[:half/4:half/4], all[half/4:]
		return kv, nil
	}
	kv.k, kv.v = mem[:half:half], mem[half:]
	kv.groups, kv.size = (ctx+kernels.KVGroup-1)/kernels.KVGroup, kind.GroupBytes(c.HeadDim)
	return kv, nil
}

// at is the index of the first element of a position in k32 and v32.
func (kv *kvCache) at(layer, head, pos int) int {
	return ((layer*kv.kvHeads+head)*kv.ctx + pos) * kv.headDim
}

// from gives a head's keys and values, from the group of a position on.
func (kv *kvCache) from(layer, head, pos int) (k, v []byte) {
	head += layer * kv.kvHeads
	at, end := (head*kv.groups+pos/kernels.KVGroup)*kv.size, (head+1)*kv.groups*kv.size
	return kv.k[at:end], kv.v[at:end]
}

// store puts the key and the value of a position and head in the cache.
func (kv *kvCache) store(layer, head, pos int, key, value []float32) {
	if kv.kind.wide {
		at := kv.at(layer, head, pos)
		copy(kv.k32[at:][:kv.headDim], key)
		copy(kv.v32[at:][:kv.headDim], value)
		return
	}
	k, v := kv.from(layer, head, pos)
	kv.kind.StoreKey(k[:kv.size], pos%kernels.KVGroup, key)
	kv.kind.StoreValue(v[:kv.size], pos%kernels.KVGroup, value)
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
