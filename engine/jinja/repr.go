// SPDX-License-Identifier: Apache-2.0

package jinja

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode"
)

// str is Python's str(): what an output tag and ~ print.
func (r *renderer) str(v value) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case *undefined:
		return "", nil
	}
	var b strings.Builder
	err := r.repr(&b, v, 0)
	return b.String(), err
}

// repr is Python's repr().
func (r *renderer) repr(b *strings.Builder, v value, depth int) error {
	if depth > maxNesting {
		return r.limit("values nested too deep")
	}
	if err := r.spend(1); err != nil {
		return err
	}
	switch v := v.(type) {
	case nil:
		b.WriteString("None")
	case bool:
		if v {
			b.WriteString("True")
		} else {
			b.WriteString("False")
		}
	case int64:
		b.WriteString(strconv.FormatInt(v, 10))
	case *big.Int:
		b.WriteString(v.String())
	case float64:
		b.WriteString(pyFloat(v))
	case string:
		if err := r.grow(4 * len(v)); err != nil {
			return err
		}
		pyQuote(b, v)
	case *undefined:
		b.WriteString("Undefined")
	case *seq:
		return r.reprSeq(b, v, depth)
	case *Dict:
		b.WriteByte('{')
		for i := range v.keys {
			if i > 0 {
				b.WriteString(", ")
			}
			if err := r.repr(b, v.keys[i], depth+1); err != nil {
				return err
			}
			b.WriteString(": ")
			if err := r.repr(b, v.values[i], depth+1); err != nil {
				return err
			}
		}
		b.WriteByte('}')
	default:
		return r.failf("a %s is not printed", typeName(v))
	}
	return nil
}

func (r *renderer) reprSeq(b *strings.Builder, v *seq, depth int) error {
	open, end := "[", "]"
	switch v.kind {
	case seqTuple:
		open, end = "(", ")"
		if len(v.items) == 1 {
			end = ",)"
		}
	case seqView, seqRange, seqOnce:
		return r.failf("a %s is not printed; the filter list makes it a list", typeName(v))
	}
	b.WriteString(open)
	for i, item := range v.items {
		if i > 0 {
			b.WriteString(", ")
		}
		if err := r.repr(b, item, depth+1); err != nil {
			return err
		}
	}
	b.WriteString(end)
	return nil
}

// pyFloat prints a float as Python does: the shortest digits, an exponent
// below 1e-4 and from 1e16.
func pyFloat(f float64) string {
	switch {
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	case math.IsNaN(f):
		return "nan"
	}
	if a := math.Abs(f); f != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// pyQuote prints a string as Python's repr does.
func pyQuote(b *strings.Builder, s string) {
	quote := byte('\'')
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		quote = '"'
	}
	b.WriteByte(quote)
	for _, c := range s {
		switch {
		case c == rune(quote) || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\r':
			b.WriteString(`\r`)
		case c == '\t':
			b.WriteString(`\t`)
		case c < ' ' || c >= 0x7F && !unicode.IsPrint(c):
			pyEscape(b, c)
		default:
			b.WriteRune(c)
		}
	}
	b.WriteByte(quote)
}

func pyEscape(b *strings.Builder, c rune) {
	hex := strconv.FormatInt(int64(c), 16)
	switch {
	case c <= 0xFF:
		b.WriteString(`\x` + strings.Repeat("0", 2-len(hex)) + hex)
	case c <= 0xFFFF:
		b.WriteString(`\u` + strings.Repeat("0", 4-len(hex)) + hex)
	default:
		b.WriteString(`\U` + strings.Repeat("0", 8-len(hex)) + hex)
	}
}
