// SPDX-License-Identifier: Apache-2.0

package grammar_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"windhover/engine/grammar"
)

func newRandom(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 7)) }

// randomSchema makes a schema of everything that is supported.
func randomSchema(r *rand.Rand, depth int, defs bool) any {
	kinds := 10
	if depth <= 0 {
		kinds = 7
	}
	switch k := r.IntN(kinds); k {
	case 0:
		return map[string]any{"type": []string{"null", "boolean", "integer", "number"}[r.IntN(4)]}
	case 1:
		return map[string]any{"type": []any{"string", "null"}, "maxLength": r.IntN(6)}
	case 2:
		least := r.IntN(4)
		return map[string]any{"type": "string", "minLength": least, "maxLength": least + r.IntN(4)}
	case 3:
		return map[string]any{"pattern": []string{`^[a-f0-9]{4}$`, `^(ab|c)+é?$`, `^\d{1,3}(\.\d{1,3}){3}$`, `^[^"\\x]{2,5}$`, `^.?$`}[r.IntN(5)]}
	case 4:
		return map[string]any{"enum": []any{"a", "ab", 1.5, nil, true, []any{"x", 2.0}, map[string]any{"k": "v"}}[r.IntN(6):]}
	case 5:
		return map[string]any{"const": []any{"q\"\n", -3.0, false}[r.IntN(3)]}
	case 6:
		if defs {
			return map[string]any{"$ref": "#/$defs/" + []string{"list", "leaf"}[r.IntN(2)]}
		}
		return map[string]any{}
	case 7:
		least := r.IntN(3)
		return map[string]any{"type": "array", "items": randomSchema(r, depth-1, defs), "minItems": least, "maxItems": least + r.IntN(3)}
	case 8:
		var alts []any
		for range 1 + r.IntN(3) {
			alts = append(alts, randomSchema(r, depth-1, defs))
		}
		return map[string]any{"anyOf": alts}
	}
	names := []string{"a", "ab", "abc", "b", "ü", "x\"y", "世界"}
	r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	props, required := map[string]any{}, []any{}
	for _, name := range names[:r.IntN(5)] {
		props[name] = randomSchema(r, depth-1, defs)
		if r.IntN(2) == 0 {
			required = append(required, name)
		}
	}
	s := map[string]any{"type": "object", "properties": props, "required": required}
	switch r.IntN(3) {
	case 0:
		s["additionalProperties"] = false
	case 1:
		s["additionalProperties"] = randomSchema(r, depth-1, defs)
	}
	return s
}

// sample takes tokens at random, ending soon where it may; the longer it gets, the
// more it takes those that end things.
func sample(r *rand.Rand, m *grammar.Machine, tokens [][]byte) (string, error) {
	var out strings.Builder
	x := m.Matcher()
	for step := range 20000 {
		if x.Ended() || x.Complete() && r.IntN(3) == 0 {
			return out.String(), nil
		}
		mask := x.Mask()
		if mask == nil {
			return out.String(), fmt.Errorf("nothing may follow %q", out.String())
		}
		var may, closing []int32
		for id := range int32(len(tokens)) {
			if mask[id>>6]>>(id&63)&1 == 0 {
				continue
			}
			may = append(may, id)
			if strings.ContainsAny(string(tokens[id]), `"]}`) {
				closing = append(closing, id)
			}
		}
		if len(closing) > 0 && r.IntN(100) < 20+step {
			may = closing
		}
		id := may[r.IntN(len(may))]
		if !x.Accept(id) {
			return out.String(), fmt.Errorf("token %q is in the mask and not taken behind %q", tokens[id], out.String())
		}
		out.Write(tokens[id])
	}
	return out.String(), fmt.Errorf("no end: %.200q", out.String())
}

// pieces is a vocabulary with tokens that go over the borders of JSON's parts.
func pieces() [][]byte {
	var tokens [][]byte
	for c := range 256 {
		tokens = append(tokens, []byte{byte(c)})
	}
	for _, s := range []string{
		`{"`, `"}`, `":`, `": `, `","`, `", "`, `"a`, `"ab`, `ab`, `abc":`, `},{`, `]}`, `[[`, `[]`, `{}`, `{}}`, "\n  ", "{\n  \"",
		`null`, `nul`, `true`, `false`, `12`, `.5`, `e-`, `0.0.0.0`, `世`, `世界`, "\xe4\xb8", "\x96", `é`, `\u00`, `\"`, `q\"\n`, `x\"y`, `""`, `"]`, `1,`,
	} {
		tokens = append(tokens, []byte(s))
	}
	return tokens
}

// Whatever the schema, and however tokens are taken from the masks, the answer is
// valid by another reading of JSON schema.
func TestAnswersAreValid(t *testing.T) {
	tokens := pieces()
	v := grammar.NewVocabulary(len(tokens), func(id int32) []byte { return tokens[id] })
	n := 400
	if testing.Short() {
		n = 100
	}
	for seed := range uint64(n) {
		r := newRandom(seed)
		schema := randomSchema(r, 3, true)
		if m, ok := schema.(map[string]any); ok {
			m["$defs"] = map[string]any{
				"leaf": randomSchema(r, 0, false),
				"list": map[string]any{"anyOf": []any{
					map[string]any{"type": "null"},
					map[string]any{"type": "object", "properties": map[string]any{"next": map[string]any{"$ref": "#/$defs/list"}}, "required": []any{"next"}, "additionalProperties": false},
				}},
			}
		}
		raw, err := json.Marshal(schema)
		if err != nil {
			t.Fatal(err)
		}
		g, err := grammar.Compile(raw)
		if err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		var root any
		if err := json.Unmarshal(raw, &root); err != nil {
			t.Fatal(err)
		}
		m := grammar.NewMachine(g, v, 64<<20, 256<<20)
		for range 5 {
			text, err := sample(r, m, tokens)
			if err != nil {
				t.Fatalf("seed %d: %s: %v", seed, raw, err)
			}
			got, err := decode(text)
			if err == nil {
				err = validate(root, root, got)
			}
			if err != nil {
				t.Fatalf("seed %d: %s: %q: %v", seed, raw, text, err)
			}
		}
	}
}

// FuzzCompile: no schema makes the compiler fail otherwise than by an *Error, take
// long or much memory, or give a grammar in which an answer gets stuck.
func FuzzCompile(f *testing.F) {
	for seed := range uint64(40) {
		raw, err := json.Marshal(randomSchema(newRandom(seed), 3, false))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw, seed)
	}
	for _, s := range []string{
		`{"$ref":"#"}`, `{"anyOf":[{"$ref":"#/anyOf/1"},{"type":"array","items":{"$ref":"#"}}]}`, `{"pattern":"^((a{1,9}){1,9}){1,9}$"}`,
		`{"items":{"items":{"items":{"maxItems":3}}},"minItems":60000}`, `true`, `{"type":["null","string","object","array"]}`,
	} {
		f.Add([]byte(s), uint64(1))
	}
	tokens := pieces()
	v := grammar.NewVocabulary(len(tokens), func(id int32) []byte { return tokens[id] })
	f.Fuzz(func(t *testing.T, raw []byte, seed uint64) {
		if len(raw) > 4096 {
			return
		}
		g, err := grammar.Compile(raw)
		if err != nil {
			if _, ok := err.(*grammar.Error); !ok {
				t.Fatalf("%T: %v", err, err)
			}
			return
		}
		var root any
		if err := json.Unmarshal(raw, &root); err != nil {
			t.Fatalf("compiled, and no JSON: %v", err)
		}
		r := newRandom(seed)
		x := grammar.NewMachine(g, v, 64<<20, 256<<20).Matcher()
		for range 300 {
			if x.Ended() {
				break
			}
			mask := x.Mask()
			if mask == nil {
				t.Fatal("nothing may follow")
			}
			var may []int32
			for id := range int32(len(tokens)) {
				if mask[id>>6]>>(id&63)&1 != 0 {
					may = append(may, id)
				}
			}
			if id := may[r.IntN(len(may))]; !x.Accept(id) {
				t.Fatalf("token %q is in the mask and not taken", tokens[id])
			}
		}
	})
}
