// SPDX-License-Identifier: Apache-2.0

package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// TokenBytes returns the bytes that a token stands for, which need not be
// whole characters; nil where there is no such token. The result must not be
// changed.
func (t *Tokenizer) TokenBytes(id int32) []byte {
	if !t.valid(id) {
		return nil
	}
	b := t.rawS[id].of(t.raw)
	return b[:len(b):len(b)]
}

// Decode returns the text of ids: their bytes joined, with U+FFFD in the place
// of each maximal ill-formed part. skipSpecial leaves special tokens out.
// Ids without a token give nothing.
func (t *Tokenizer) Decode(ids []int32, skipSpecial bool) string {
	n := 0
	for _, id := range ids {
		if t.valid(id) {
			n += int(t.rawS[id].n)
		}
	}
	var b strings.Builder
	b.Grow(n)
	for _, id := range ids {
		if skipSpecial && t.Special(id) {
			continue
		}
		if t.valid(id) {
			at := t.rawS[id]
			b.WriteString(t.rawT[at.off : at.off+at.n])
		}
	}
	return validUTF8(b.String())
}

// Stream decodes ids one at a time and shows only whole characters.
// What all calls return, joined, is what Decode gives for all ids.
// A Stream serves one goroutine.
type Stream struct {
	t           *Tokenizer
	skipSpecial bool
	pending     []byte // beginning of a character, at most three bytes
}

// NewStream starts a stream. skipSpecial leaves special tokens out.
func (t *Tokenizer) NewStream(skipSpecial bool) *Stream {
	return &Stream{t: t, skipSpecial: skipSpecial}
}

// Push adds a token and returns the text that is certain now. Bytes that may
// be the beginning of a character are held back; ill-formed ones are U+FFFD.
// A token of whole characters, as nearly all are, costs no allocation.
func (s *Stream) Push(id int32) string {
	if s.skipSpecial && s.t.Special(id) {
		return ""
	}
	if !s.t.valid(id) {
		return ""
	}
	if at := s.t.rawS[id]; len(s.pending) == 0 {
		if text := s.t.rawT[at.off : at.off+at.n]; utf8.ValidString(text) {
			return text
		}
	}
	b := append(s.pending, s.t.TokenBytes(id)...)
	whole := len(b) - unfinished(b)
	out := validUTF8(string(b[:whole]))
	s.pending = append(s.pending[:0], b[whole:]...)
	return out
}

// Flush ends the stream: a beginning of a character that was held back is
// U+FFFD. The stream may be used again.
func (s *Stream) Flush() string {
	out := validUTF8(string(s.pending))
	s.pending = s.pending[:0]
	return out
}

// unfinished returns the length of the beginning of a character at the end
// of b, 0 to 3. Two bytes of a surrogate (ED A0..BF, never UTF-8) wait for
// their third, as in the reference, so that all three are shown at once.
func unfinished(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		tail := b[len(b)-n:]
		if utf8.RuneStart(tail[0]) {
			surrogate := n == 2 && tail[0] == 0xED && tail[1]&0xE0 == 0xA0
			if utf8.FullRune(tail) && !surrogate {
				return 0
			}
			return n
		}
	}
	return 0
}
