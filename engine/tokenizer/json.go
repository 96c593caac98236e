// SPDX-License-Identifier: Apache-2.0

package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// maxJSONDepth is the deepest nesting a scanner walks into.
const maxJSONDepth = 64

// scanner reads JSON front to back. A tokenizer.json of 150 000 tokens is
// eleven megabytes, most of it in two values (vocabulary and merges) that
// encoding/json would scan three times; the small rest is handed to it.
type scanner struct {
	buf []byte
	at  int
	str []byte // unescaped string, when it had escapes; reused
}

func (s *scanner) fail(msg string) error {
	return fmt.Errorf("invalid JSON at byte %d: %s", s.at, msg)
}

func (s *scanner) space() {
	for s.at < len(s.buf) {
		switch s.buf[s.at] {
		case ' ', '\t', '\n', '\r':
			s.at++
		default:
			return
		}
	}
}

// peek skips blanks and returns the next byte, 0 at the end.
func (s *scanner) peek() byte {
	s.space()
	if s.at >= len(s.buf) {
		return 0
	}
	return s.buf[s.at]
}

func (s *scanner) expect(c byte) error {
	if s.peek() != c {
		return s.fail("expected " + strconv.QuoteRune(rune(c)))
	}
	s.at++
	return nil
}

// object calls member for each key, positioned at the value, which member
// must consume. The key is valid during the call only.
func (s *scanner) object(member func(key []byte) error) error {
	if err := s.expect('{'); err != nil {
		return err
	}
	if s.peek() == '}' {
		s.at++
		return nil
	}
	for {
		key, err := s.string()
		if err != nil {
			return err
		}
		if err := s.expect(':'); err != nil {
			return err
		}
		if err := member(key); err != nil {
			return err
		}
		if s.peek() == '}' {
			s.at++
			return nil
		}
		if err := s.expect(','); err != nil {
			return err
		}
	}
}

// array calls element for each element, which element must consume.
func (s *scanner) array(element func() error) error {
	if err := s.expect('['); err != nil {
		return err
	}
	if s.peek() == ']' {
		s.at++
		return nil
	}
	for {
		if err := element(); err != nil {
			return err
		}
		if s.peek() == ']' {
			s.at++
			return nil
		}
		if err := s.expect(','); err != nil {
			return err
		}
	}
}

// string reads a string. The result aliases the input or the scanner's own
// buffer: it is valid until the next call.
func (s *scanner) string() ([]byte, error) {
	if err := s.expect('"'); err != nil {
		return nil, err
	}
	start := s.at
	ascii := byte(0)
	for i := start; i < len(s.buf); i++ {
		switch c := s.buf[i]; {
		case c == '"':
			s.at = i + 1
			if ascii >= utf8.RuneSelf && !utf8.Valid(s.buf[start:i]) {
				return nil, s.fail("string is not UTF-8")
			}
			return s.buf[start:i], nil
		case c == '\\':
			return s.escaped(start, i)
		case c < ' ':
			s.at = i
			return nil, s.fail("control character in a string")
		default:
			ascii |= c
		}
	}
	s.at = len(s.buf)
	return nil, s.fail("string without end")
}

// escaped reads on from the first backslash of a string.
func (s *scanner) escaped(start, i int) ([]byte, error) {
	s.str = append(s.str[:0], s.buf[start:i]...)
	for i < len(s.buf) {
		c := s.buf[i]
		i++
		switch {
		case c == '"':
			s.at = i
			if !utf8.Valid(s.str) {
				return nil, s.fail("string is not UTF-8")
			}
			return s.str, nil
		case c < ' ':
			s.at = i
			return nil, s.fail("control character in a string")
		case c != '\\':
			s.str = append(s.str, c)
		case i >= len(s.buf):
			s.at = i
			return nil, s.fail("string without end")
		default:
			e := s.buf[i]
			i++
			if e == 'u' {
				r, next, ok := unescapeRune(s.buf, i)
				if !ok {
					s.at = i
					return nil, s.fail("bad \\u escape")
				}
				s.str = utf8.AppendRune(s.str, r)
				i = next
				continue
			}
			at := bytes.IndexByte([]byte(`"\/bfnrt`), e)
			if at < 0 {
				s.at = i
				return nil, s.fail("bad escape")
			}
			s.str = append(s.str, "\"\\/\b\f\n\r\t"[at])
		}
	}
	s.at = i
	return nil, s.fail("string without end")
}

// unescapeRune reads the digits of \uXXXX at i, and of the low surrogate
// after a high one. A lone surrogate is no character: not ok.
func unescapeRune(b []byte, i int) (r rune, next int, ok bool) {
	hex := func(i int) (rune, bool) {
		if len(b)-i < 4 {
			return 0, false
		}
		v, err := strconv.ParseUint(string(b[i:i+4]), 16, 32)
		return rune(v), err == nil
	}
	r, ok = hex(i)
	if !ok {
		return 0, i, false
	}
	i += 4
	if !utf16.IsSurrogate(r) {
		return r, i, true
	}
	if len(b)-i < 6 || b[i] != '\\' || b[i+1] != 'u' {
		return 0, i, false
	}
	low, ok := hex(i + 2)
	r = utf16.DecodeRune(r, low)
	return r, i + 6, ok && r != utf8.RuneError
}

// id reads a token id: a whole number from 0 to maxTokenID.
func (s *scanner) id() (int32, error) {
	s.space()
	start, v := s.at, 0
	for s.at < len(s.buf) && s.buf[s.at] >= '0' && s.buf[s.at] <= '9' {
		if v = v*10 + int(s.buf[s.at]-'0'); v > maxTokenID {
			return 0, s.fail(fmt.Sprintf("token id over %d", maxTokenID))
		}
		s.at++
	}
	if s.at == start {
		return 0, s.fail("token id is no whole number")
	}
	return int32(v), nil
}

// value skips one value of any kind and returns its text.
func (s *scanner) value() ([]byte, error) {
	s.space()
	start := s.at
	if err := s.skip(0); err != nil {
		return nil, err
	}
	return s.buf[start:s.at], nil
}

func (s *scanner) skip(depth int) error {
	if depth > maxJSONDepth {
		return s.fail("nested too deep")
	}
	switch s.peek() {
	case '{':
		return s.object(func([]byte) error { return s.skip(depth + 1) })
	case '[':
		return s.array(func() error { return s.skip(depth + 1) })
	case '"':
		_, err := s.string()
		return err
	}
	start := s.at
	for s.at < len(s.buf) && bytes.IndexByte([]byte(" \t\r\n,]}"), s.buf[s.at]) < 0 {
		s.at++
	}
	if !json.Valid(s.buf[start:s.at]) {
		return s.fail("no value")
	}
	return nil
}

// end checks that nothing but blanks follows.
func (s *scanner) end() error {
	if s.space(); s.at != len(s.buf) {
		return s.fail("text after the end")
	}
	return nil
}

// strict decodes into v and refuses fields that v does not know.
func strict(raw []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if d.More() {
		return errors.New("text after the end")
	}
	return nil
}

// isNull tells whether a value is absent or null.
func isNull(raw []byte) bool {
	return len(raw) == 0 || string(raw) == "null"
}
