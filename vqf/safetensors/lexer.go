// SPDX-License-Identifier: Apache-2.0

package safetensors

import (
	"bufio"
	"encoding/json"
	"io"
	"unicode/utf8"
)

// lexer reads the JSON of a header piece by piece. encoding/json would hold
// the whole text, keeps the last of two equal keys and accepts numbers such as
// 1.0 for a length; here memory is bounded by the longest string that is kept,
// and each of these is an error.
type lexer struct {
	r   *bufio.Reader
	pos int64 // offset in the file of the next byte
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
		if err != nil || b != ' ' && b != '\t' && b != '\n' && b != '\r' {
			return b, err
		}
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
		case b != ' ' && b != '\t' && b != '\n' && b != '\r':
			return l.errorf("%q after the end of the JSON", b)
		}
		l.pos++
	}
}

// object calls member for each key of an object, with the value next.
func (l *lexer) object(maxKey int, member func(key string) error) error {
	if err := l.expect('{'); err != nil {
		return err
	}
	return l.list('}', func() error {
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
	if err := l.expect('['); err != nil {
		return err
	}
	return l.list(']', element)
}

func (l *lexer) list(end byte, item func() error) error {
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

// text reads a string of at most limit bytes as written.
func (l *lexer) text(limit int) (string, error) {
	if err := l.expect('"'); err != nil {
		return "", err
	}
	raw := []byte{'"'}
	escaped := false
	for {
		b, err := l.readByte()
		if err != nil {
			return "", err
		}
		raw = append(raw, b)
		switch {
		case b == '"':
			return l.unquote(raw, escaped)
		case b < ' ':
			return "", l.errorf("control byte 0x%02x in a string", b)
		case len(raw) > limit+1:
			return "", l.errorf("string of over %d bytes", limit)
		case b == '\\':
			escaped = true
			if b, err = l.readByte(); err != nil {
				return "", err
			}
			raw = append(raw, b)
		}
	}
}

func (l *lexer) unquote(raw []byte, escaped bool) (string, error) {
	s := string(raw[1 : len(raw)-1])
	if !utf8.ValidString(s) {
		return "", l.errorf("string is no UTF-8")
	}
	if escaped && json.Unmarshal(raw, &s) != nil {
		return "", l.errorf("malformed escape in %s", raw)
	}
	return s, nil
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
	v := uint64(b - '0')
	for digits := 1; ; digits++ {
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
		if v == 0 {
			return 0, l.errorf("number begins with 0")
		}
		if digits >= 18 {
			return 0, l.errorf("number of over 18 digits")
		}
		v = 10*v + uint64(b-'0')
	}
}

// skip passes over any value, nested at most depth deep.
func (l *lexer) skip(depth int) error {
	b, err := l.token()
	if err != nil {
		return err
	}
	l.back()
	if depth == 0 {
		return l.errorf("value nested too deep")
	}
	switch {
	case b == '{':
		return l.object(maxName, func(string) error { return l.skip(depth - 1) })
	case b == '[':
		return l.array(func() error { return l.skip(depth - 1) })
	case b == '"':
		return l.skipText()
	}
	// A number or a word: judged by encoding/json once its end is found.
	var raw []byte
	for {
		if b, err = l.readByte(); err != nil {
			return err
		}
		if b == ',' || b == '}' || b == ']' || b <= ' ' {
			l.back()
			if !json.Valid(raw) {
				return l.errorf("malformed value %q", raw)
			}
			return nil
		}
		if raw = append(raw, b); len(raw) > 64 {
			return l.errorf("malformed value %q", raw)
		}
	}
}

// skipText passes over a string of any length.
func (l *lexer) skipText() error {
	if err := l.expect('"'); err != nil {
		return err
	}
	for {
		b, err := l.readByte()
		if err != nil || b == '"' {
			return err
		}
		if b < ' ' {
			return l.errorf("control byte 0x%02x in a string", b)
		}
		if b == '\\' {
			if _, err = l.readByte(); err != nil {
				return err
			}
		}
	}
}
