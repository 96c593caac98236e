// SPDX-License-Identifier: Apache-2.0

package grammar_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"windhover/engine/grammar"
)

// uglySchemas are what costs most to compile or to find masks for.
func uglySchemas() map[string]string {
	list := func(n int, of string) string {
		parts := make([]string, n)
		for i := range parts {
			parts[i] = strings.ReplaceAll(of, "%d", fmt.Sprint(i))
		}
		return strings.Join(parts, ",")
	}
	branches := func(name string, most int) string {
		return fmt.Sprintf(`%q:{"anyOf":[{"type":"array","items":{"$ref":"#/$defs/a"}},{"type":"array","items":{"$ref":"#/$defs/b"}},{"pattern":"^(.{1,%d}b?)*$"}]}`, name, most)
	}
	return map[string]string{
		"enum of 1000":         `{"enum":[` + list(1000, `"value number %d of the list"`) + `]}`,
		"512 properties":       `{"type":"object","properties":{` + list(512, `"property_%d":{"type":"string"}`) + `},"additionalProperties":{}}`,
		"500 lengths":          `{"anyOf":[` + list(500, `{"type":"string","minLength":%d,"maxLength":1%d}`) + `]}`,
		"nested arrays":        strings.Repeat(`{"maxItems":60000,"items":`, 60) + `{"type":"string","maxLength":1000}` + strings.Repeat(`}`, 60),
		"repeats in a pattern": `{"pattern":"^(.+.+.+.+)+x$"}`,
		"recursion":            `{"anyOf":[{"type":"string"},{"type":"array","items":{"$ref":"#"}},{"type":"object","additionalProperties":{"$ref":"#"}}]}`,
		"two ways at each":     `{"$defs":{` + branches("a", 900) + "," + branches("b", 901) + `},"$ref":"#/$defs/a"}`,
	}
}

// Of schemas that are as bad as they may be the search for a mask stays within its
// budget: by steps on any machine, by bytes where these are few. It is refused always or
// never, whatever was found out before.
func TestUglySchemas(t *testing.T) {
	v, tok := qwenVocab(t)
	open := tok.Encode("[", false)[0]
	const room, most = 1 << 20, 4 << 20
	for name, schema := range uglySchemas() {
		g, err := grammar.Compile([]byte(schema))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		walk := func(m *grammar.Machine) (text string, err error) {
			x, r := m.Matcher(), newRandom(5)
			for range 12 {
				if err := x.Look(); err != nil {
					return text, err
				}
				if m.Bytes() > room+2*most {
					t.Errorf("%s: %d bytes behind %q", name, m.Bytes(), text)
				}
				var may []int32
				for i, word := range x.Mask() {
					for bit := range 64 {
						if word>>bit&1 != 0 {
							may = append(may, int32(64*i+bit))
						}
					}
				}
				if x.Ended() || len(may) == 0 {
					break
				}
				id := may[r.IntN(len(may))]
				if slices.Contains(may, open) {
					id = open
				}
				text += fmt.Sprint(id, " ")
				x.Accept(id)
			}
			return text, nil
		}
		m := grammar.NewMachine(g, v, room, most)
		text, err := walk(m)
		if again, err2 := walk(m); again != text || (err == nil) != (err2 == nil) {
			t.Errorf("%s: %q, %v; again %q, %v", name, text, err, again, err2)
		}
		var e *grammar.Error
		if refused := name == "two ways at each"; (err != nil) != refused || refused && (!errors.As(err, &e) || !strings.Contains(e.Problem, "too ambiguous")) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// BenchmarkUgly: the worst mask of such a schema, with nothing known before.
func BenchmarkUgly(b *testing.B) {
	v, tok := qwenVocab(b)
	for name, schema := range uglySchemas() {
		g, err := grammar.Compile([]byte(schema))
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				x := grammar.NewMachine(g, v, 1<<20, 4<<20).Matcher()
				for _, c := range `["a` { // into a string, as far as there is one
					if x.Look() != nil {
						break
					}
					if y := *x; y.Accept(tok.Encode(string(c), false)[0]) {
						*x = y
					}
				}
				_ = x.Look() // refused is what one of them is to be
			}
		})
		b.Run(name+"/compile", func(b *testing.B) {
			for b.Loop() {
				if _, err := grammar.Compile([]byte(schema)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
