// SPDX-License-Identifier: Apache-2.0

package tokenizer

import (
	"bytes"
	"hash/maphash"
	"math/bits"
	"math/rand/v2"
)

// tokenIndex finds ids by content: open addressing over ids, half full at
// most, so that 150 000 tokens take a megabyte beside the contents that are
// kept anyway. The hash is seeded: a hostile file cannot choose collisions.
type tokenIndex struct {
	seed  maphash.Seed
	slots []int32 // id+1, 0 is free; a power of two of them
	used  int
}

func (x *tokenIndex) find(t *Tokenizer, content []byte) (int32, bool) {
	if len(x.slots) == 0 {
		return 0, false
	}
	mask := uint64(len(x.slots) - 1)
	for i := maphash.Bytes(x.seed, content) & mask; ; i = (i + 1) & mask {
		id := x.slots[i] - 1
		if id < 0 {
			return 0, false
		}
		if bytes.Equal(t.textS[id].of(t.text), content) {
			return id, true
		}
	}
}

// insert enters an id, whose content is in t, unless another has its content.
func (x *tokenIndex) insert(t *Tokenizer, id int32) (other int32, dup bool) {
	if 2*(x.used+1) > len(x.slots) {
		old := x.slots
		x.slots = make([]int32, max(1024, 2*len(old)))
		for _, s := range old {
			if s != 0 {
				x.place(t, s-1)
			}
		}
	}
	if other, dup = x.find(t, t.textS[id].of(t.text)); dup {
		return other, true
	}
	x.place(t, id)
	x.used++
	return 0, false
}

func (x *tokenIndex) place(t *Tokenizer, id int32) {
	mask := uint64(len(x.slots) - 1)
	i := maphash.Bytes(x.seed, t.textS[id].of(t.text)) & mask
	for x.slots[i] != 0 {
		i = (i + 1) & mask
	}
	x.slots[i] = id + 1
}

// mergeTable maps a pair of ids to the rank of its merge and the id it
// gives. Open addressing, 16 bytes a slot, up to two thirds full.
type mergeTable struct {
	slots []mergeSlot
	used  int
	mul   uint64 // odd and random: multiply-shift hashing
	shift uint
}

type mergeSlot struct {
	pair uint64 // left id << 32 | right id, plus 1: 0 is free
	rank uint32
	id   int32
}

func (m *mergeTable) init() {
	m.mul = rand.Uint64() | 1
	m.resize(10)
}

func (m *mergeTable) resize(log int) {
	old := m.slots
	m.slots, m.shift = make([]mergeSlot, 1<<log), uint(64-log)
	for _, s := range old {
		if s.pair != 0 {
			*m.slot(s.pair) = s
		}
	}
}

// slot returns the slot of a pair, or the free one where it belongs.
func (m *mergeTable) slot(pair uint64) *mergeSlot {
	mask := uint64(len(m.slots) - 1)
	for i := pair * m.mul >> m.shift; ; i = (i + 1) & mask {
		if s := &m.slots[i&mask]; s.pair == pair || s.pair == 0 {
			return s
		}
	}
}

func pairOf(a, b int32) uint64 { return uint64(uint32(a))<<32 | uint64(uint32(b)) + 1 }

// set enters a merge; a later one of the same pair takes its place, as in
// the reference.
func (m *mergeTable) set(a, b int32, rank uint32, id int32) {
	if 3*(m.used+1) > 2*len(m.slots) {
		m.resize(bits.Len(uint(len(m.slots))))
	}
	s := m.slot(pairOf(a, b))
	if s.pair == 0 {
		m.used++
	}
	*s = mergeSlot{pairOf(a, b), rank, id}
}

// get returns the merge of two neighbours; rank is noRank when there is none.
func (m *mergeTable) get(a, b int32) (rank uint32, id int32) {
	s := m.slot(pairOf(a, b))
	if s.pair == 0 {
		return noRank, 0
	}
	return s.rank, s.id
}

const noRank = ^uint32(0)
