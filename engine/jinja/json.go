// SPDX-License-Identifier: Apache-2.0

package jinja

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// jsonOptions are the arguments of the filter tojson.
type jsonOptions struct {
	item, key string // separators
	indent    string // one level; "" is all on one line
	multi     bool   // lines and indent
	sortKeys  bool
	ascii     bool
}

// toJSON prints a value as json.dumps does with transformers' settings.
func (r *renderer) toJSON(b *strings.Builder, v value, o *jsonOptions, depth int) error {
	if depth > maxNesting {
		return r.limit("values nested too deep")
	}
	if err := r.spend(1); err != nil {
		return err
	}
	switch v := v.(type) {
	case nil:
		b.WriteString("null")
	case bool:
		b.WriteString(strconv.FormatBool(v))
	case int64:
		b.WriteString(strconv.FormatInt(v, 10))
	case *big.Int:
		b.WriteString(v.String())
	case float64:
		b.WriteString(jsonFloat(v))
	case string:
		if err := r.grow(2 * len(v)); err != nil {
			return err
		}
		jsonQuote(b, v, o.ascii)
	case *seq:
		if v.kind > seqTuple {
			return r.failf("a %s has no JSON", typeName(v))
		}
		return r.jsonItems(b, o, depth, '[', ']', len(v.items), func(i int) error {
			return r.toJSON(b, v.items[i], o, depth+1)
		})
	case *Dict:
		return r.jsonDict(b, v, o, depth)
	default:
		return r.failf("%s has no JSON", describe(v))
	}
	return nil
}

func (r *renderer) jsonItems(b *strings.Builder, o *jsonOptions, depth int, open, end byte, n int, item func(int) error) error {
	line := func(depth int) error {
		if !o.multi {
			return nil
		}
		if err := r.grow(1 + depth*len(o.indent)); err != nil {
			return err
		}
		b.WriteByte('\n')
		for range depth {
			b.WriteString(o.indent)
		}
		return nil
	}
	b.WriteByte(open)
	for i := range n {
		if err := r.grow(len(o.item) + len(o.key)); err != nil {
			return err
		}
		if i > 0 {
			b.WriteString(o.item)
		}
		if err := line(depth + 1); err != nil {
			return err
		}
		if err := item(i); err != nil {
			return err
		}
	}
	if n > 0 {
		if err := line(depth); err != nil {
			return err
		}
	}
	b.WriteByte(end)
	return nil
}

func (r *renderer) jsonDict(b *strings.Builder, v *Dict, o *jsonOptions, depth int) error {
	order := make([]int, len(v.keys))
	for i := range order {
		order[i] = i
	}
	var failed error
	if o.sortKeys {
		slices.SortStableFunc(order, func(i, j int) int {
			n, err := r.order(v.keys[i], v.keys[j], 0)
			if err != nil {
				failed = err
			}
			return n
		})
	}
	if failed != nil {
		return failed
	}
	return r.jsonItems(b, o, depth, '{', '}', len(order), func(n int) error {
		i := order[n]
		if key, ok := v.keys[i].(string); ok {
			if err := r.grow(2 * len(key)); err != nil {
				return err
			}
			jsonQuote(b, key, o.ascii)
		} else {
			var text strings.Builder
			if err := r.toJSON(&text, v.keys[i], o, depth+1); err != nil {
				return err
			}
			jsonQuote(b, text.String(), o.ascii)
		}
		b.WriteString(o.key)
		return r.toJSON(b, v.values[i], o, depth+1)
	})
}

func jsonFloat(f float64) string {
	switch {
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	case math.IsNaN(f):
		return "NaN"
	}
	return pyFloat(f)
}

func jsonQuote(b *strings.Builder, s string, ascii bool) {
	b.WriteByte('"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\r':
			b.WriteString(`\r`)
		case c == '\t':
			b.WriteString(`\t`)
		case c == '\b':
			b.WriteString(`\b`)
		case c == '\f':
			b.WriteString(`\f`)
		case c < ' ' || ascii && c >= 0x7F && c <= 0xFFFF:
			fmt.Fprintf(b, `\u%04x`, c)
		case ascii && c > 0xFFFF:
			fmt.Fprintf(b, `\u%04x\u%04x`, 0xD800+(c-0x10000)>>10, 0xDC00+(c-0x10000)&0x3FF)
		default:
			b.WriteRune(c)
		}
	}
	b.WriteByte('"')
}
