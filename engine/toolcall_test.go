// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"windhover/internal/testmodel"
)

// parseCalls gives text to a parser in pieces of n bytes.
func parseCalls(text string, n int) (string, *toolParser) {
	p := &toolParser{names: []string{"f", "g"}}
	var show strings.Builder
	for len(text) > 0 {
		cut := min(n, len(text))
		show.WriteString(p.push(text[:cut]))
		text = text[cut:]
	}
	show.WriteString(p.flush())
	return show.String(), p
}

func TestToolCalls_P104(t *testing.T) {
	const call = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>"
	f := ToolCall{Name: "f", Arguments: `{"a":1}`}
	long := strings.Repeat("x", maxCallBytes)
	for _, tt := range []struct {
		name, text, show string
		calls            []ToolCall
		bad              bool
	}{
		{"text", "hello  <tool> world\n", "hello  <tool> world\n", nil, false},
		{"one", call, "", []ToolCall{f}, false},
		{"text before", "Let me see.\n" + call, "Let me see.", []ToolCall{f}, false},
		{"two", call + "\n" + call + "\n", "", []ToolCall{f, f}, false},
		{"text behind", call + "\n\ndone.", "done.", []ToolCall{f}, false},
		{"text between", call + " and " + call, "and", []ToolCall{f, f}, false},
		{"no white space", `<tool_call>{"name":"g"}</tool_call>`, "", []ToolCall{{Name: "g", Arguments: "{}"}}, false},
		{"null arguments", `<tool_call>{"name":"g","arguments":null}</tool_call>`, "", []ToolCall{{Name: "g", Arguments: "{}"}}, false},
		{"marker in a string", `<tool_call>{"name":"g","arguments":{"s":"a\"</tool_call>b"}}</tool_call>`, "", []ToolCall{{Name: "g", Arguments: `{"s":"a\"</tool_call>b"}`}}, false},
		{"no JSON", "<tool_call>f(1)</tool_call> so", "<tool_call>f(1)</tool_call> so", nil, true},
		{"bad string", "<tool_call>{\"name: 1}\n</tool_call>", "<tool_call>{\"name: 1}\n</tool_call>", nil, true},
		{"another tool", `<tool_call>{"name":"h"}</tool_call>`, `<tool_call>{"name":"h"}</tool_call>`, nil, true},
		{"arguments no object", `<tool_call>{"name":"g","arguments":"{}"}</tool_call>`, `<tool_call>{"name":"g","arguments":"{}"}</tool_call>`, nil, true},
		{"more behind the object", `<tool_call>{"name":"g"} {}</tool_call>`, `<tool_call>{"name":"g"} {}</tool_call>`, nil, true},
		{"cut", "ok <tool_call>{\"name\":\"g\"", "ok <tool_call>{\"name\":\"g\"", nil, true},
		{"cut marker", "ok <tool_ca", "ok <tool_ca", nil, false},
		{"cut end", `<tool_call>{"name":"g"}</tool_`, `<tool_call>{"name":"g"}</tool_`, nil, true},
		{"good behind bad", "<tool_call>x</tool_call>" + call, "<tool_call>x</tool_call>", []ToolCall{f}, true},
		{"too long", "<tool_call>" + long + "</tool_call>" + call, "<tool_call>" + long + "</tool_call>", []ToolCall{f}, true},
		{"too many", strings.Repeat(call, maxCalls+1), call, slices.Repeat([]ToolCall{f}, maxCalls), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, n := range []int{1, 2, 3, 7, 1 << 20} {
				show, p := parseCalls(tt.text, n)
				if show != tt.show || !slices.Equal(p.calls, tt.calls) || !slices.Equal(p.fresh, tt.calls) || p.bad != tt.bad {
					t.Fatalf("pieces of %d: text %.200q, calls %+v, bad %v; want %.200q, %+v, %v", n, show, p.calls, p.bad, tt.show, tt.calls, tt.bad)
				}
			}
		})
	}
}

// FuzzToolCalls: pieces do not matter, nothing is lost, and what is held is bounded.
func FuzzToolCalls(f *testing.F) {
	for _, s := range []string{
		"a<tool_call>{\"name\":\"f\",\"arguments\":{\"x\":[1]}}</tool_call>b", "<tool_call>", "</tool_call>", "<tool_call><tool_call>{}</tool_call>",
		"<tool_call>{\"name\":\"f\\\"</tool_call>", " \n<tool_call>\n", "世<tool", "<<tool_call>\"",
	} {
		f.Add(s, 3)
	}
	f.Fuzz(func(t *testing.T, text string, n int) {
		if n < 1 || n > 1<<16 || !utf8.ValidString(text) {
			return
		}
		show, p := parseCalls(text, n)
		whole, q := parseCalls(text, len(text)+1)
		if show != whole || !slices.Equal(p.calls, q.calls) || p.bad != q.bad {
			t.Fatalf("pieces of %d: %q, %+v; whole: %q, %+v", n, show, p.calls, whole, q.calls)
		}
		if len(p.calls) == 0 {
			strip := func(s string) string { return strings.NewReplacer(" ", "", "\t", "", "\r", "", "\n", "").Replace(s) }
			if strip(show) != strip(text) {
				t.Fatalf("%q became %q", text, show)
			}
		}
		if len(p.calls) == 0 && !strings.Contains(text, callOpen) && (show != text || p.bad) {
			t.Fatalf("plain text %q became %q, bad %v", text, show, p.bad)
		}
		if len(p.body) > maxCallBytes+len(text) {
			t.Fatalf("%d bytes are held", len(p.body))
		}
	})
}

// Where one call is wanted the answer is over with the first, and not before.
func TestOneCall_P230(t *testing.T) {
	m := load(t, testmodel.Write(t, testmodel.Default()), Options{})
	const call = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": %d}}\n</tool_call>"
	text := "Let me see." + strings.Repeat(call, 2)
	for _, once := range []bool{true, false} {
		a := answer{marks: m.marks, stream: m.tok.NewStream(true), tools: &toolParser{names: []string{"f"}, once: once}}
		calls := 0
		for _, id := range m.tok.Encode(strings.ReplaceAll(text, "%d", "1"), false) {
			over := a.token(id)
			if calls = len(a.tools.calls); over != (once && calls == 1) {
				t.Fatalf("once %v: over %v behind %d calls", once, over, calls)
			}
			if over {
				break
			}
		}
		a.finish()
		want := 2
		if once {
			want = 1
		}
		if calls != want || a.text.String() != "Let me see." || a.tools.bad {
			t.Errorf("once %v: %d calls and %q, want %d", once, calls, a.text.String(), want)
		}
	}
}
