// SPDX-License-Identifier: Apache-2.0

package tokenizer

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// addedToken is a token that is found in a text before anything else looks
// at it.
type addedToken struct {
	id         int32
	content    string
	singleWord bool // only where no word character is next to it
	lstrip     bool // takes the blanks before it
	rstrip     bool // takes the blanks after it
	normalized bool // looked for in the normalised text
	special    bool
}

// addedSet finds added tokens: leftmost first, longest of those.
// A trie with its edges in one map; starts keeps most bytes of a text from
// ever reaching it.
type addedSet struct {
	tokens []addedToken
	starts [256]bool
	edges  map[uint32]uint32 // node << 8 | byte -> node
	leaf   []int32           // [node] index in tokens, -1 for none
}

func newAddedSet(tokens []addedToken) *addedSet {
	if len(tokens) == 0 {
		return nil
	}
	s := &addedSet{tokens: tokens, edges: make(map[uint32]uint32), leaf: []int32{-1}}
	for i, t := range tokens {
		s.starts[t.content[0]] = true
		node := uint32(0)
		for _, b := range []byte(t.content) {
			next, ok := s.edges[node<<8|uint32(b)]
			if !ok {
				next = uint32(len(s.leaf))
				s.leaf = append(s.leaf, -1)
				s.edges[node<<8|uint32(b)] = next
			}
			node = next
		}
		if s.leaf[node] < 0 { // of two that normalise alike the first counts
			s.leaf[node] = int32(i)
		}
	}
	return s
}

// find returns the first match at or after from: token and where it begins.
func (s *addedSet) find(text string, from int) (*addedToken, int) {
	for i := from; i < len(text); i++ {
		if !s.starts[text[i]] {
			continue
		}
		node, best := uint32(0), int32(-1)
		for j := i; j < len(text); j++ {
			next, ok := s.edges[node<<8|uint32(text[j])]
			if !ok {
				break
			}
			if node = next; s.leaf[node] >= 0 {
				best = s.leaf[node]
			}
		}
		if best >= 0 {
			return &s.tokens[best], i
		}
	}
	return nil, len(text)
}

// split cuts a text at its added tokens. Special ones count only if special
// is set, but hide what overlaps them in any case. emit gets each token and
// each stretch between, in order.
func (s *addedSet) split(text string, special bool, token func(id int32), between func(string)) {
	if s == nil {
		if text != "" {
			between(text)
		}
		return
	}
	done := 0
	for from := 0; ; {
		t, start := s.find(text, from)
		if t == nil {
			break
		}
		stop := start + len(t.content)
		from = stop
		if t.special && !special {
			continue
		}
		if t.singleWord && (wordBefore(text[:start]) || wordAfter(text[stop:])) {
			continue
		}
		if t.lstrip {
			start = max(done, len(strings.TrimRightFunc(text[:start], unicode.IsSpace)))
		}
		if t.rstrip {
			stop = len(text) - len(strings.TrimLeftFunc(text[stop:], unicode.IsSpace))
		}
		if done < start {
			between(text[done:start])
		}
		token(t.id)
		done = stop
	}
	if done < len(text) {
		between(text[done:])
	}
}

func wordBefore(s string) bool {
	r, n := utf8.DecodeLastRuneInString(s)
	return n > 0 && isWord(r)
}

func wordAfter(s string) bool {
	r, n := utf8.DecodeRuneInString(s)
	return n > 0 && isWord(r)
}

// isWord is \w of Unicode regular expressions (UTS 18, annex C).
func isWord(r rune) bool {
	return unicode.In(r, unicode.L, unicode.Nl, unicode.Other_Alphabetic,
		unicode.M, unicode.Nd, unicode.Pc, unicode.Join_Control)
}
