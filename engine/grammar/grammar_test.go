// SPDX-License-Identifier: Apache-2.0

package grammar_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"windhover/engine/grammar"
)

// byteVocab has a token for each byte.
func byteVocab() *grammar.Vocabulary {
	return grammar.NewVocabulary(256, func(id int32) []byte { return []byte{byte(id)} })
}

// takes tells whether a grammar takes a whole text, and where it gives up.
func takes(m *grammar.Machine, text string) (ok bool, at int) {
	x := m.Matcher()
	for i := range len(text) {
		mask := x.Mask()
		allowed := mask != nil && mask[text[i]>>6]>>(text[i]&63)&1 != 0
		if x.Accept(int32(text[i])) != allowed {
			panic("the mask and what is accepted differ")
		}
		if !allowed {
			return false, i
		}
	}
	return x.Complete(), len(text)
}

func TestCompile(t *testing.T) {
	for _, tt := range []struct {
		name, schema string
		yes, no      []string
	}{
		{"null", `{"type":"null"}`, []string{`null`}, []string{``, `nul`, `nulll`, ` null`, `0`}},
		{"boolean", `{"type":"boolean"}`, []string{`true`, `false`}, []string{`tru`, `True`, `null`}},
		{"integer", `{"type":"integer"}`, []string{`0`, `-0`, `7`, `-120`, `123456789012345`}, []string{`01`, `-`, `1.0`, `1e2`, `1234567890123456`, `+1`}},
		{"number", `{"type":"number"}`, []string{`0`, `-1.5`, `0.25e-7`, `1E+99`, `12e3`}, []string{`.5`, `1.`, `1e`, `1e100`, `00`}},
		{"string", `{"type":"string"}`, []string{`""`, `"a b"`, `"\n\u00e4\\\""`, `"世界😀"`, `"\ud7ff"`, `"\u1234"`},
			[]string{`"`, `"a`, "\"\n\"", `"\x"`, `"\ud800"`, `"\uDbff"`, "\"\xff\"", "\"\xed\xa0\x80\"", `"\u12"`, "\"\xc0\x80\""}},
		{"lengths", `{"type":"string","minLength":2,"maxLength":3}`, []string{`"ab"`, `"äöü"`, `"\n\n"`, `"\u0041b"`}, []string{`"a"`, `""`, `"abcd"`, `"世"`}},
		{"exact length", `{"minLength":3,"maxLength":3}`, []string{`"abc"`}, []string{`"ab"`, `"abcd"`}},
		{"pattern", `{"pattern":"^[A-C]{2}-\\d+(x|yz)?$"}`, []string{`"AB-1"`, `"CC-123x"`, `"AA-0yz"`}, []string{`"AB-"`, `"AD-1"`, `"AB-1xy"`, `"AB-1 "`}},
		{"pattern escapes", `{"pattern":"^[\"\\\\\\n]\\.é.$"}`, []string{`"\".éa"`, `"\\.é世"`, `"\n.éb"`}, []string{`"\u0022.éa"`, `"a.éa"`, `".é"`, `"\".é\n"`}},
		{"pattern classes", `{"pattern":"^[^a-y]\\w\\W?$"}`, []string{`"zA"`, `"世_"`, `"\"0-"`}, []string{`"aa"`, `"z-"`}},
		{"empty pattern", `{"pattern":"^$"}`, []string{`""`}, []string{`"a"`}},
		{"const", `{"const":{"a":[1,"x",null]}}`, []string{`{"a":[1,"x",null]}`}, []string{`{"a": [1,"x",null]}`, `{}`}},
		{"enum", `{"enum":["red","re",3,true]}`, []string{`"red"`, `"re"`, `3`, `true`}, []string{`"r"`, `"reds"`, `33`, `red`}},
		{"enum of a type", `{"type":["string","null"],"enum":["a",1,null]}`, []string{`"a"`, `null`}, []string{`1`}},
		{"types", `{"type":["integer","null"]}`, []string{`12`, `null`}, []string{`"a"`, `1.5`}},
		{"anyOf", `{"anyOf":[{"type":"integer"},{"type":"string","maxLength":1}]}`, []string{`12`, `"a"`}, []string{`"ab"`, `null`}},
		{"anyOf that begin alike", `{"anyOf":[{"properties":{"k":{"const":"a"},"x":{"type":"integer"}},"required":["k","x"]},{"properties":{"k":{"const":"b"},"y":{"type":"null"}},"required":["k","y"]}]}`,
			[]string{`{"k":"a","x":1}`, `{"k": "b", "y": null}`}, []string{`{"k":"a","y":null}`, `{"k":"b","x":1}`}},
		{"array", `{"type":"array","items":{"type":"integer"},"minItems":1,"maxItems":3}`, []string{`[1]`, `[1,2]`, `[1, 2, 3]`, "[\n  1,\n  2\n]"}, []string{`[]`, `[1,2,3,4]`, `[1,]`, `[,1]`, `[1 ,2]`, `["a"]`}},
		{"no items", `{"maxItems":0}`, []string{`[]`, `[ ]`}, []string{`[1]`}},
		{"two items or more", `{"items":{"type":"null"},"minItems":2}`, []string{`[null,null]`, `[null,null,null]`}, []string{`[null]`, `[]`}},
		{"any items", `{"type":"array"}`, []string{`[]`, `[1,"a",[true],{"b":null}]`}, []string{`{}`}},
		{"object", `{"properties":{"a":{"type":"integer"},"b":{"type":"string"},"c":{"type":"null"}},"required":["b"]}`,
			[]string{`{"b":""}`, `{"a":1,"b":""}`, `{"b": "", "c": null}`, "{\n \"a\": 1,\n \"b\": \"x\",\n \"c\": null\n}"},
			[]string{`{}`, `{"a":1}`, `{"b":"","a":1}`, `{"b":"","d":1}`, `{"b":"",}`, `{"b" :""}`, `{,"b":""}`, `{"b":""} `}},
		{"nothing required", `{"properties":{"a":{"type":"null"},"b":{"type":"null"}}}`, []string{`{}`, `{ }`, `{"a":null}`, `{"b":null}`, `{"a":null,"b":null}`}, []string{`{"b":null,"a":null}`}},
		{"other properties", `{"properties":{"ab":{"type":"null"},"a":{"type":"null"}},"additionalProperties":{"type":"integer"}}`,
			[]string{`{}`, `{"b":1}`, `{"ab":null,"abc":1,"x":2}`, `{"a":null}`, `{"ac":5}`, `{"世":1}`},
			[]string{`{"ab":1}`, `{"a":1}`, `{"":1}`, `{"b":null}`, `{"\u0061":1}`}},
		{"others without declared ones", `{"additionalProperties":{"type":"boolean"}}`, []string{`{}`, `{"k":true}`, `{"k":true,"l":false}`}, []string{`{"k":1}`}},
		{"no others", `{"type":"object","additionalProperties":false}`, []string{`{}`}, []string{`{"a":1}`}},
		{"required but not declared", `{"type":"object","required":["x"]}`, []string{`{"x":1}`, `{"x":{"y":[]}}`}, []string{`{}`}},
		{"any object", `{"type":"object"}`, []string{`{}`, `{"a":{"b":[1,2,{"c":"d"}]},"e":1.5}`}, []string{`[]`, `{"a"}`}},
		{"keys to be escaped", `{"properties":{"a\"\n":{"type":"null"}},"required":["a\"\n"]}`, []string{`{"a\"\n":null}`}, []string{`{"a":null}`}},
		{"ref", `{"$ref":"#/$defs/p","$defs":{"p":{"type":"array","items":{"$ref":"#/$defs/q~1"}},"q/":{"enum":[1]}}}`, []string{`[1,1]`}, []string{`[2]`}},
		{"ref with escapes", `{"anyOf":[{"$ref":"#/definitions/a%20b"},{"$ref":"#%2Fdefinitions%2Fc%25d"},{"$ref":"#/definitions/%7E1%C3%A9+"}],"definitions":{"a b":{"const":1},"c%d":{"const":2},"/é+":{"const":3}}}`,
			[]string{`1`, `2`, `3`}, []string{`4`}},
		{"recursion", `{"properties":{"v":{"type":"integer"},"next":{"anyOf":[{"type":"null"},{"$ref":"#"}]}},"required":["v","next"]}`,
			[]string{`{"v":1,"next":null}`, `{"v":1,"next":{"v":2,"next":{"v":3,"next":null}}}`}, []string{`{"v":1}`, `{"v":1,"next":{}}`}},
		{"tree", `{"type":"array","items":{"$ref":"#"}}`, []string{`[]`, `[[],[[]]]`}, []string{`[1]`}},
		{"anything", `{}`, []string{`1`, `"a"`, `[{}]`, `null`}, []string{``, `nope`}},
		{"true", `true`, []string{`{"a":1}`}, []string{`?`}},
		{"notes", `{"title":"T","description":"d","default":1,"examples":[1],"$schema":"s","$id":"i","$comment":"c","deprecated":true,"type":"null"}`, []string{`null`}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g, err := grammar.Compile([]byte(tt.schema))
			if err != nil {
				t.Fatal(err)
			}
			m := grammar.NewMachine(g, byteVocab(), 1<<20, 1<<20)
			for _, text := range tt.yes {
				if ok, at := takes(m, text); !ok {
					t.Errorf("%q is not taken from byte %d on", text, at)
				}
			}
			for _, text := range tt.no {
				if ok, _ := takes(m, text); ok {
					t.Errorf("%q is taken", text)
				}
			}
		})
	}
}

func TestCompileRefuses_P103(t *testing.T) {
	deep := strings.Repeat(`{"items":`, 70) + `{}` + strings.Repeat(`}`, 70)
	for _, tt := range []struct{ name, schema, at, problem string }{
		{"no JSON", `{"type":`, "/type", "not JSON"},
		{"more behind", `{} {}`, "", "something follows"},
		{"no schema", `[]`, "", "an array where a schema belongs"},
		{"false", `false`, "", "no value satisfies it"},
		{"false that is required", `{"properties":{"a":false},"required":["a"]}`, "/properties/a", "no value satisfies it"},
		{"false that is optional", `{"properties":{"a":{"type":"null"},"b":false},"additionalProperties":true}`, "/properties/b", "no value satisfies it"},
		{"false among others", `{"anyOf":[{"type":"null"},false]}`, "/anyOf/1", "no value satisfies it"},
		{"false for items", `{"items":false}`, "/items", "no value satisfies it"},
		{"ref to false", `{"$ref":"#/$defs/no","$defs":{"no":false}}`, "/$defs/no", "no value satisfies it"},
		{"keyword", `{"properties":{"a/b":{"type":"integer","minimum":3}}}`, "/properties/a~1b", `keyword "minimum"`},
		{"format", `{"type":"string","format":"date"}`, "", `keyword "format"`},
		{"allOf", `{"items":{"allOf":[]}}`, "/items", `keyword "allOf"`},
		{"key twice", `{"type":"null","type":"null"}`, "", `"type" appears twice`},
		{"type", `{"type":"text"}`, "/type", `type "text"`},
		{"type of a type", `{"type":3}`, "/type", "want the name"},
		{"mixed", `{"minItems":1,"minLength":1}`, "", "type is missing"},
		{"foreign keyword", `{"type":"integer","minLength":1}`, "", "minLength does not belong to type integer"},
		{"ref and more", `{"$ref":"#","type":"null"}`, "", "$ref together with type"},
		{"ref nowhere", `{"items":{"$ref":"#/$defs/x"}}`, "/items", "leads nowhere"},
		{"ref outside", `{"$ref":"http://example.com/s"}`, "", "only references within"},
		{"ref half escaped", `{"items":{"$ref":"#/$defs/a%2"},"$defs":{"a%2":{}}}`, "/items", "stands before two digits"},
		{"ref with a bare percent", `{"items":{"$ref":"#/$defs/50%zz"},"$defs":{"50%zz":{}}}`, "/items", "% itself is %25"},
		{"ref with a bare tilde", `{"items":{"$ref":"#/$defs/a~2"},"$defs":{"a~2":{}}}`, "/items", "stands before 0"},
		{"ref that ends with a tilde", `{"items":{"$ref":"#/$defs/a~"},"$defs":{"a~":{}}}`, "/items", "stands before 0"},
		{"ref to itself", `{"$ref":"#"}`, "", "leads back to itself"},
		{"ref round", `{"anyOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"anyOf":[{"type":"null"},{"$ref":"#/$defs/a"}]}}}`, "/anyOf/0", "leads back to itself"},
		{"no end", `{"properties":{"a":{"$ref":"#"}},"required":["a"]}`, "", "no value ends"},
		{"no end in items", `{"items":{"$ref":"#"},"minItems":1}`, "", "no value ends"},
		{"enum empty", `{"enum":[]}`, "/enum", "want 1 to"},
		{"enum and more", `{"enum":["a"],"minLength":1}`, "", "enum together with minLength"},
		{"enum of no type", `{"type":"null","enum":["a"]}`, "", "no value of enum has type null"},
		{"bounds", `{"minItems":3,"maxItems":2}`, "", "minItems 3 is above maxItems 2"},
		{"negative", `{"minLength":-1}`, "/minLength", "whole number"},
		{"huge", `{"maxItems":1000000}`, "/maxItems", "65536"},
		{"required", `{"required":["a"],"additionalProperties":false}`, "/required", `"a" is no property`},
		{"pattern open", `{"pattern":"a+"}`, "/pattern", "whole string"},
		{"pattern half open", `{"pattern":"^a|b$"}`, "/pattern", "whole string"},
		{"pattern with length", `{"pattern":"^a$","maxLength":1}`, "", "pattern together"},
		{"pattern space", `{"pattern":"^\\s$"}`, "/pattern", `\s`},
		{"pattern word", `{"pattern":"^\\bx$"}`, "/pattern", "not supported"},
		{"pattern look", `{"pattern":"^(?=x)$"}`, "/pattern", "(?"},
		{"pattern empty repeat", `{"pattern":"^(a?)*$"}`, "/pattern", "can be empty"},
		{"pattern broken", `{"pattern":"^($"}`, "/pattern", "missing"},
		{"deep", deep, strings.Repeat("/items", 65), "more than 64 levels"},
		{"wide", `{"anyOf":[` + strings.Repeat(`{"$ref":"#/$defs/a"},`, 70) + `{"type":"null"}],"$defs":{"a":{"anyOf":[` + strings.Repeat(`{"type":"integer"},`, 70) + `{"type":"null"}]}}}`, "", "too many alternatives"},
		{"large", `{"enum":["` + strings.Repeat("x", 70000) + `"]}`, "", "too large"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := grammar.Compile([]byte(tt.schema))
			var e *grammar.Error
			if !errors.As(err, &e) || e.At != tt.at || !strings.Contains(e.Problem, tt.problem) {
				t.Errorf("got %v, want %q at %q", err, tt.problem, tt.at)
			}
		})
	}
}

// Whatever was taken so far, there is a way to the end: the depth runs out only
// where something shallower is allowed.
func TestDepth(t *testing.T) {
	for _, schema := range []string{
		`{"type":"array","items":{"$ref":"#"}}`,
		`{"type":"object"}`,
		`{"properties":{"next":{"anyOf":[{"$ref":"#"},{"type":"null"}]}},"required":["next"]}`,
	} {
		g, err := grammar.Compile([]byte(schema))
		if err != nil {
			t.Fatal(err)
		}
		x := grammar.NewMachine(g, byteVocab(), 1<<20, 1<<20).Matcher()
		for i := range 4096 { // openings wherever they may stand
			mask := x.Mask()
			if mask == nil {
				t.Fatalf("%s: nothing may follow after %d bytes", schema, i)
			}
			next := byte(0)
			for _, c := range []byte("[{\"k:n}]ulext") {
				if mask[c>>6]>>(c&63)&1 != 0 {
					next = c
					break
				}
			}
			if !x.Accept(int32(next)) {
				t.Fatalf("%s: %q is not taken after %d bytes", schema, next, i)
			}
			if x.Ended() {
				break
			}
		}
	}
}

func TestCall(t *testing.T) {
	g, err := grammar.Call([]grammar.Tool{
		{Name: "now", Parameters: []byte(`{}`)},
		{Name: "any", Parameters: []byte(`true`)},
		{Name: "set", Parameters: []byte(`{"type":"object","properties":{"t":{"$ref":"#/$defs/t"}},"required":["t"],"$defs":{"t":{"type":"integer"}}}`)},
		{Name: "name", Parameters: []byte(`{"type":"object","properties":{"t":{"$ref":"#/$defs/t"}},"required":["t"],"$defs":{"t":{"type":"null"}}}`)},
	})
	if err != nil {
		t.Fatal(err)
	}
	m := grammar.NewMachine(g, byteVocab(), 1<<20, 1<<20)
	for text, want := range map[string]bool{
		`{"name": "now", "arguments": {}}`:          true,
		`{"name": "now", "arguments": {"a": 1}}`:    true,
		`{"name": "now", "arguments": 1}`:           false,
		`{"name": "any", "arguments": {"a": 1}}`:    true,
		`{"name": "any", "arguments": 1}`:           false,
		`{"name": "set", "arguments": {"t": 20}}`:   true,
		`{"name": "name", "arguments": {"t":null}}`: true,
		`{"name": "set", "arguments": {"t": null}}`: false,
		`{"name": "set", "arguments": {}}`:          false,
		`{"name": "sit", "arguments": {}}`:          false,
	} {
		if got, _ := takes(m, text); got != want {
			t.Errorf("%s: got %v", text, got)
		}
	}
	var e *grammar.Error
	if _, err := grammar.Call([]grammar.Tool{{Name: "a"}, {Name: "b", Parameters: []byte(`{"properties":{"x":{"format":"y"}}}`)}}); !errors.As(err, &e) || e.At != "/tools/1/properties/x" {
		t.Errorf("got %v, want a place in the second tool", err)
	}
	if _, err := grammar.Call([]grammar.Tool{{Name: "a", Parameters: []byte(`{"type":"string"}`)}}); !errors.As(err, &e) || e.At != "/tools/0/type" {
		t.Errorf("arguments that are a string: got %v", err)
	}
	if _, err := grammar.Call([]grammar.Tool{{Name: "a", Parameters: []byte(`false`)}}); !errors.As(err, &e) || e.At != "/tools/0" {
		t.Errorf("arguments that cannot be: got %v", err)
	}
	if _, err := grammar.Call(nil); err == nil {
		t.Error("no tools: no error")
	}
}

// An answer ends where nothing can follow, and may end where something could.
func TestEnds(t *testing.T) {
	for _, tt := range []struct {
		schema, text    string
		complete, ended bool
	}{
		{`{"type":"integer"}`, `1`, true, false},
		{`{"type":"integer"}`, `-`, false, false},
		{`{"type":"object"}`, `{}`, true, true},
		{`{"type":"object"}`, `{`, false, false},
		{`{"enum":["a","b"]}`, `"a"`, true, true},
	} {
		g, err := grammar.Compile([]byte(tt.schema))
		if err != nil {
			t.Fatal(err)
		}
		x := grammar.NewMachine(g, byteVocab(), 1<<20, 1<<20).Matcher()
		for _, c := range []byte(tt.text) {
			x.Accept(int32(c))
		}
		if x.Complete() != tt.complete || x.Ended() != tt.ended {
			t.Errorf("%s behind %q: complete %v, ended %v", tt.schema, tt.text, x.Complete(), x.Ended())
		}
	}
}

// The mask is what can be taken, token by token, also where counts are shared by
// states and where states are made anew.
func TestMask(t *testing.T) {
	var tokens [][]byte
	for _, s := range strings.Split(`{ } { " "} "a aa aaa aaaa aaaaaaaa " a" b: ": ":" , ," , " null 1 12 1.5 -  世 \n \\ \" [ ] [[ ]] ]} true`, " ") {
		tokens = append(tokens, []byte(s))
	}
	for c := range 256 {
		tokens = append(tokens, []byte{byte(c)})
	}
	tokens = append(tokens, []byte("aa"), nil)
	v := grammar.NewVocabulary(len(tokens)+70, func(id int32) []byte {
		if int(id) < len(tokens) {
			return tokens[id]
		}
		return nil
	})
	for _, schema := range []string{
		`{"type":"object","properties":{"a":{"type":"string","minLength":300,"maxLength":700}},"required":["a"]}`,
		`{}`,
		`{"type":"array","items":{"type":"string","maxLength":5},"minItems":2,"maxItems":20}`,
	} {
		g, err := grammar.Compile([]byte(schema))
		if err != nil {
			t.Fatal(err)
		}
		m := grammar.NewMachine(g, v, 64<<20, 256<<20)
		x := m.Matcher()
		rnd := newRandom(1)
		for step := 0; step < 400 && !x.Ended(); step++ {
			mask := x.Mask()
			var may []int32
			for id := range int32(len(tokens) + 70) {
				y := *x
				if want, got := y.Accept(id), mask[id>>6]>>(id&63)&1 != 0; got != want {
					t.Fatalf("%s, step %d: token %d %q: mask %v, want %v", schema, step, id, v2(tokens, id), got, want)
				}
				if mask[id>>6]>>(id&63)&1 != 0 {
					may = append(may, id)
				}
			}
			x.Accept(may[rnd.IntN(len(may))])
		}
	}
}

func v2(tokens [][]byte, id int32) string {
	if int(id) < len(tokens) {
		return string(tokens[id])
	}
	return fmt.Sprint("none ", id)
}
