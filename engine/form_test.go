// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"windhover/internal/testmodel"
)

const personSchema = `{"type":"object","properties":{"name":{"type":"string","minLength":1,"maxLength":12},
	"age":{"type":"integer"},"kind":{"enum":["cat","dog"]}},"required":["name","kind"],"additionalProperties":false}`

// isPerson holds an answer against personSchema by hand.
func isPerson(t *testing.T, text string) {
	t.Helper()
	var p map[string]any
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		t.Errorf("answer %q: %v", text, err)
		return
	}
	name, _ := p["name"].(string)
	if n := len([]rune(name)); n < 1 || n > 12 {
		t.Errorf("name %q", name)
	}
	if p["kind"] != "cat" && p["kind"] != "dog" {
		t.Errorf("kind %v", p["kind"])
	}
	if age, ok := p["age"]; ok {
		if n, ok := age.(float64); !ok || n != math.Trunc(n) {
			t.Errorf("age %v", age)
		}
	}
	for key := range p {
		if key != "name" && key != "kind" && key != "age" {
			t.Errorf("key %q", key)
		}
	}
}

// An answer that is held to a schema is valid and ends by itself, whatever the
// sampling; its pieces are its text.
func TestSchemaAnswers_P101(t *testing.T) {
	m := load(t, testmodel.Write(t, testmodel.Default()), Options{})
	options := []Sampling{{}, {Temperature: 1, TopK: 20, TopP: 0.8}, {Temperature: 3}, {Temperature: 2, TopP: 0.95}, {Temperature: 2, MinP: 0.01, RepeatPenalty: 1.3}}
	for i, opt := range options {
		for seed := range uint64(10) {
			opt.Seed = seed
			var said strings.Builder
			got, err := m.Generate(context.Background(), Request{Tokens: chat("hi"), Schema: []byte(personSchema), Sampling: opt}, func(e Event) error {
				if e.Delta != nil {
					said.WriteString(e.Delta.Text)
				}
				return nil
			})
			if err != nil {
				t.Fatalf("options %d, seed %d: %v", i, seed, err)
			}
			if got.Finish != FinishStop || said.String() != got.Text || got.Thinking != "" {
				t.Errorf("options %d, seed %d: finish %s, pieces %q, text %q, thinking %q", i, seed, got.Finish, said.String(), got.Text, got.Thinking)
			}
			isPerson(t, got.Text)
		}
	}
}

// Thinking is free, the answer behind it is held to the form.
func TestSchemaBehindThinking_P102(t *testing.T) {
	m := load(t, testmodel.Write(t, testmodel.Default()), Options{})
	for _, budget := range []int{0, 2} {
		got, err := m.Generate(context.Background(), Request{Tokens: thinking("hi"), Schema: []byte(personSchema), MayThink: true, ThinkBudget: budget}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if want := map[int]string{0: "Huh?", 2: "Hu"}[budget]; got.Thinking != want || got.Finish != FinishStop {
			t.Errorf("budget %d: thinking %q, finish %s, want %q", budget, got.Thinking, got.Finish, want)
		}
		isPerson(t, got.Text)
	}
}

// Only an answer that may begin with thinking may begin with its marker.
func TestMayThink(t *testing.T) {
	m := load(t, testmodel.Write(t, testmodel.Default()), Options{})
	for _, may := range []bool{true, false} {
		for _, call := range []bool{true, false} {
			req := Request{Tokens: chat("hi"), MayThink: may, MustCall: call, Tools: []json.RawMessage{[]byte(`{"name":"now"}`)}}
			if !call {
				req.Tools, req.JSONObject = nil, true
			}
			g, err := m.newGeneration(req)
			if err != nil {
				t.Fatal(err)
			}
			logits := make([]float32, m.cfg.Vocab)
			logits[testmodel.TokenThink] = 1
			id, err := g.next(logits)
			if err != nil {
				t.Fatal(err)
			}
			if (id == testmodel.TokenThink) != may {
				t.Errorf("may think %v, call %v: token %d", may, call, id)
			}
			if g.take(id); g.out.inside != may {
				t.Errorf("may think %v, call %v: inside %v", may, call, g.out.inside)
			}
			if !may {
				continue
			}
			// The marker comes at the beginning only, and closing it leads to the form.
			g.take(testmodel.TokenDone)
			for range 4 {
				logits := make([]float32, m.cfg.Vocab)
				logits[testmodel.TokenThink] = 1
				if id, err = g.next(logits); err != nil {
					t.Fatal(err)
				}
				g.take(id)
			}
			if want := map[bool]string{true: "<t", false: "{"}[call]; g.out.inside || !strings.HasPrefix(m.tok.Decode(g.ids()[2:], false), "\n\n"+want) {
				t.Errorf("call %v: behind the thinking came %q", call, m.tok.Decode(g.ids()[2:], false))
			}
		}
	}
}

var weather = []json.RawMessage{
	[]byte(`{"type":"function","function":{"name":"weather","parameters":{"type":"object","properties":{"city":{"type":"string","maxLength":8}},"required":["city"]}}}`),
	[]byte(`{"type":"function","function":{"name":"clock"}}`),
}

// A call that must be made is made, of the tool that was named.
func TestMustCall_P105(t *testing.T) {
	m := load(t, testmodel.Write(t, testmodel.Default()), Options{})
	for seed := range uint64(10) {
		req := Request{Tokens: chat("hi"), Tools: weather, MustCall: true, Sampling: Sampling{Temperature: 2, Seed: seed}, CallTool: "weather"}
		var calls []ToolCall
		got, err := m.Generate(context.Background(), req, func(e Event) error {
			if e.Delta != nil {
				calls = append(calls, e.Delta.ToolCalls...)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if got.Text != "" || got.BadToolCall || got.Finish != FinishStop || len(got.ToolCalls) != 1 || !slices.Equal(calls, got.ToolCalls) {
			t.Fatalf("seed %d: %+v, deltas gave %+v", seed, got, calls)
		}
		var args struct{ City *string }
		if c := got.ToolCalls[0]; c.Name != "weather" || json.Unmarshal([]byte(c.Arguments), &args) != nil || args.City == nil {
			t.Errorf("seed %d: call %+v", seed, c)
		}
	}
	// Free text with tools declared stays text.
	got, err := m.Generate(context.Background(), Request{Tokens: chat("hi"), Tools: weather}, nil)
	if err != nil || got.Text != testmodel.Answer || got.ToolCalls != nil || got.BadToolCall {
		t.Errorf("free: %+v, %v", got, err)
	}
}

func TestFormRefuses(t *testing.T) {
	m := load(t, testmodel.Write(t, testmodel.Default()), Options{})
	for _, tt := range []struct {
		name string
		req  Request
		text string
	}{
		{"schema", Request{Schema: []byte(`{"properties":{"a":{"format":"date"}}}`)}, `json_schema: at /properties/a: keyword "format"`},
		{"two forms", Request{Schema: []byte(`{}`), JSONObject: true}, "one of them"},
		{"form and tools", Request{Schema: []byte(`{}`), Tools: weather}, "do not go with tools"},
		{"call of none", Request{MustCall: true}, "no tools"},
		{"unknown tool", Request{MustCall: true, Tools: weather, CallTool: "x"}, `"x" is not among the tools`},
		{"tool without a name", Request{Tools: []json.RawMessage{[]byte(`{"function":{}}`)}}, "tools[0]: name"},
		{"no tool", Request{Tools: []json.RawMessage{[]byte(`3`)}}, "tools[0]"},
		{"tool that cannot be forced", Request{MustCall: true, Tools: []json.RawMessage{[]byte(`{"name":"a","parameters":{"type":"object","minProperties":1}}`)}}, `at /tools/0: keyword "minProperties"`},
		{"top without logprobs", Request{TopLogprobs: 1}, "top_logprobs"},
		{"too many", Request{Logprobs: true, TopLogprobs: 21}, "top_logprobs 21"},
	} {
		tt.req.Tokens = chat("hi")
		if _, err := m.Generate(context.Background(), tt.req, nil); !errors.Is(err, ErrRequest) || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.text)
		}
	}
}

// Requests with forms and logprobs, at once and alone, give the same.
func TestFormsBesideEachOther(t *testing.T) {
	m := load(t, testmodel.Write(t, testmodel.Default()), Options{})
	var list []Request
	for seed := range uint64(3) {
		opt := Sampling{Temperature: 2, TopP: 0.95, Seed: seed}
		list = append(list,
			Request{Tokens: chat("hi"), Schema: []byte(personSchema), Sampling: opt, Logprobs: true, TopLogprobs: 3},
			Request{Tokens: chat("ho"), JSONObject: true, Sampling: opt, MaxTokens: 40},
			Request{Tokens: chat("ha"), Tools: weather, MustCall: true, Sampling: opt},
			Request{Tokens: chat("hu"), Sampling: opt, MaxTokens: 40, Logprobs: true})
	}
	run := func(r Request) *Result {
		got, err := m.Generate(context.Background(), r, nil)
		if err != nil {
			t.Error(err)
			return &Result{}
		}
		got.Timing, got.Usage.Cached = Timing{}, 0
		return got
	}
	var want []*Result
	for _, r := range list {
		want = append(want, run(r))
	}
	got := make([]*Result, len(list))
	var all sync.WaitGroup
	for i, r := range list {
		all.Go(func() { got[i] = run(r) })
	}
	all.Wait()
	for i := range list {
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Errorf("request %d: %+v beside others, %+v alone", i, got[i], want[i])
		}
	}
}

func TestKeptForms(t *testing.T) {
	m := load(t, testmodel.Write(t, testmodel.Default()), Options{})
	for _, list := range []string{"a", "b", "c", "d", "a", "e", "a"} {
		req := Request{Tokens: chat("hi"), Schema: []byte(`{"const":"` + list + `"}`)}
		got, err := m.Generate(context.Background(), req, nil)
		if err != nil || got.Text != `"`+list+`"` {
			t.Fatalf("%q: %+v, %v", list, got, err)
		}
		if n := len(m.forms.kept); n > keptForms {
			t.Fatalf("%d grammars are kept", n)
		}
	}
}

// BenchmarkApply: what a form costs a token beside finding its mask, for the
// vocabulary of Qwen3.
func BenchmarkApply(b *testing.B) {
	logits := make([]float32, 151936)
	for _, share := range []struct {
		name string
		word uint64
	}{{"none", 0}, {"some", 1 << 7}, {"most", math.MaxUint64 - 1}} {
		b.Run(share.name, func(b *testing.B) {
			mask := slices.Repeat([]uint64{share.word}, len(logits)/64)
			for b.Loop() {
				apply(logits, mask, nil)
			}
		})
	}
}
