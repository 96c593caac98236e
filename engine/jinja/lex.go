// SPDX-License-Identifier: Apache-2.0

package jinja

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// lexKind is the kind of a template token.
type lexKind uint8

const (
	lexEOF lexKind = iota
	lexData
	lexVarBegin   // {{
	lexVarEnd     // }}
	lexBlockBegin // {%
	lexBlockEnd   // %}
	lexName
	lexString
	lexInt
	lexFloat
	lexOp
)

// lexeme is one token of a template: text is what it says, unescaped.
type lexeme struct {
	kind lexKind
	text string
	line int
}

// lexer cuts a template into tokens under the settings of transformers:
// trim_blocks (the line end after a block tag goes), lstrip_blocks (blanks
// before a block tag that opens its line go), no trailing line end.
type lexer struct {
	src       string
	at        int
	line      int
	lineStart bool // the text before at ended a line, or is the beginning
	out       []lexeme
}

func lex(src string) ([]lexeme, error) {
	src = strings.ReplaceAll(strings.ReplaceAll(src, "\r\n", "\n"), "\r", "\n")
	l := &lexer{src: strings.TrimSuffix(src, "\n"), line: 1, lineStart: true}
	for l.at < len(l.src) {
		if err := l.next(); err != nil {
			return nil, err
		}
	}
	l.emit(lexEOF, "")
	return l.out, nil
}

func (l *lexer) emit(kind lexKind, text string) {
	l.out = append(l.out, lexeme{kind, text, l.line})
}

// advance moves on by n bytes and counts lines.
func (l *lexer) advance(n int) {
	l.line += strings.Count(l.src[l.at:l.at+n], "\n")
	l.at += n
}

func (l *lexer) fail(msg string) error { return &Error{Line: l.line, Msg: msg} }

// next reads data up to a tag, and the tag.
func (l *lexer) next() error {
	rest := l.src[l.at:]
	open := nextTag(rest)
	if open < 0 {
		l.emit(lexData, rest)
		l.advance(len(rest))
		return nil
	}
	tag := rest[open : open+2]
	l.data(rest[:open], tag, sign(rest[open+2:]))
	l.advance(open + 2)
	if s := sign(l.src[l.at:]); s == '-' || s == '+' && tag != "{{" {
		l.advance(1)
	}
	switch tag {
	case "{#":
		return l.comment()
	case "{%":
		if n, ok := rawTag(l.src[l.at:], "raw"); ok {
			l.advance(n)
			return l.raw()
		}
		l.emit(lexBlockBegin, "")
		return l.code("%}", lexBlockEnd)
	}
	l.emit(lexVarBegin, "")
	return l.code("}}", lexVarEnd)
}

// nextTag returns where the first tag begins, -1 for none.
func nextTag(s string) int {
	for from := 0; ; {
		i := strings.IndexByte(s[from:], '{')
		if i < 0 || from+i+1 >= len(s) {
			return -1
		}
		from += i + 1
		if c := s[from]; c == '{' || c == '%' || c == '#' {
			return from - 1
		}
	}
}

// sign returns the white-space sign after the opening of a tag, or 0.
func sign(s string) byte {
	if s != "" && (s[0] == '-' || s[0] == '+') {
		return s[0]
	}
	return 0
}

// data emits the text before a tag, less what white-space control takes.
func (l *lexer) data(text, tag string, sign byte) {
	switch {
	case sign == '-':
		text = strings.TrimRightFunc(text, isPySpace)
	case sign != '+' && tag != "{{":
		start := strings.LastIndexByte(text, '\n') + 1
		if (start > 0 || l.lineStart) && strings.TrimLeftFunc(text[start:], isPySpace) == "" {
			text = text[:start]
		}
	}
	if text != "" {
		l.emit(lexData, text)
	}
}

// close ends a tag: text, with "-" or "+" before it. It returns the length
// with the white space that goes with it, 0 where the tag does not end.
func closing(s, end string) int {
	switch {
	case strings.HasPrefix(s, "-"+end):
		rest := s[1+len(end):]
		return len(s) - len(strings.TrimLeftFunc(rest, isPySpace))
	case end != "}}" && strings.HasPrefix(s, "+"+end):
		return 1 + len(end)
	case strings.HasPrefix(s, end):
		n := len(end)
		if end != "}}" && strings.HasPrefix(s[n:], "\n") {
			n++
		}
		return n
	}
	return 0
}

// end moves over the closing of a tag, n bytes.
func (l *lexer) end(n int) {
	l.lineStart = l.src[l.at+n-1] == '\n'
	l.advance(n)
}

func (l *lexer) comment() error {
	for i := l.at; ; i++ {
		j := strings.IndexByte(l.src[i:], '#')
		if j < 0 {
			return l.fail("comment without end")
		}
		if i += j; !strings.HasPrefix(l.src[i:], "#}") {
			continue
		}
		start := i
		if c := l.src[i-1]; i > l.at && (c == '-' || c == '+') {
			start--
		}
		l.advance(start - l.at)
		l.end(closing(l.src[l.at:], "#}"))
		return nil
	}
}

// rawTag matches "raw" or "endraw" and the end of its tag.
func rawTag(s, name string) (n int, ok bool) {
	rest := strings.TrimLeftFunc(s, isPySpace)
	if !strings.HasPrefix(rest, name) {
		return 0, false
	}
	rest = strings.TrimLeftFunc(rest[len(name):], isPySpace)
	n = closing(rest, "%}")
	if n == 0 {
		return 0, false
	}
	if name == "raw" && n == len("%}\n") && strings.HasPrefix(rest, "%}") {
		n = len("%}") // the line end after {% raw %} stays
	}
	return len(s) - len(rest) + n, true
}

// raw emits everything up to {% endraw %} as it is.
func (l *lexer) raw() error {
	for i := l.at; ; {
		j := strings.Index(l.src[i:], "{%")
		if j < 0 {
			return l.fail("raw without endraw")
		}
		i += j + 2
		s := sign(l.src[i:])
		skip := 0
		if s != 0 {
			skip = 1
		}
		n, ok := rawTag(l.src[i+skip:], "endraw")
		if !ok {
			continue
		}
		l.data(l.src[l.at:i-2], "{%", s)
		l.advance(i + skip - l.at)
		l.end(n)
		return nil
	}
}

// code emits the tokens inside a tag.
func (l *lexer) code(end string, kind lexKind) error {
	depth := 0
	for l.at < len(l.src) {
		s := l.src[l.at:]
		if depth == 0 {
			if n := closing(s, end); n > 0 {
				l.emit(kind, "")
				l.end(n)
				return nil
			}
		}
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case isPySpace(r):
			l.advance(size)
		case r == '_' || unicode.IsLetter(r):
			n := strings.IndexFunc(s, func(r rune) bool {
				return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
			})
			if n < 0 {
				n = len(s)
			}
			l.emit(lexName, s[:n])
			l.advance(n)
		case r >= '0' && r <= '9':
			if err := l.number(s); err != nil {
				return err
			}
		case r == '\'' || r == '"':
			if err := l.string(s); err != nil {
				return err
			}
		default:
			op := operator(s)
			if op == "" {
				return l.fail("unexpected character " + strconv.QuoteRune(r))
			}
			switch op {
			case "(", "[", "{":
				depth++
			case ")", "]", "}":
				if depth--; depth < 0 {
					return l.fail("unexpected " + strconv.Quote(op))
				}
			}
			l.emit(lexOp, op)
			l.advance(len(op))
		}
	}
	return l.fail("tag without end")
}

// operator returns the longest operator at the start of s.
func operator(s string) string {
	if len(s) >= 2 {
		switch s[:2] {
		case "//", "**", "==", "!=", ">=", "<=":
			return s[:2]
		}
	}
	if strings.IndexByte("+-/*%~[](){}><=.:|,", s[0]) >= 0 {
		return s[:1]
	}
	return ""
}

func (l *lexer) number(s string) error {
	digits := func(i int) int {
		for i < len(s) && (s[i] >= '0' && s[i] <= '9' || s[i] == '_') {
			i++
		}
		return i
	}
	n := digits(0)
	kind := lexInt
	afterDot := len(l.out) > 0 && l.out[len(l.out)-1].kind == lexOp && l.out[len(l.out)-1].text == "."
	if !afterDot {
		if n+1 < len(s) && s[n] == '.' && s[n+1] >= '0' && s[n+1] <= '9' {
			n, kind = digits(n+1), lexFloat
		}
		if n < len(s) && (s[n] == 'e' || s[n] == 'E') {
			m := n + 1
			if m < len(s) && (s[m] == '+' || s[m] == '-') {
				m++
			}
			if end := digits(m); end > m {
				n, kind = end, lexFloat
			}
		}
	}
	l.emit(kind, strings.ReplaceAll(s[:n], "_", ""))
	l.advance(n)
	return nil
}

// string reads a literal with Python's escapes.
func (l *lexer) string(s string) error {
	quote := s[0]
	var b strings.Builder
	for i := 1; i < len(s); {
		c := s[i]
		switch {
		case c == quote:
			l.emit(lexString, b.String())
			l.advance(i + 1)
			return nil
		case c != '\\':
			b.WriteByte(c)
			i++
		default:
			n := unescape(&b, s[i+1:])
			if n < 0 {
				return l.fail("bad escape in a string")
			}
			i += 1 + n
		}
	}
	return l.fail("string without end")
}

// unescape writes the character of the escape s, which follows a backslash,
// and returns its length, -1 for none.
func unescape(b *strings.Builder, s string) int {
	if s == "" {
		return -1
	}
	code := func(digits string, base int, n int) int {
		v, err := strconv.ParseUint(digits, base, 32)
		if err != nil || !utf8.ValidRune(rune(v)) {
			return -1
		}
		b.WriteRune(rune(v))
		return n
	}
	hex := func(n int) int {
		if len(s) < 1+n {
			return -1
		}
		return code(s[1:1+n], 16, 1+n)
	}
	switch c := s[0]; c {
	case '\n':
		return 1
	case 'x':
		return hex(2)
	case 'u':
		return hex(4)
	case 'U':
		return hex(8)
	case 'N':
		return -1
	case '0', '1', '2', '3', '4', '5', '6', '7':
		n := 1
		for n < 3 && n < len(s) && s[n] >= '0' && s[n] <= '7' {
			n++
		}
		return code(s[:n], 8, n)
	default:
		if i := strings.IndexByte(`\'"abfnrtv`, c); i >= 0 {
			b.WriteByte("\\'\"\a\b\f\n\r\t\v"[i])
			return 1
		}
		b.WriteByte('\\')
		return 0
	}
}

// isPySpace is Python's str.isspace of a character.
func isPySpace(r rune) bool {
	return unicode.IsSpace(r) || r >= 0x1C && r <= 0x1F
}
