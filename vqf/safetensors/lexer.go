// SPDX-License-Identifier: Apache-2.0

package safetensors

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"math/bits"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	maxWord    = 512     // bytes of a number that is passed over
	maxSkipped = 1 << 20 // values that are passed over: they bound time, as every other count does
)

// lexer reads the JSON of a header piece by piece. encoding/json would hold
// the whole text, takes bytes that are no UTF-8 and numbers such as 1.0 for a
// length; here memory is bounded by the longest string that is kept, and each
// of these is an error.
type lexer struct {
	r       *bufio.Reader
	pos     int64 // offset in the file of the next byte
	skipped int   // values that were passed over

	kept []byte // scratch for a string
	char [utf8.UTFMax]byte
	word [maxWord + 1]byte
}

// newLexer reads n bytes of r that lie at offset base of the file.
func newLexer(r io.Reader, base int64) *lexer {
	return &lexer{r: bufio.NewReaderSize(r, 64<<10), pos: base}
}

func (l *lexer) errorf(format string, args ...any) error {
	return bad("header", l.pos, format, args...)
}

// readByte takes the next byte; the end of the header is an error here.
func (l *lexer) readByte() (byte, error) {
	b, err := l.r.ReadByte()
	if err == io.EOF {
		return 0, l.errorf("the JSON ends early")
	}
	if err != nil {
		return 0, err
	}
	l.pos++
	return b, nil
}

func (l *lexer) back() {
	if l.r.UnreadByte() == nil { // it cannot fail after a ReadByte
		l.pos--
	}
}

// token takes the next byte that is no white space.
func (l *lexer) token() (byte, error) {
	for {
		b, err := l.readByte()
		if err != nil || !space(b) {
			return b, err
		}
		l.blank()
	}
}

func space(b byte) bool { return b == ' ' || b == '\t' || b == '\n' || b == '\r' }

// blank passes over the white space that the buffer holds.
func (l *lexer) blank() {
	window, err := l.r.Peek(l.r.Buffered())
	if err != nil {
		return // what is buffered can be had
	}
	n := 0
	for n < len(window) && space(window[n]) {
		n++
	}
	if n, err = l.r.Discard(n); err == nil {
		l.pos += int64(n)
	}
}

func (l *lexer) expect(want byte) error {
	b, err := l.token()
	if err == nil && b != want {
		l.back()
		err = l.errorf("found %q, want %q", b, want)
	}
	return err
}

// end checks that only white space follows.
func (l *lexer) end() error {
	for {
		b, err := l.r.ReadByte()
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		case !space(b):
			return l.errorf("%q after the end of the JSON", b)
		}
		l.pos++
		l.blank()
	}
}

// object calls member for each key of an object, with the value next.
func (l *lexer) object(maxKey int, member func(key string) error) error {
	return l.list('{', '}', func() error {
		key, err := l.text(maxKey)
		if err != nil {
			return err
		}
		if err := l.expect(':'); err != nil {
			return err
		}
		return member(key)
	})
}

// array calls element for each element of an array, with the value next.
func (l *lexer) array(element func() error) error {
	return l.list('[', ']', element)
}

func (l *lexer) list(begin, end byte, item func() error) error {
	if err := l.expect(begin); err != nil {
		return err
	}
	b, err := l.token()
	if err != nil || b == end {
		return err
	}
	l.back()
	for {
		if err := item(); err != nil {
			return err
		}
		if b, err = l.token(); err != nil || b == end {
			return err
		}
		if b != ',' {
			l.back()
			return l.errorf("found %q, want ',' or %q", b, end)
		}
	}
}

// text reads a string of at most limit bytes.
func (l *lexer) text(limit int) (string, error) {
	l.kept = l.kept[:0]
	err := l.chars(func(b []byte) error {
		if len(l.kept)+len(b) > limit {
			return l.errorf("string of over %d bytes", limit)
		}
		l.kept = append(l.kept, b...)
		return nil
	})
	return string(l.kept), err
}

// skipText passes over a string of any length.
func (l *lexer) skipText() error {
	return l.chars(func([]byte) error { return nil })
}

// chars reads a string and gives its content to put piece by piece.
func (l *lexer) chars(put func([]byte) error) error {
	if err := l.expect('"'); err != nil {
		return err
	}
	for {
		// What stands for itself goes by the buffer, not by the byte.
		window, err := l.r.Peek(max(1, l.r.Buffered()))
		if len(window) == 0 {
			if err == io.EOF {
				err = l.errorf("the JSON ends early")
			}
			return err
		}
		n := plain(window)
		err = put(window[:n])
		if err != nil {
			return err
		}
		if _, err := l.r.Discard(n); err != nil {
			return err
		}
		if l.pos += int64(n); n == len(window) {
			continue
		}
		b, err := l.readByte()
		switch {
		case err != nil || b == '"':
			return err
		case b == '\\':
			err = l.escape(put)
		case b < ' ':
			err = l.errorf("control byte 0x%02x in a string", b)
		default:
			err = l.multibyte(b, put)
		}
		if err != nil {
			return err
		}
	}
}

// plain counts the bytes at the front that stand for themselves and are whole
// characters.
func plain(b []byte) int {
	for i := 0; i < len(b); {
		c := b[i]
		if c < ' ' || c == '"' || c == '\\' {
			return i
		}
		n := 1
		if c >= utf8.RuneSelf {
			if _, n = utf8.DecodeRune(b[i:]); n == 1 { // no UTF-8, or cut off by the window
				return i
			}
		}
		i += n
	}
	return len(b)
}

// multibyte reads the rest of a character that begins with b.
func (l *lexer) multibyte(b byte, put func([]byte) error) error {
	c := append(l.char[:0], b)
	for !utf8.FullRune(c) {
		b, err := l.readByte()
		if err != nil {
			return err
		}
		c = append(c, b)
	}
	if _, n := utf8.DecodeRune(c); n != len(c) || n == 1 {
		return l.errorf("string is no UTF-8")
	}
	return put(c)
}

// escape reads what follows a backslash.
func (l *lexer) escape(put func([]byte) error) error {
	b, err := l.readByte()
	if err != nil {
		return err
	}
	if i := strings.IndexByte(`"\/bfnrt`, b); i >= 0 {
		return put(append(l.char[:0], "\"\\/\b\f\n\r\t"[i]))
	}
	if b != 'u' {
		return l.errorf("malformed escape of %q", b)
	}
	r, err := l.hex()
	if err != nil {
		return err
	}
	if utf16.IsSurrogate(r) { // a character outside the first 65536: the second half must follow
		for _, want := range [...]byte{'\\', 'u'} {
			if b, err = l.readByte(); err != nil {
				return err
			}
			if b != want {
				return l.errorf("half a surrogate pair in an escape")
			}
		}
		low, err := l.hex()
		if err != nil {
			return err
		}
		if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
			return l.errorf("half a surrogate pair in an escape")
		}
	}
	return put(utf8.AppendRune(l.char[:0], r))
}

// hex reads the four digits of an escape.
func (l *lexer) hex() (r rune, err error) {
	for range 4 {
		b, err := l.readByte()
		if err != nil {
			return 0, err
		}
		i := strings.IndexByte("0123456789abcdefABCDEF", b)
		if i < 0 {
			return 0, l.errorf("malformed escape: %q is no hexadecimal digit", b)
		}
		if i > 15 {
			i -= 6 // an upper-case letter
		}
		r = r<<4 | rune(i)
	}
	return r, nil
}

// number reads a non-negative integer written in digits.
func (l *lexer) number() (uint64, error) {
	b, err := l.token()
	if err != nil {
		return 0, err
	}
	if b < '0' || b > '9' {
		l.back()
		return 0, l.errorf("found %q, want a non-negative integer", b)
	}
	v, zero := uint64(b-'0'), b == '0'
	for {
		if b, err = l.readByte(); err != nil {
			return 0, err
		}
		if b < '0' || b > '9' {
			l.back()
			if b == '.' || b == 'e' || b == 'E' {
				return 0, l.errorf("number is no integer")
			}
			return v, nil
		}
		if zero {
			return 0, l.errorf("number begins with 0")
		}
		hi, lo := bits.Mul64(v, 10)
		lo, carry := bits.Add64(lo, uint64(b-'0'), 0)
		if hi+carry != 0 {
			return 0, l.errorf("number of over 64 bits")
		}
		v = lo
	}
}

// skip passes over any value, with arrays and objects nested at most depth deep.
func (l *lexer) skip(depth int) error {
	b, err := l.token()
	if err != nil {
		return err
	}
	l.back()
	if l.skipped++; l.skipped > maxSkipped {
		return l.errorf("over %d values that mean nothing", maxSkipped)
	}
	switch {
	case (b == '{' || b == '[') && depth == 0:
		return l.errorf("value nested too deep")
	case b == '{':
		return l.list('{', '}', func() error {
			if err := l.skipText(); err != nil {
				return err
			}
			if err := l.expect(':'); err != nil {
				return err
			}
			return l.skip(depth - 1)
		})
	case b == '[':
		return l.list('[', ']', func() error { return l.skip(depth - 1) })
	case b == '"':
		return l.skipText()
	}
	return l.skipWord()
}

// skipWord passes over a number, true, false or null: judged by encoding/json once
// its end is found.
func (l *lexer) skipWord() error {
	raw := l.word[:0]
	for {
		b, err := l.readByte()
		if err != nil {
			return err
		}
		if b == ',' || b == '}' || b == ']' || b <= ' ' {
			l.back()
			if !json.Valid(raw) {
				return l.errorf("malformed value %q", raw)
			}
			if _, err := strconv.ParseFloat(string(raw), 64); errors.Is(err, strconv.ErrRange) {
				return l.errorf("number %s is out of range", raw)
			}
			return nil
		}
		if raw = append(raw, b); len(raw) > maxWord {
			return l.errorf("malformed value %.20q…", raw)
		}
	}
}
