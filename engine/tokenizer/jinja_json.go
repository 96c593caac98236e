// SPDX-License-Identifier: Apache-2.0

package tokenizer

import (
	"encoding/json"
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
	case *dict:
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

func (r *renderer) jsonDict(b *strings.Builder, v *dict, o *jsonOptions, depth int) error {
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

// fromJSON makes a value of a JSON text, as Python's json.loads does: keys in
// order, the last of two equal ones counts, whole numbers exact.
func fromJSON(raw []byte) (value, error) {
	s := scanner{buf: raw}
	v, err := s.read(0)
	if err == nil {
		err = s.end()
	}
	return v, err
}

func (s *scanner) read(depth int) (value, error) {
	if depth > maxJSONDepth {
		return nil, s.fail("nested too deep")
	}
	switch s.peek() {
	case '{':
		d := newDict(0)
		err := s.object(func(key []byte) error {
			k := string(key)
			v, err := s.read(depth + 1)
			d.put(k, v)
			return err
		})
		return d, err
	case '[':
		q := &seq{kind: seqList}
		err := s.array(func() error {
			v, err := s.read(depth + 1)
			q.items = append(q.items, v)
			return err
		})
		return q, err
	case '"':
		text, err := s.string()
		return string(text), err
	}
	raw, err := s.value()
	if err != nil {
		return nil, err
	}
	switch string(raw) {
	case "null":
		return nil, nil
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return jsonNumber(string(raw))
}

// maxIntDigits is Python's own limit on reading whole numbers.
const maxIntDigits = 4300

func jsonNumber(text string) (value, error) {
	if !strings.ContainsAny(text, ".eE") {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n, nil
		}
		n, ok := new(big.Int).SetString(text, 10)
		if !ok || len(text) > maxIntDigits {
			return nil, fmt.Errorf("invalid number %.40s", text)
		}
		return n, nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil && !math.IsInf(f, 0) {
		return nil, fmt.Errorf("invalid number %.40s", text)
	}
	return f, nil
}

// fromGo makes a value of what callers put in Chat.Extra.
func fromGo(v any) (value, error) {
	switch v := v.(type) {
	case nil, bool, string, int64, float64:
		return v, nil
	case int:
		return int64(v), nil
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return fromJSON(raw)
}
