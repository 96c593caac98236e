// SPDX-License-Identifier: Apache-2.0

package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// step is one stage of pre-tokenisation: it cuts each piece it is given into
// smaller ones. Where it looks ahead it sees the piece, not the whole text.
type step struct {
	kind       stepKind
	individual bool // stepDigits: digits one by one
	digits     int  // stepWords: the most digits in a piece
}

type stepKind uint8

const (
	stepBytes       stepKind = iota // end marker of the byte-level stage
	stepDigits                      // digits apart from everything else
	stepPrefixSpace                 // a space before a piece that has none
	stepGPT2                        // GPT-2's pattern
	stepWords                       // Qwen2's and Llama 3's pattern
)

const (
	patternGPT2   = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
	patternQwen2  = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patternLlama3 = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
)

// knownPatterns are the regular expressions that have a splitter here. A
// regular expression engine with look-ahead would do any, at a hundredth of
// the speed and with exponential worst cases from a file of unknown origin.
var knownPatterns = map[string]step{
	patternGPT2:   {kind: stepGPT2},
	patternQwen2:  {kind: stepWords, digits: 1},
	patternLlama3: {kind: stepWords, digits: 3},
}

// pieces runs the steps over one piece.
func (e *encoder) pieces(steps []step, s string) {
	if len(steps) == 0 {
		e.word(s)
		return
	}
	st, rest := steps[0], steps[1:]
	switch st.kind {
	case stepPrefixSpace:
		if !strings.HasPrefix(s, " ") {
			s = " " + s
		}
		e.pieces(rest, s)
	case stepDigits:
		for len(s) > 0 {
			n := e.digits(s, st.individual)
			e.pieces(rest, s[:n])
			s = s[n:]
		}
	case stepGPT2:
		for len(s) > 0 {
			n := e.gpt2(s)
			e.pieces(rest, s[:n])
			s = s[n:]
		}
	case stepWords:
		for len(s) > 0 {
			n := e.words(s, st.digits)
			e.pieces(rest, s[:n])
			s = s[n:]
		}
	}
}

// digits returns the length of the first piece: a digit, or a run of digits
// unless individual, or a run of anything else.
func (e *encoder) digits(s string, individual bool) int {
	c, n := e.class(s)
	if c == classNumber {
		if individual {
			return n
		}
		return n + e.run(s[n:], isNumber)
	}
	return n + e.run(s[n:], notNumber)
}

// gpt2 returns the length of the first match of patternGPT2.
func (e *encoder) gpt2(s string) int {
	if s[0] == '\'' {
		if n := contraction(s, false); n > 0 {
			return n
		}
	}
	c, n := e.class(s)
	at := 0
	if s[0] == ' ' && len(s) > 1 {
		if next, m := e.class(s[1:]); next&classSpaces == 0 {
			c, n, at = next, m, 1
		}
	}
	switch {
	case c == classLetter:
		return at + n + e.run(s[at+n:], isLetter)
	case c == classNumber:
		return at + n + e.run(s[at+n:], isNumber)
	case c&classSpaces == 0:
		return at + n + e.run(s[at+n:], isOther)
	}
	return e.spaces(s)
}

// words returns the length of the first match of patternQwen2, or of
// patternLlama3 for digits = 3. The alternatives are tried in their order.
func (e *encoder) words(s string, digits int) int {
	if s[0] == '\'' {
		if n := contraction(s, true); n > 0 {
			return n
		}
	}
	c, n := e.class(s)
	if c == classLetter {
		return n + e.run(s[n:], isLetter)
	}
	if c == classNumber {
		for digits--; digits > 0; digits-- {
			c, m := e.class(s[n:])
			if c != classNumber {
				break
			}
			n += m
		}
		return n
	}
	if c != classNewline {
		if next, m := e.class(s[n:]); next == classLetter {
			return n + m + e.run(s[n+m:], isLetter)
		}
	}
	at := 0
	if s[0] == ' ' {
		if next, m := e.class(s[1:]); next == classOther {
			c, n, at = next, m, 1
		}
	}
	if c == classOther {
		end := at + n + e.run(s[at+n:], isOther)
		return end + e.run(s[end:], isNewline)
	}
	// Blanks: up to the last line end among them, if there is one.
	all := e.run(s, isSpace)
	if last := strings.LastIndexAny(s[:all], "\r\n"); last >= 0 {
		return last + 1
	}
	return e.lookAhead(s, all)
}

// spaces matches \s+(?!\S)|\s+ at the start of s.
func (e *encoder) spaces(s string) int { return e.lookAhead(s, e.run(s, isSpace)) }

// lookAhead gives back the last of n blanks when text follows and others are
// left: it belongs to the next word.
func (e *encoder) lookAhead(s string, n int) int {
	if n == len(s) {
		return n
	}
	_, last := utf8.DecodeLastRuneInString(s[:n])
	if n > last {
		return n - last
	}
	return n
}

// contraction returns the length of 's 't 're 've 'm 'll 'd at the start of
// s, 0 for none. fold ignores case, which lets U+017F stand for s.
func contraction(s string, fold bool) int {
	if len(s) < 2 {
		return 0
	}
	a, b := s[1], byte(0)
	if len(s) > 2 {
		b = s[2]
	}
	if fold {
		if a == "ſ"[0] && b == "ſ"[1] {
			return 3
		}
		a, b = lower(a), lower(b)
	}
	switch a {
	case 's', 't', 'm', 'd':
		return 2
	case 'r', 'v':
		if b == 'e' {
			return 3
		}
	case 'l':
		if b == 'l' {
			return 3
		}
	}
	return 0
}

func lower(b byte) byte {
	if b >= 'A' && b <= 'Z' {
		return b + 'a' - 'A'
	}
	return b
}
