// SPDX-License-Identifier: Apache-2.0

package tokenizer

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// In the files of byte-level models each byte is spelt as one printable
// character: the printable ones of Latin-1 as themselves, the 68 others as
// U+0100 and up in order. "Ġ", U+0120, is the space.

// byteOf returns the byte that a character of that alphabet stands for.
func byteOf(r rune) (byte, bool) {
	switch {
	case r >= '!' && r <= '~', r >= 0xA1 && r <= 0xFF && r != 0xAD:
		return byte(r), true
	case r >= 0x100 && r <= 0x120:
		return byte(r - 0x100), true // 0x00..0x20
	case r >= 0x121 && r <= 0x142:
		return byte(r - 0x121 + 0x7F), true // 0x7F..0xA0
	case r == 0x143:
		return 0xAD, true
	}
	return 0, false
}

// runeOf is the inverse of byteOf.
func runeOf(b byte) rune {
	switch {
	case b <= 0x20:
		return 0x100 + rune(b)
	case b >= 0x7F && b <= 0xA0:
		return 0x121 + rune(b) - 0x7F
	case b == 0xAD:
		return 0x143
	}
	return rune(b)
}

// decodeTokens fills in the bytes of every token. A content with a character
// outside the alphabet stands for its own UTF-8 as a whole, as in the
// reference. respelt has contents that differ from those in the file.
func (t *Tokenizer) decodeTokens(respelt map[int32]string) {
	t.raw = make([]byte, 0, len(t.text))
	t.rawS = make([]span, len(t.kind))
	for id, kind := range t.kind {
		if kind == 0 {
			continue
		}
		content, start := t.textS[id].of(t.text), len(t.raw)
		if other, ok := respelt[int32(id)]; ok {
			content = []byte(other)
		}
		for i := 0; i < len(content); {
			r, n := utf8.DecodeRune(content[i:])
			b, ok := byteOf(r)
			if !ok {
				t.raw = append(t.raw[:start], content...)
				break
			}
			t.raw, i = append(t.raw, b), i+n
		}
		t.rawS[id] = span{uint32(start), uint32(len(t.raw) - start)}
	}
	t.rawT = string(t.raw)
	for b := range t.byteID {
		t.byteID[b] = -1
		if id, ok := t.ID(string(runeOf(byte(b)))); ok {
			t.byteID[b] = id
		}
	}
}

// cutMerge splits "left right", which has exactly one space.
func cutMerge(line []byte) (a, b []byte, err error) {
	left, right, ok := strings.Cut(string(line), " ")
	if !ok || strings.Contains(right, " ") {
		return nil, nil, fmt.Errorf("merge %.60q is not two parts with a space between", line)
	}
	return line[:len(left)], line[len(left)+1:], nil
}
