// SPDX-License-Identifier: Apache-2.0

package tokenizer

import (
	"sync"
	"unicode"
	"unicode/utf8"
)

// class is what the patterns tell apart. Each is a bit, so that a set of
// them is a mask.
type class uint8

const (
	classOther   class = 1 << iota // [^\s\p{L}\p{N}]
	classLetter                    // \p{L}
	classNumber                    // \p{N}
	classSpace                     // \s but a line end
	classNewline                   // [\r\n]
)

const (
	classSpaces = classSpace | classNewline

	isOther   = classOther
	isLetter  = classLetter
	isNumber  = classNumber
	notNumber = ^classNumber
	isSpace   = classSpaces
	isNewline = classNewline
)

// plane0 is the class of each character below U+10000: 64 KiB, made once.
var plane0 = sync.OnceValue(func() *[1 << 16]class {
	t := new([1 << 16]class)
	for i := range t {
		t[i] = classOther
	}
	for _, set := range []struct {
		table *unicode.RangeTable
		c     class
	}{{unicode.L, classLetter}, {letters16, classLetter}, {unicode.N, classNumber}, {unicode.White_Space, classSpace}} {
		for _, r := range set.table.R16 {
			for i := int(r.Lo); i <= int(r.Hi); i += int(r.Stride) {
				t[i] = set.c
			}
		}
	}
	t['\r'], t['\n'] = classNewline, classNewline
	return t
})

// class returns the class of the first character of s and its length; 0, 0
// at the end.
func (e *encoder) class(s string) (class, int) {
	if len(s) == 0 {
		return 0, 0
	}
	if c := s[0]; c < utf8.RuneSelf {
		return e.plane0[c], 1
	}
	r, n := utf8.DecodeRuneInString(s)
	if r < 1<<16 {
		return e.plane0[r], n
	}
	switch {
	case unicode.Is(unicode.L, r), unicode.Is(letters16, r):
		return classLetter, n
	case unicode.Is(unicode.N, r), unicode.Is(numbers16, r):
		return classNumber, n
	}
	return classOther, n
}

// run returns the length of the longest start of s whose characters are all
// of a class in the mask.
func (e *encoder) run(s string, mask class) int {
	i := 0
	for i < len(s) {
		if c := s[i]; c < utf8.RuneSelf {
			if e.plane0[c]&mask == 0 {
				break
			}
			i++
			continue
		}
		c, n := e.class(s[i:])
		if c&mask == 0 {
			break
		}
		i += n
	}
	return i
}
