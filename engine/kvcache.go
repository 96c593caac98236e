// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"unsafe"

	"windhover/kernels"
)

// Keys and values are in pages of kernels.AttnBlock positions: what attention
// computes together. A page has all layers and heads of its positions,
// [layer][kv head][keys, values][groups], see kernels.KV, in the order in which a
// token's attention reads them, so that it is one run of memory. A sequence has a
// table of pages; attention and store find one by that alone, so that a page may
// be in many tables.

// kvKind is how the cache holds its numbers.
type kvKind struct {
	wide bool // float32 [position][headDim], for the reference path
	kernels.KV
}

func (o *Options) kvKind() kvKind {
	if o.KV == "int8" {
		return kvKind{o.reference(), kernels.KVInt8}
	}
	return kvKind{o.reference(), kernels.KVF16}
}

// kvPages is the number of pages of n positions.
func kvPages(n int) int { return (n + kernels.AttnBlock - 1) / kernels.AttnBlock }

// headBytes is what the keys of a head take in a page.
func (k kvKind) headBytes(headDim int) int {
	if k.wide {
		return 4 * kernels.AttnBlock * headDim
	}
	return kernels.AttnBlock / kernels.KVGroup * k.GroupBytes(headDim)
}

// kvPageBytes is the size of a page.
func kvPageBytes(c *Config, kind kvKind) int64 {
	return 2 * int64(c.Layers) * int64(c.KVHeads) * int64(kind.headBytes(c.HeadDim))
}

// kvBytes is what the pages of ctx positions take.
func kvBytes(c *Config, ctx int, kind kvKind) int64 {
	return int64(kvPages(ctx)) * kvPageBytes(c, kind)
}

// kvPerToken is what a position takes.
func kvPerToken(c *Config, kind kvKind) int64 { return kvPageBytes(c, kind) / kernels.AttnBlock }

// page is a piece of the cache. One goroutine at a time has its fields.
type page struct {
	data []byte
	refs int // sequences and places of the prefix tree that have it; 0: it is free

	// What is written and right, from the first position on. Who continues it
	// writes behind; nobody else may then, but take a copy.
	fill   int
	writer *sequence

	taken   bool  // it has memory
	counted int64 // the last count of pages that it was in
}

// block gives a head's keys and values of a page.
func (p *pagePool) block(pg *page, layer, head int) (k, v []byte) {
	at := 2 * (layer*p.kvHeads + head) * p.size
	b := pg.data[at:][:2*p.size]
	return b[:p.size:p.size], b[p.size:]
}

// store puts the key and the value of a head at position i of a page.
func (p *pagePool) store(pg *page, layer, head, i int, key, value []float32) {
	k, v := p.block(pg, layer, head)
	if p.kind.wide {
		copy(floatsOf(k)[i*p.headDim:], key)
		copy(floatsOf(v)[i*p.headDim:], value)
		return
	}
	n := p.kind.GroupBytes(p.headDim)
	group := i / kernels.KVGroup * n
	p.kind.StoreKey(k[group:][:n], i%kernels.KVGroup, key)
	p.kind.StoreValue(v[group:][:n], i%kernels.KVGroup, value)
}

// used is how many bytes of a block the first n positions take, rounded up to
// what is stored together.
func (p *pagePool) used(n int) int {
	if p.kind.wide {
		return 4 * n * p.headDim
	}
	return (n + kernels.KVGroup - 1) / kernels.KVGroup * p.kind.GroupBytes(p.headDim)
}

// floatsOf sees a block of the reference path, which begins at a multiple of a
// page of memory plus whole blocks, as what it is. It lives as long as b.
func floatsOf(b []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}
