// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"windhover/internal/testmodel"
)

// lamps are a strict tool, and one that is not and whose parameters no grammar takes.
var lamps = []json.RawMessage{
	[]byte(`{"type":"function","function":{"name":"lamp","strict":true,"parameters":{"type":"object","properties":{
		"on":{"type":"boolean"},"room":{"enum":["hall","<tool_call>"]}},"required":["on","room"],"additionalProperties":false}}}`),
	[]byte(`{"type":"function","function":{"name":"log","parameters":{"type":"object","properties":{"at":{"format":"date"}}}}}`),
}

// loose is the same with none strict.
func loose(tools []json.RawMessage) []json.RawMessage {
	var list []json.RawMessage
	for _, t := range tools {
		list = append(list, bytes.ReplaceAll(t, []byte(`"strict":true`), []byte(`"strict":false`)))
	}
	return list
}

// keepsTo holds a call against lamps by hand.
func keepsTo(c ToolCall) error {
	var args map[string]any
	if err := json.Unmarshal([]byte(c.Arguments), &args); err != nil {
		return err
	}
	if c.Name == "log" {
		return nil
	}
	_, on := args["on"].(bool)
	if c.Name != "lamp" || len(args) != 2 || !on || args["room"] != "hall" && args["room"] != "<tool_call>" {
		return fmt.Errorf("call %+v", c)
	}
	return nil
}

// badCall is a call, behind its marker, by a model that knows the tool and not its parameters.
const (
	badArgs = `{"on": "perhaps", "room": "attic"}`
	badCall = "\n{\"name\": \"lamp\", \"arguments\": " + badArgs + "}\n"
)

// speaker is a model that recites it.
func speaker(t *testing.T) *Model {
	return load(t, testmodel.Write(t, testmodel.Caller("lamp", badArgs)), Options{CacheBytes: 16 << 20})
}

// A model that writes arguments which are not as a strict tool has them is held to them,
// and only where it calls: what it says before and behind is its own.
func TestStrictCallsAreHeld_P260(t *testing.T) {
	m := speaker(t)
	free, err := m.Generate(context.Background(), Request{Tokens: chat("hi"), Tools: loose(lamps)}, nil)
	if err != nil || len(free.ToolCalls) != 1 || keepsTo(free.ToolCalls[0]) == nil || free.Text != "Sure.Done." {
		t.Fatalf("what is not held: %+v, %v", free, err)
	}
	for seed := range uint64(20) {
		opt := Sampling{Temperature: float32(seed) / 10, Seed: seed}
		var told []ToolCall
		var said strings.Builder
		got, err := m.Generate(context.Background(), Request{Tokens: chat("hi"), Tools: lamps, Sampling: opt, MaxTokens: 400}, func(e Event) error {
			if e.Delta != nil {
				said.WriteString(e.Delta.Text)
				told = append(told, e.Delta.ToolCalls...)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(told, got.ToolCalls) || said.String() != got.Text {
			t.Errorf("seed %d: deltas gave %+v and %q, the result is %+v", seed, told, said.String(), got)
		}
		for _, c := range got.ToolCalls {
			if err := keepsTo(c); err != nil {
				t.Errorf("seed %d: %v", seed, err)
			}
		}
		if got.BadToolCall && got.Finish != FinishLength {
			t.Errorf("seed %d: %+v", seed, got)
		}
		if seed == 0 && (got.Text != "Sure.Done." || len(got.ToolCalls) != 1 || got.ToolCalls[0].Name != "lamp" || got.Finish != FinishStop) {
			t.Errorf("greedy: %+v", got)
		}
	}
	if m.forms.kept[0].users != 0 {
		t.Errorf("%d use the form, and all are answered", m.forms.kept[0].users)
	}
}

// Until a call begins the tokens are those of a request without strict tools, and their
// logprobs; a request without strict tools is held to nothing.
func TestStrictLeavesTextAlone_P261(t *testing.T) {
	c := testmodel.Default()
	c.Random, c.MaxSeq = true, 512
	c.Marks = []string{callOpen, callClose}
	m := load(t, testmodel.Write(t, c), Options{})
	open := c.TokenOf(callOpen)
	alike, opened, n := 0, 0, 40
	if testing.Short() {
		n = 20
	}
	for seed := range uint64(n) {
		req := Request{Tokens: thinking("hi"), Tools: loose(lamps), MaxTokens: 150, IgnoreEOS: true, Sampling: Sampling{Temperature: 1.5, Seed: seed, TopP: 0.99}, Logprobs: true, TopLogprobs: 2}
		if seed%2 == 0 {
			req.Tokens = chat("hi")
		}
		if g, err := m.newGeneration(req); err != nil || g.form != nil || g.tools.rigid || len(m.forms.kept) > 0 && seed == 0 {
			t.Fatalf("without strict tools: %+v, %v", g, err)
		}
		free, err := m.Generate(context.Background(), req, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Tools = lamps
		held, err := m.Generate(context.Background(), req, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(free.Text, callOpen) && len(free.ToolCalls) == 0 {
			free.Timing, held.Timing, held.Usage.Cached = Timing{}, Timing{}, free.Usage.Cached
			if !reflect.DeepEqual(free, held) {
				t.Errorf("seed %d: %+v, without strict tools %+v", seed, held, free)
			}
			alike++
			continue
		}
		opened++
		at := len(free.Tokens) // of the marker in the answer: those in the thinking are text
		for i, id := range free.Tokens {
			if id == open && strings.Contains(said(m, req, free.Tokens[:i+1]), callOpen) {
				at = i + 1
				break
			}
		}
		if at == len(free.Tokens) {
			continue // or cut off behind it
		}
		if !slices.Equal(free.Tokens[:at], held.Tokens[:at]) {
			t.Errorf("seed %d: %v, without strict tools %v", seed, held.Tokens[:at], free.Tokens[:at])
		}
	}
	if alike < n/8 || opened < n/8 {
		t.Errorf("%d answers had no call, %d had one", alike, opened)
	}
}

// said is the text of an answer, without its thinking.
func said(m *Model, req Request, ids []int32) string {
	a := answer{marks: m.marks, stream: m.tok.NewStream(true)}
	a.inside = m.marks.openAtEnd(m.tok, req.Tokens)
	for _, id := range ids {
		a.token(id)
	}
	a.finish()
	return a.text.String()
}

// One call or several, each is held; where one is wanted the answer ends behind it.
func TestStrictCallsOneOrSeveral_P263(t *testing.T) {
	c := testmodel.Default()
	c.Random, c.MaxSeq = true, 2048
	c.Marks = []string{callOpen, callClose}
	m := load(t, testmodel.Write(t, c), Options{})
	most, ended := 0, 0
	for seed := range uint64(8) {
		req := Request{Tokens: chat("hi"), Tools: lamps[:1], MaxTokens: 400, IgnoreEOS: true, Sampling: Sampling{Temperature: 1.5, Seed: seed}}
		got, err := m.Generate(context.Background(), req, nil)
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, len(got.ToolCalls))
		for _, c := range got.ToolCalls {
			if err := keepsTo(c); err != nil {
				t.Errorf("seed %d: %v", seed, err)
			}
		}
		for _, stop := range [][]string{nil, {callClose + "!"}} { // which holds the end of the call back
			req.OneCall, req.Stop = true, stop
			one, err := m.Generate(context.Background(), req, nil)
			if err != nil {
				t.Fatal(err)
			}
			if len(got.ToolCalls) == 0 {
				continue
			}
			ended++
			if one.Finish != FinishStop || len(one.ToolCalls) != 1 || one.ToolCalls[0] != got.ToolCalls[0] ||
				!slices.Equal(one.Tokens, got.Tokens[:len(one.Tokens)]) || m.tok.Token(one.Tokens[len(one.Tokens)-1]) != callClose {
				t.Errorf("seed %d, stop %q: %+v; without a limit %+v", seed, stop, one, got)
			}
		}
	}
	if most < 2 || ended < 6 {
		t.Errorf("at most %d calls, %d answers of one", most, ended)
	}
}

// A call that is cut off is none: it stays text, and is said to be malformed.
func TestStrictCallsCutOff_P264(t *testing.T) {
	m := speaker(t)
	req := Request{Tokens: chat("hi"), Tools: lamps}
	whole, err := m.Generate(context.Background(), req, nil)
	if err != nil || len(whole.ToolCalls) != 1 {
		t.Fatalf("%+v, %v", whole, err)
	}
	last := slices.Index(whole.Tokens, m.tok.Encode(callClose, true)[0])
	for n := 1; n <= last+1; n++ {
		req.MaxTokens = n
		got, err := m.Generate(context.Background(), req, nil)
		if err != nil {
			t.Fatal(err)
		}
		text, calls := strings.TrimRight(m.tok.Decode(whole.Tokens[:n], true), blanks), 0
		if n > last {
			text, calls = "Sure.", 1
		}
		if strings.TrimRight(got.Text, blanks) != text || got.Finish != FinishLength || len(got.ToolCalls) != calls || got.BadToolCall != (n > 1 && n <= last) {
			t.Errorf("%d tokens: %+v, want %q", n, got, text)
		}
	}
	req.MaxTokens, req.Stop = 0, []string{`"room`}
	got, err := m.Generate(context.Background(), req, nil)
	if err != nil || got.Finish != FinishStop || !got.BadToolCall || len(got.ToolCalls) != 0 || !strings.Contains(got.Text, `"on":`) || strings.Contains(got.Text, "room") {
		t.Errorf("a stop string in a call: %+v, %v", got, err)
	}
}

// Behind a call that is too long nothing is one, since the grammar still holds that call,
// and its strings may look like others.
func TestLongHeldCall_P264(t *testing.T) {
	bad := callOpen + `{"name":"f","arguments":{}}` + callClose
	text := callOpen + "\n" + `{"name": "f", "arguments": {"s": "` + strings.Repeat("x", maxCallBytes) + bad
	for _, n := range []int{1, 5, 1 << 20} {
		for _, rigid := range []bool{true, false} {
			p := &toolParser{names: []string{"f"}, rigid: rigid}
			show := ""
			for rest := text; rest != ""; rest = rest[min(n, len(rest)):] {
				show += p.push(rest[:min(n, len(rest))])
			}
			if show += p.flush(); len(p.calls) != map[bool]int{true: 0, false: 1}[rigid] || rigid && show != text || !p.bad {
				t.Errorf("pieces of %d, rigid %v: %d calls, %d bytes of %d are shown", n, rigid, len(p.calls), len(show), len(text))
			}
		}
	}
}

// What a strict tool asks for and cannot be held is refused by name and place; what is
// asked of others is not looked at.
func TestStrictRefuses_P262(t *testing.T) {
	m := load(t, testmodel.Write(t, testmodel.Default()), Options{})
	tool := func(name string, strict, parameters string) json.RawMessage {
		return json.RawMessage(`{"type":"function","function":{"name":"` + name + `","strict":` + strict + `,"parameters":` + parameters + `}}`)
	}
	const open, date = `{"type":"object"}`, `{"type":"object","properties":{"a":{"type":"string","format":"date"}}}`
	for _, tt := range []struct {
		name string
		list []json.RawMessage
		text string // of the error; "": none
	}{
		{"keyword", []json.RawMessage{tool("f", "false", open), tool("g", "true", date)}, `schema: at /tools/1/properties/a: keyword "format" is not supported`},
		{"keyword of another", []json.RawMessage{tool("f", "true", open), tool("g", "false", date)}, ""},
		{"no strict", []json.RawMessage{tool("g", "false", date), tool("h", "null", date)}, ""},
		{"no object", []json.RawMessage{tool("f", "true", `{"type":"string"}`)}, "at /tools/0/type: the arguments of a tool are an object"},
		{"as the function holds it", []json.RawMessage{json.RawMessage(`{"name":"f","strict":true,"parameters":` + date + `}`)}, `at /tools/0/properties/a: keyword "format"`},
		{"beside the function", []json.RawMessage{json.RawMessage(`{"strict":true,"function":{"name":"f","parameters":` + date + `}}`)}, `at /tools/0/properties/a: keyword "format"`},
		{"no truth value", []json.RawMessage{tool("f", `"yes"`, open)}, "tools[0]"},
		{"twice", []json.RawMessage{tool("f", "true", open), tool("f", "false", open)}, `tools[1]: name "f" is that of another before it`},
	} {
		got, err := m.Generate(context.Background(), Request{Tokens: chat("hi"), Tools: tt.list}, nil)
		if tt.text == "" && (err != nil || got.Text != testmodel.Answer) {
			t.Errorf("%s: %+v, %v", tt.name, got, err)
		}
		if tt.text != "" && (!errors.Is(err, ErrRequest) || !strings.Contains(err.Error(), tt.text)) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.text)
		}
	}
	for _, k := range m.forms.kept {
		if k.users != 0 {
			t.Errorf("%d use a form, and all are answered", k.users)
		}
	}
}
