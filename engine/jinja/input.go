// SPDX-License-Identifier: Apache-2.0

package jinja

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Value is what a variable holds. The zero value is none.
type Value struct{ v value }

// Text is a string. Bytes that are not UTF-8 become U+FFFD.
func Text(s string) Value { return Value{strings.ToValidUTF8(s, "\uFFFD")} }

// Bool is true or false.
func Bool(b bool) Value { return Value{b} }

// Int is a whole number.
func Int(n int64) Value { return Value{n} }

// Float is a number that prints with a point even where it is whole.
func Float(f float64) Value { return Value{f} }

// List is a list of values.
func List(items []Value) Value {
	q := &seq{kind: seqList}
	for _, item := range items {
		q.items = append(q.items, item.v)
	}
	return Value{q}
}

// Value is the dictionary as a value of another.
func (d *Dict) Value() Value { return Value{d} }

// Set sets a key. Bytes of it that are not UTF-8 become U+FFFD.
func (d *Dict) Set(key string, v Value) { d.put(Text(key).v, v.v) }

// JSON reads a value as Python's json.loads does: keys in order, the last of
// two equal ones counts, whole numbers exact. A text that is not UTF-8 or has
// half of a surrogate pair is an error, and so is nesting below 64 levels.
func JSON(raw []byte) (Value, error) {
	var whole json.RawMessage // valid to its end
	if err := json.Unmarshal(raw, &whole); err != nil {
		return Value{}, fmt.Errorf("invalid JSON: %w", err)
	}
	if !utf8.Valid(raw) {
		return Value{}, errors.New("invalid JSON: a string is not UTF-8")
	}
	if halfPair(raw) {
		return Value{}, errors.New(`invalid JSON: a \u escape is half of a surrogate pair`)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	v, err := decode(d, 0)
	return Value{v}, err
}

// maxJSONDepth is the deepest nesting of JSON that is read.
const maxJSONDepth = 64

// decode reads the next value of a valid JSON text.
func decode(d *json.Decoder, depth int) (value, error) {
	if depth > maxJSONDepth {
		return nil, errors.New("invalid JSON: nested too deep")
	}
	tok, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch tok := tok.(type) {
	case json.Number:
		return parseNumber(string(tok))
	case json.Delim:
		if tok == '[' {
			return decodeList(d, depth)
		}
		return decodeDict(d, depth)
	}
	return tok, nil // nil, bool, string
}

func decodeList(d *json.Decoder, depth int) (value, error) {
	q := &seq{kind: seqList}
	for d.More() {
		v, err := decode(d, depth+1)
		if err != nil {
			return nil, err
		}
		q.items = append(q.items, v)
	}
	_, err := d.Token() // ]
	return q, err
}

func decodeDict(d *json.Decoder, depth int) (value, error) {
	out := newDict(0)
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		v, err := decode(d, depth+1)
		if err != nil {
			return nil, err
		}
		out.put(key, v)
	}
	_, err := d.Token() // }
	return out, err
}

// halfPair tells whether a string of a valid JSON text has a surrogate without
// its other half, for which encoding/json puts U+FFFD.
func halfPair(raw []byte) bool {
	unit := func(i int) rune { // of \uXXXX at i, 0 for none
		if len(raw)-i < 6 || raw[i] != '\\' || raw[i+1] != 'u' {
			return 0
		}
		v, err := strconv.ParseUint(string(raw[i+2:i+6]), 16, 32)
		if err != nil {
			return 0
		}
		return rune(v)
	}
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		if r := unit(i); utf16.IsSurrogate(r) {
			if utf16.DecodeRune(r, unit(i+6)) == utf8.RuneError {
				return true
			}
			i += 10
		}
		i++
	}
	return false
}

// maxIntDigits is Python's own limit on reading whole numbers.
const maxIntDigits = 4300

// parseNumber reads a number as JSON and templates write it.
func parseNumber(text string) (value, error) {
	if !strings.ContainsAny(text, ".eE") {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n, nil
		}
		if len(text) <= maxIntDigits { // reading more takes its time
			if n, ok := new(big.Int).SetString(text, 10); ok {
				return n, nil
			}
		}
		return nil, fmt.Errorf("invalid number %.40s", text)
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil && !math.IsInf(f, 0) {
		return nil, fmt.Errorf("invalid number %.40s", text)
	}
	return f, nil
}
