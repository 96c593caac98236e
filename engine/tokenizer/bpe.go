// SPDX-License-Identifier: Apache-2.0

package tokenizer

import "slices"

// shortWord is the number of symbols up to which a scan for the best pair
// beats a heap.
const shortWord = 32

// bpeWork is the scratch memory of one encoding.
type bpeWork struct {
	ids  []int32  // [symbols]
	rank []uint32 // short words: rank of symbol i with i+1
	prev []int32  // long words: neighbours in the list
	next []int32
	heap []uint64 // rank << 32 | position
}

// bpe appends the ids of one word: its characters' tokens, then merged, the
// best pair first and the leftmost of equals, until no pair has a merge.
// O(n log n).
func (t *Tokenizer) bpe(out []int32, word string, w *bpeWork) []int32 {
	w.ids = t.symbols(w.ids[:0], word)
	if len(w.ids) <= shortWord {
		return append(out, t.mergeShort(w)...)
	}
	return t.mergeLong(out, w)
}

// symbols appends the token of each byte. Bytes without one become the
// unknown token, or nothing when there is none.
func (t *Tokenizer) symbols(ids []int32, word string) []int32 {
	unknown := false
	for i := range len(word) {
		id := t.byteID[word[i]]
		if id >= 0 {
			ids, unknown = append(ids, id), false
			continue
		}
		if t.unkID >= 0 && (!unknown || !t.fuseUnk) {
			ids = append(ids, t.unkID)
		}
		unknown = true
	}
	return ids
}

func (t *Tokenizer) mergeShort(w *bpeWork) []int32 {
	ids, rank := w.ids, w.rank[:0]
	for i := 1; i < len(ids); i++ {
		r, _ := t.merges.get(ids[i-1], ids[i])
		rank = append(rank, r)
	}
	for {
		best, at := noRank, -1
		for i, r := range rank {
			if r < best {
				best, at = r, i
			}
		}
		if at < 0 {
			w.rank = rank
			return ids
		}
		_, ids[at] = t.merges.get(ids[at], ids[at+1])
		ids = slices.Delete(ids, at+1, at+2)
		rank = slices.Delete(rank, at, at+1)
		if at > 0 {
			rank[at-1], _ = t.merges.get(ids[at-1], ids[at])
		}
		if at < len(rank) {
			rank[at], _ = t.merges.get(ids[at], ids[at+1])
		}
	}
}

// mergeLong keeps the symbols in a linked list and the pairs in a heap, where
// entries of pairs that are gone stay until they come up.
func (t *Tokenizer) mergeLong(out []int32, w *bpeWork) []int32 {
	n := len(w.ids)
	ids := w.ids
	w.prev, w.next = slices.Grow(w.prev[:0], n)[:n], slices.Grow(w.next[:0], n)[:n]
	prev, next := w.prev, w.next
	heap := w.heap[:0]
	for i := range n {
		prev[i], next[i] = int32(i-1), int32(i+1)
		if i+1 < n {
			if r, _ := t.merges.get(ids[i], ids[i+1]); r != noRank {
				heap = append(heap, uint64(r)<<32|uint64(i))
			}
		}
	}
	next[n-1] = -1
	heapify(heap)
	const gone = -1
	for len(heap) > 0 {
		top := heap[0]
		heap = heapPop(heap)
		at := int32(uint32(top))
		if ids[at] == gone || next[at] < 0 {
			continue
		}
		right := next[at]
		rank, id := t.merges.get(ids[at], ids[right])
		if rank != uint32(top>>32) {
			continue
		}
		ids[at], ids[right] = id, gone
		next[at] = next[right]
		if after := next[right]; after >= 0 {
			prev[after] = at
			if r, _ := t.merges.get(id, ids[after]); r != noRank {
				heap = heapPush(heap, uint64(r)<<32|uint64(at))
			}
		}
		if before := prev[at]; before >= 0 {
			if r, _ := t.merges.get(ids[before], id); r != noRank {
				heap = heapPush(heap, uint64(r)<<32|uint64(before))
			}
		}
	}
	w.heap = heap
	for i := int32(0); i >= 0; i = next[i] {
		out = append(out, ids[i])
	}
	return out
}

// A binary heap of uint64, smallest first; container/heap would box each.

func heapify(h []uint64) {
	for i := len(h)/2 - 1; i >= 0; i-- {
		siftDown(h, i)
	}
}

func heapPush(h []uint64, v uint64) []uint64 {
	h = append(h, v)
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if h[up] <= v {
			break
		}
		h[i], h[up] = h[up], v
		i = up
	}
	return h
}

func heapPop(h []uint64) []uint64 {
	last := len(h) - 1
	h[0] = h[last]
	siftDown(h[:last], 0)
	return h[:last]
}

func siftDown(h []uint64, i int) {
	for {
		c := 2*i + 1
		if c >= len(h) {
			return
		}
		if c+1 < len(h) && h[c+1] < h[c] {
			c++
		}
		if h[i] <= h[c] {
			return
		}
		h[i], h[c] = h[c], h[i]
		i = c
	}
}
