// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"fmt"
	"unsafe"
)

// KV is how a cache holds keys and values. It is memory only: numbers are in
// the byte order of the machine.
//
// Positions of one head lie in groups of KVGroup; w is the head's width rounded
// up to 16. A group of keys has element j of all positions together, so that a
// lane of a register is a position; a group of values has the elements of a
// position together. So both are read from the first byte to the last, whole
// cache lines at a time, which is what memory gives fastest.
type KV uint8

const (
	// KVF16 is binary16, rounded to nearest even: keys [w][64], values [64][w].
	KVF16 KV = iota
	// KVInt8 has codes and a scale for each position and 32 elements (the last
	// may be fewer), quantised as [Acts] does, the scale then rounded to
	// binary16; it reads as code*scale, rounded. First the scales, keys
	// [ceil(w/32)][64] and values [64][ceil(w/32)], then the codes as above.
	KVInt8
)

// KVGroup is the number of positions in a group.
const KVGroup = 4 * lanes

func (t KV) String() string {
	switch t {
	case KVF16:
		return "f16"
	case KVInt8:
		return "int8"
	}
	return fmt.Sprintf("KV(%d)", uint8(t))
}

// GroupBytes is the size of a group of keys, and of one of values, with heads of
// hd values.
func (t KV) GroupBytes(hd int) int {
	w := roundLanes(hd)
	if t == KVInt8 {
		return KVGroup * (w + 2*kvBlocks(w))
	}
	return KVGroup * 2 * w
}

func roundLanes(n int) int { return (n + lanes - 1) / lanes * lanes }

// kvBlocks is the number of scales a position has.
func kvBlocks(w int) int { return (w + BlockLen - 1) / BlockLen }

// StoreKey puts a key in a group as position i.
func (t KV) StoreKey(group []byte, i int, key []float32) {
	t.check("StoreKey", group, i, len(key))
	for at := 0; at < len(key); at += kvPiece {
		part := key[at:min(at+kvPiece, len(key))]
		if t == KVF16 {
			var h [kvPiece]uint16
			F32ToF16Slice(h[:len(part)], part)
			dst := halvesOf(group)[at*KVGroup+i:]
			for j, v := range h[:len(part)] {
				dst[j*KVGroup] = v
			}
			continue
		}
		scales, codes := kvParts(group, len(key))
		var q kvCodes
		q.quantise(part)
		for b, d := range q.d[:kvBlocks(len(part))] {
			scales[(at/BlockLen+b)*KVGroup+i] = F32ToF16(d)
		}
		dst := codes[at*KVGroup+i:]
		for j, c := range q.q[:len(part)] {
			dst[j*KVGroup] = c
		}
	}
}

// StoreValue puts a value in a group as position i.
func (t KV) StoreValue(group []byte, i int, value []float32) {
	t.check("StoreValue", group, i, len(value))
	w := roundLanes(len(value))
	if t == KVF16 {
		F32ToF16Slice(halvesOf(group)[i*w:][:len(value)], value)
		return
	}
	scales, codes := kvParts(group, len(value))
	for at := 0; at < len(value); at += kvPiece {
		part := value[at:min(at+kvPiece, len(value))]
		var q kvCodes
		q.quantise(part)
		for b, d := range q.d[:kvBlocks(len(part))] {
			scales[i*kvBlocks(w)+at/BlockLen+b] = F32ToF16(d)
		}
		copy(codes[i*w+at:], q.q[:len(part)])
	}
}

func (t KV) check(op string, group []byte, i, hd int) {
	if t > KVInt8 || hd < 1 || i < 0 || i >= KVGroup || len(group) < t.GroupBytes(hd) {
		panic(fmt.Sprintf("kernels: %s: position %d of a head of %d in %d bytes of %v", op, i, hd, len(group), t))
	}
}

// kvPiece is how many elements are stored at once.
const kvPiece = 8 * BlockLen

// kvCodes is a piece in int8.
type kvCodes struct {
	q   [kvPiece]int8
	d   [kvPiece / BlockLen]float32
	sum [kvPiece / BlockLen]int32
}

func (c *kvCodes) quantise(x []float32) {
	n := kvBlocks(len(x))
	if len(x) == n*BlockLen {
		quantizeActs(c.q[:len(x)], c.d[:n], c.sum[:n], x)
		return
	}
	var full [kvPiece]float32
	copy(full[:], x)
	quantizeActs(c.q[:n*BlockLen], c.d[:n], c.sum[:n], full[:n*BlockLen])
}

// halvesOf views a group as binary16.
func halvesOf(group []byte) []uint16 {
	return unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(group))), len(group)/2)
}

// kvParts views an int8 group as scales and codes.
func kvParts(group []byte, hd int) (scales []uint16, codes []int8) {
	w := roundLanes(hd)
	n := KVGroup * kvBlocks(w)
	return halvesOf(group)[:n], unsafe.Slice((*int8)(unsafe.Pointer(&group[2*n])), KVGroup*w)
}

// keys reads a group as float32 [hd][KVGroup].
func (t KV) keys(dst []float32, group []byte, hd int) {
	n := hd * KVGroup
	if t == KVF16 {
		kvHalves(dst[:n], halvesOf(group)[:n])
		return
	}
	scales, codes := kvParts(group, hd)
	kvInt8Keys(dst[:n], scales, codes[:n], KVGroup)
}

// values reads a group as float32 [KVGroup][w].
func (t KV) values(dst []float32, group []byte, hd int) {
	n := roundLanes(hd) * KVGroup
	if t == KVF16 {
		kvHalves(dst[:n], halvesOf(group)[:n])
		return
	}
	scales, codes := kvParts(group, hd)
	kvInt8Values(dst[:n], scales, codes, KVGroup)
}
