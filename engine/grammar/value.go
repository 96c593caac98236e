// SPDX-License-Identifier: Apache-2.0

package grammar

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
)

const (
	maxSchemaBytes = 256 << 10
	maxSchemaDepth = 64
)

// value is a JSON value with the keys of objects in their order.
type value struct {
	kind   string // null, boolean, number, string, array, object
	truth  bool
	text   string // of a string; of a number as it is written
	items  []value
	keys   []string
	fields map[string]value
}

// parse reads one JSON value.
func parse(raw []byte) (value, error) {
	if len(raw) > maxSchemaBytes {
		return value{}, problem("", "%d bytes, at most %d", len(raw), maxSchemaBytes)
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	v, err := readValue(dec, 0)
	if err != nil {
		return value{}, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return value{}, problem("", "something follows it")
	}
	return v, nil
}

// readValue reads the next value. Places in its errors are below it.
func readValue(dec *json.Decoder, depth int) (value, error) {
	t, err := dec.Token()
	if err != nil {
		return value{}, problem("", "not JSON: %v", err)
	}
	if depth > maxSchemaDepth {
		return value{}, problem("", "more than %d levels", maxSchemaDepth)
	}
	switch t := t.(type) {
	case nil:
		return value{kind: "null"}, nil
	case bool:
		return value{kind: "boolean", truth: t}, nil
	case json.Number:
		return value{kind: "number", text: t.String()}, nil
	case string:
		return value{kind: "string", text: t}, nil
	case json.Delim:
		if t == '[' {
			return readItems(dec, depth)
		}
	}
	return readFields(dec, depth)
}

func readItems(dec *json.Decoder, depth int) (value, error) {
	v := value{kind: "array"}
	for dec.More() {
		item, err := readValue(dec, depth+1)
		if err != nil {
			return v, below(strconv.Itoa(len(v.items)), err)
		}
		v.items = append(v.items, item)
	}
	return v, closeValue(dec)
}

func readFields(dec *json.Decoder, depth int) (value, error) {
	v := value{kind: "object", fields: make(map[string]value)}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return v, problem("", "not JSON: %v", err)
		}
		key := t.(string) // the decoder takes nothing else here
		if _, twice := v.fields[key]; twice {
			return v, problem("", "key %.80q appears twice", key)
		}
		field, err := readValue(dec, depth+1)
		if err != nil {
			return v, below(escape(key), err)
		}
		v.keys = append(v.keys, key)
		v.fields[key] = field
	}
	return v, closeValue(dec)
}

func closeValue(dec *json.Decoder) error {
	if _, err := dec.Token(); err != nil {
		return problem("", "not JSON: %v", err)
	}
	return nil
}

// escape writes a key as a JSON pointer does.
func escape(key string) string {
	return strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
}

// write appends the value as JSON, without white space.
func (v *value) write(b *strings.Builder) {
	switch v.kind {
	case "null":
		b.WriteString("null")
	case "boolean":
		fmt.Fprint(b, v.truth)
	case "number":
		b.WriteString(v.text)
	case "string":
		b.WriteString(quote(v.text))
	case "array":
		b.WriteByte('[')
		for i := range v.items {
			if i > 0 {
				b.WriteByte(',')
			}
			v.items[i].write(b)
		}
		b.WriteByte(']')
	case "object":
		b.WriteByte('{')
		for i, key := range v.keys {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(quote(key))
			b.WriteByte(':')
			field := v.fields[key]
			field.write(b)
		}
		b.WriteByte('}')
	}
}

// is tells whether a value is of a type of JSON schema. A number is an integer when
// it is written as one.
func (v *value) is(typ string) bool {
	if typ == "integer" {
		return v.kind == "number" && !strings.ContainsAny(v.text, ".eE")
	}
	return v.kind == typ
}
