// SPDX-License-Identifier: Apache-2.0

package grammar

import (
	"slices"
	"unicode/utf8"
)

// runes is a set of characters: pairs of first and last, ascending and apart.
type runes []rune

// every has all characters; surrogates are none.
var every = runes{0, 0xD7FF, 0xE000, utf8.MaxRune}

// plain are the characters that JSON writes as they are.
var plain = runes{0x20, 0x21, 0x23, 0x5B, 0x5D, 0xD7FF, 0xE000, utf8.MaxRune}

// and returns what two sets have in common.
func (a runes) and(b runes) runes {
	var out runes
	for i, j := 0, 0; i < len(a) && j < len(b); {
		if lo, hi := max(a[i], b[j]), min(a[i+1], b[j+1]); lo <= hi {
			out = append(out, lo, hi)
		}
		if a[i+1] < b[j+1] {
			i += 2
		} else {
			j += 2
		}
	}
	return out
}

// without returns what is left of a set without some characters, which ascend.
func (a runes) without(chars []rune) runes {
	var rest runes
	at := rune(0)
	for _, c := range chars {
		if at < c {
			rest = append(rest, at, c-1)
		}
		at = c + 1
	}
	return a.and(append(rest, at, utf8.MaxRune))
}

// has tells whether a set has a character.
func (a runes) has(r rune) bool {
	for i := 0; i < len(a); i += 2 {
		if a[i] <= r && r <= a[i+1] {
			return true
		}
	}
	return false
}

// oneOf takes a character of a set as UTF-8; -1 when there is none.
func (b *builder) oneOf(set runes, next int32) int32 {
	var ascii byteSet
	var alts []int32
	for i := 0; i < len(set); i += 2 {
		lo, hi := set[i], set[i+1]
		if lo < utf8.RuneSelf {
			ascii.add(byte(lo), byte(min(hi, utf8.RuneSelf-1)))
		}
		for _, most := range []rune{0x7FF, 0xFFFF, utf8.MaxRune} {
			least := rune(utf8.RuneSelf)
			switch most {
			case 0xFFFF:
				least = 0x800
			case utf8.MaxRune:
				least = 0x10000
			}
			if from, to := max(lo, least), min(hi, most); from <= to {
				alts = b.sequences(alts, utf8.AppendRune(nil, from), utf8.AppendRune(nil, to), next)
			}
		}
	}
	if ascii != (byteSet{}) {
		alts = append(alts, b.takes(ascii, next))
	}
	if len(alts) == 0 {
		return -1
	}
	return b.split(alts...)
}

// sequences adds ways through the characters from lo to hi, of one length: each way
// is a range for the first byte and one for what follows.
func (b *builder) sequences(alts []int32, lo, hi []byte, next int32) []int32 {
	if len(lo) == 1 {
		return append(alts, b.bytes(lo[0], hi[0], next))
	}
	tail := len(lo) - 1
	least, most := slices.Repeat([]byte{0x80}, tail), slices.Repeat([]byte{0xBF}, tail)
	first, last := lo[0], hi[0]
	rest := func(lo, hi []byte) int32 { return b.split(b.sequences(nil, lo, hi, next)...) }
	if first == last {
		return append(alts, b.bytes(first, first, rest(lo[1:], hi[1:])))
	}
	if !slices.Equal(lo[1:], least) {
		alts = append(alts, b.bytes(first, first, rest(lo[1:], most)))
		first++
	}
	whole := last
	if !slices.Equal(hi[1:], most) {
		whole--
	}
	if first <= whole {
		alts = append(alts, b.bytes(first, whole, rest(least, most)))
	}
	if whole < last {
		alts = append(alts, b.bytes(last, last, rest(least, hi[1:])))
	}
	return alts
}
