// SPDX-License-Identifier: Apache-2.0

package tokenizer

import (
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

const replacement = "\uFFFD"

// validUTF8 puts U+FFFD in the place of each maximal ill-formed part, as the
// WHATWG encoding standard does: of a truncated character its whole valid
// beginning, else one byte.
func validUTF8(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + len(s)/8)
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n <= 1 {
			b.WriteString(replacement)
			i += illFormed(s[i:])
			continue
		}
		b.WriteString(s[i : i+n])
		i += n
	}
	return b.String()
}

// illFormed returns the length of the maximal ill-formed part at the start
// of s, which does not begin with a whole character.
func illFormed(s string) int {
	n := 1
	for n < len(s) && n < utf8.UTFMax && beginsRune(s[:n+1]) {
		n++
	}
	return n
}

// beginsRune tells whether some bytes could follow s, of two or three bytes,
// to make a character. utf8.FullRune says no to what is such a beginning,
// and yes to what is ill-formed already.
func beginsRune(s string) bool { return !utf8.FullRuneInString(s) }

// toNFC normalises valid UTF-8 to form C.
func toNFC(s string) string {
	out := norm.NFC.String(s)
	// x/text keeps runs of combining marks short by putting in U+034F
	// (stream-safe text, UAX 15 section 13). The reference does not.
	const joiner = "\u034F"
	if len(out) == len(s) && out == s || strings.Count(out, joiner) == strings.Count(s, joiner) {
		return out
	}
	return plainNFC(s)
}

// plainNFC is form C by the book (UAX 15): decompose, sort marks by their
// combining class, compose. O(n log n) in the longest run of marks.
func plainNFC(s string) string {
	type char struct {
		r   rune
		ccc uint8
	}
	var in []char
	for i := 0; i < len(s); {
		p := norm.NFC.PropertiesString(s[i:])
		d := p.Decomposition()
		if d == nil {
			d = norm.NFD.Bytes([]byte(s[i : i+p.Size()])) // Hangul too
		}
		for len(d) > 0 {
			r, n := utf8.DecodeRune(d)
			in = append(in, char{r, norm.NFC.Properties(d).CCC()})
			d = d[n:]
		}
		i += p.Size()
	}
	for i := 0; i < len(in); {
		j := i + 1
		for in[i].ccc != 0 && j < len(in) && in[j].ccc != 0 {
			j++
		}
		slices.SortStableFunc(in[i:j], func(a, b char) int { return int(a.ccc) - int(b.ccc) })
		i = j
	}
	out := in[:0]
	starter := -1
	for _, c := range in {
		if starter >= 0 {
			// Blocked by what stands between and sorts not lower.
			adjacent := len(out) == starter+1
			if adjacent || out[len(out)-1].ccc < c.ccc && out[len(out)-1].ccc != 0 {
				if r, ok := compose(out[starter].r, c.r); ok {
					out[starter].r = r
					continue
				}
			}
		}
		if c.ccc == 0 {
			starter = len(out)
		}
		out = append(out, c)
	}
	var b strings.Builder
	b.Grow(len(s))
	for _, c := range out {
		b.WriteRune(c.r)
	}
	return b.String()
}

// compose returns the primary composite of two characters.
func compose(a, b rune) (rune, bool) {
	var buf [2 * utf8.UTFMax]byte
	pair := utf8.AppendRune(utf8.AppendRune(buf[:0], a), b)
	c := norm.NFC.Bytes(pair)
	r, n := utf8.DecodeRune(c)
	return r, n == len(c)
}
