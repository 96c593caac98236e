// SPDX-License-Identifier: Apache-2.0

package jinja_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"windhover/engine/jinja"
)

func FuzzRender(f *testing.F) {
	names, err := filepath.Glob("../tokenizer/testdata/chat/*.jinja")
	if err != nil || len(names) == 0 {
		f.Fatalf("no chat templates (%v)", err)
	}
	for _, name := range names {
		src, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(src))
	}
	for _, c := range readGoldens(f).Cases {
		f.Add(c.Template)
	}
	vars := variables(f, `{"messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"é"},{"type":"image"}]},
		{"role":"assistant","content":null,"tool_calls":[{"function":{"name":"f","arguments":{"a":[1,2.5,null]}}}]}],
		"tools":null,"add_generation_prompt":false,"eos_token":"<|e|>","n":7,"s":" a,b ","l":[3,1,2],"d":{"a":1}}`)
	vars.Set("raw", jinja.Text("a\xffb"))
	f.Fuzz(func(t *testing.T, src string) {
		out, err := render(src, vars)
		var je *jinja.Error
		if err != nil && !errors.As(err, &je) {
			t.Errorf("error of type %T: %v", err, err)
		}
		if err != nil && !strings.HasPrefix(err.Error(), "jinja: ") {
			t.Errorf("error %q", err)
		}
		if err == nil && !utf8.ValidString(out) {
			t.Errorf("%q gives %q, which is not UTF-8", src, out)
		}
	})
}

func FuzzJSON(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.5,"x",null,true],"a":{}}`, `"\ud83d\ude00\\ud83d"`, `"\ud83d"`, `-0`, `1e999`, "[[[]]", "\"\xff\""} {
		f.Add([]byte(s))
	}
	dump, err := jinja.Parse("{{ v | tojson }}")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		// What is read and printed reads the same again.
		first := true
		for text := string(raw); ; {
			v, err := jinja.JSON([]byte(text))
			if err != nil {
				if !first {
					t.Errorf("%q: %v", text, err)
				}
				return
			}
			vars := new(jinja.Dict)
			vars.Set("v", v)
			out, err := dump.Render(vars, jinja.LimitsFor(len(raw)), nil)
			if err != nil || strings.Contains(out, "Infinity") {
				return // printing has limits of its own, and JSON has no infinity
			}
			if !first && out != text {
				t.Errorf("%q reads as %q", text, out)
			}
			if !first {
				return
			}
			first, text = false, out
		}
	})
}
