// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// kvCache holds keys and values of one sequence. The whole context is reserved
// as address space at load, outside the Go heap; memory is taken by the system
// page by page, as positions are written. So the cache of a short conversation
// is small, a kv head's positions still lie one after the other, and decoding
// allocates nothing.
type kvCache struct {
	k16, v16 []uint16  // [layers][kvHeads][ctx][headDim] binary16, or nil
	k32, v32 []float32 // the same in float32, for the reference path, or nil

	ctx, kvHeads, headDim int
	mem                   []byte // the mapping; nil when closed
}

// kvBytes is what the cache of ctx positions takes when it is full.
func kvBytes(c *Config, ctx, elem int) int64 {
	return 2 * int64(elem) * int64(c.Layers) * int64(c.KO()) * int64(ctx)
}

// newKVCache reserves a cache. float32 elements when wide, else binary16.
func newKVCache(c *Config, ctx int, wide bool) (*kvCache, error) {
	elem := 2
	if wide {
		elem = 4
	}
	size := kvBytes(c, ctx, elem)
	mem, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("engine: kv cache of %d bytes for %d tokens: %w", size, ctx, err)
	}
	kv := &kvCache{ctx: ctx, kvHeads: c.KVHeads, headDim: c.HeadDim, mem: mem}
	half := int(size) / elem / 2
	// A fresh anonymous mapping is aligned to a page and holds zeros; the
	// slices live as long as mem.
	base := unsafe.Pointer(unsafe.SliceData(mem))
	if wide {
		all := unsafe.Slice((*float32)(base), 2*half)
		kv.k32, kv.v32 = all[:half:half], all[half:]
	} else {
		all := unsafe.Slice((*uint16)(base), 2*half)
		kv.k16, kv.v16 = all[:half:half], all[half:]
	}
	return kv, nil
}

// at is the index of the first element of a position.
func (kv *kvCache) at(layer, head, pos int) int {
	return ((layer*kv.kvHeads+head)*kv.ctx + pos) * kv.headDim
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
