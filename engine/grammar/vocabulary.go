// SPDX-License-Identifier: Apache-2.0

package grammar

import (
	"bytes"
	"slices"
)

// maxTokenBytes is the longest token that can be part of an answer in a form.
const maxTokenBytes = 255

// Vocabulary is the tokens of a model as a trie. It does not change.
type Vocabulary struct {
	size    int
	longest int // bytes of a token
	token   func(id int32) []byte
	trie    []trieNode      // in the order of a walk: a node, then what is below it
	order   []int32         // the tokens in the order of a walk
	same    map[int32]int32 // to the next token of the same bytes
}

type trieNode struct {
	skip  int32 // the first node that is not below this one
	token int32 // -1: none
	first int32 // index in order of the first token at or below it
	char  byte
	depth uint8 // 1: the first byte
	plain bool  // it and all below are what strings hold as it is, of ASCII
}

// isPlain tells whether strings hold a byte as it is, a character by itself.
func isPlain(c byte) bool { return c >= ' ' && c < 0x7F && c != '"' && c != '\\' }

// NewVocabulary makes the vocabulary of a model that has logits for size tokens.
// token gives the bytes of one that may be part of an answer, and nothing for one
// that may not, such as a control token; what it gives must not change.
func NewVocabulary(size int, token func(id int32) []byte) *Vocabulary {
	v := &Vocabulary{size: size, token: token, same: make(map[int32]int32)}
	ids := make([]int32, 0, size)
	for id := range int32(size) {
		if b := v.bytes(id); b != nil {
			v.longest = max(v.longest, len(b))
			ids = append(ids, id)
		}
	}
	slices.SortStableFunc(ids, func(a, b int32) int { return bytes.Compare(v.bytes(a), v.bytes(b)) })
	open := make([]int32, 0, v.longest) // the nodes above, by depth
	var before []byte
	for i, id := range ids {
		b := v.bytes(id)
		if i > 0 && bytes.Equal(before, b) {
			v.same[ids[i-1]] = id
			continue
		}
		common := 0
		for common < len(before) && common < len(b) && before[common] == b[common] {
			common++
		}
		v.close(open[common:])
		open = open[:common]
		for d := common; d < len(b); d++ {
			open = append(open, int32(len(v.trie)))
			v.trie = append(v.trie, trieNode{token: -1, first: int32(i), char: b[d], depth: uint8(d + 1)})
		}
		v.trie[len(v.trie)-1].token = id
		before = b
	}
	v.close(open)
	v.trie, v.order = slices.Clip(slices.Clone(v.trie)), ids
	for i := len(v.trie) - 1; i >= 0; i-- {
		t := &v.trie[i]
		t.plain = isPlain(t.char)
		for below := int32(i + 1); below < t.skip && t.plain; below = v.trie[below].skip {
			t.plain = v.trie[below].plain
		}
	}
	return v
}

// Bytes is what it takes in memory, about.
func (v *Vocabulary) Bytes() int64 {
	const nodeBytes, idBytes, sameBytes = 16, 4, 32
	return nodeBytes*int64(cap(v.trie)) + idBytes*int64(cap(v.order)) + sameBytes*int64(len(v.same))
}

// below are the tokens at and below a node.
func (v *Vocabulary) below(t *trieNode) []int32 {
	if int(t.skip) == len(v.trie) {
		return v.order[t.first:]
	}
	return v.order[t.first:v.trie[t.skip].first]
}

// bytes are those of a token; nil where it can be no part of an answer.
func (v *Vocabulary) bytes(id int32) []byte {
	if id < 0 || int(id) >= v.size {
		return nil
	}
	if b := v.token(id); len(b) > 0 && len(b) <= maxTokenBytes {
		return b
	}
	return nil
}

// close ends the subtrees of nodes.
func (v *Vocabulary) close(nodes []int32) {
	for _, n := range nodes {
		v.trie[n].skip = int32(len(v.trie))
	}
}

// again is the next token that has the bytes of id, -1 when there is none.
func (v *Vocabulary) again(id int32) int32 {
	if next, ok := v.same[id]; ok {
		return next
	}
	return -1
}
