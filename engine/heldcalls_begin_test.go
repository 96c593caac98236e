// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"windhover/engine/grammar"
	"windhover/internal/testmodel"
)

// By whatever tokens a model gets to the marker, the call behind it is held, and what
// looks like one and is not stays free.
func TestStrictCallsBegin_P260(t *testing.T) {
	c := crossing()
	m := load(t, testmodel.Write(t, c), Options{})
	word := func(list ...string) (ids []int32) {
		for _, s := range list {
			if len(s) == 1 {
				ids = append(ids, testmodel.Tokens(s)...)
			} else {
				ids = append(ids, c.TokenOf(s))
			}
		}
		return ids
	}
	for _, tt := range []struct {
		name string
		say  []int32
		came string // of it; "": all
		held bool
	}{
		{"bytes", testmodel.Tokens("so <tool_call>"), "", true},
		{"one token", word("x<tool_call>"), "", true},
		{"several", word("<tool", "_call>"), "", true},
		{"with the line end", word("<tool", "_call>\n"), "", true},
		{"the last byte, with it", word("<tool_call", ">\n"), "", true},
		{"behind another beginning", word("<", "<tool_call", "<tool_call", ">"), "", true},
		{"text about it", word("<tool", "call", ">"), "", false},
		{"a line end within", word("<tool_call", "\n", ">"), "", false},
		{"a broken character within", word("<tool", "\xe4\xb8", "_call>"), "", false},
		{"a character behind", word("\xe4\xb8", "\x96<tool", "_call>"), "", true},
	} {
		l := listen(t, m, Request{Tokens: chat("hi"), Tools: lamps, IgnoreEOS: true})
		for _, id := range tt.say {
			if got, _ := l.want(1, id); got != id {
				t.Errorf("%s: %q came in the place of %q", tt.name, m.tok.TokenBytes(got), m.tok.TokenBytes(id))
			}
			l.inStep()
		}
		if l.g.form.calls.inside != tt.held {
			t.Errorf("%s: held %v, want %v", tt.name, !tt.held, tt.held)
		}
		for range len(badCall) {
			l.want(1)
		}
		if text := m.tok.Decode(l.g.ids(), true); tt.held && !strings.Contains(text, callOpen+"\n{\"name\": \"l") {
			t.Errorf("%s: %q", tt.name, text)
		}
	}
	// Tokens that end it and go on may not come there, and may elsewhere.
	for _, tt := range []struct{ before, token string }{
		{"<tool", "_call>{"}, {"<tool", "_call>\n\n"}, {"<tool_call", ">{"}, {"<tool_call", "> "}, {"<tool_call", ">\n\n"}, {"<tool_call", "><"},
		{"", "<tool_call><tool"}, {"<tool", "<<tool_call>{}"}, {"<tool_call", "<tool_call>\n{\"name\": "},
	} {
		for _, behind := range []string{tt.before, "", "call"} {
			l := listen(t, m, Request{Tokens: chat("hi"), Tools: lamps})
			if behind != "" {
				l.recite(word(behind)...)
			}
			id := word(tt.token)[0]
			got, _ := l.want(1, id)
			l.inStep()
			if whole := strings.Contains(behind+tt.token, callOpen); (got == id) == whole {
				t.Errorf("behind %q %q was allowed: %v", behind, tt.token, got == id)
			}
		}
	}
}

// In thinking a marker is text, and begins nothing behind it.
func TestStrictAndThinking_P261(t *testing.T) {
	c := crossing()
	m := load(t, testmodel.Write(t, c), Options{})
	for _, budget := range []int{0, 14} {
		l := listen(t, m, Request{Tokens: thinking("hi"), Tools: lamps, ThinkBudget: budget})
		l.recite(c.TokenOf("<tool_call>"))
		l.recite(testmodel.Tokens("<tool_call")...)
		if budget == 0 {
			l.recite(testmodel.TokenDone)
		}
		for i := 0; l.g.out.inside || len(l.g.forced) > 0; i++ { // the budget ends it
			l.recite(testmodel.Tokens("x")...)
			if i > 20 {
				t.Fatal("no end of the thinking")
			}
		}
		l.recite(testmodel.Tokens(">{}")...)
		if l.inStep(); l.g.form.calls.inside {
			t.Errorf("budget %d: a call begins across the end of the thinking", budget)
		}
		l.recite(c.TokenOf("<tool_call>"), testmodel.Tokens("x")[0], testmodel.Tokens("x")[0])
		l.inStep()
		if text := m.tok.Decode(l.g.ids(), true); !l.g.form.calls.inside || !strings.HasSuffix(text, "<tool_call>\n{") {
			t.Errorf("budget %d: %q", budget, text)
		}
	}
}

// While it is found out what may come next in a call, others are computed.
func TestHeldCallsHoldUpNobody(t *testing.T) {
	req := Request{Tokens: chat("hi"), Tools: lamps, Sampling: Sampling{Temperature: 0.8, Seed: 3}, MaxTokens: 300}
	want, err := speaker(t).Generate(context.Background(), req, nil)
	if err != nil || len(want.ToolCalls) != 1 {
		t.Fatalf("%+v, %v", want, err)
	}
	for _, n := range []int{1, 2, 5} {
		m := speaker(t)
		held, letGo := holdSearch(t, m, n)
		answered := make(chan error, 1)
		go func() {
			got, err := m.Generate(context.Background(), req, nil)
			if err == nil {
				got.Timing, want.Timing, got.Usage.Cached = Timing{}, Timing{}, want.Usage.Cached
				if !reflect.DeepEqual(got, want) {
					t.Errorf("search %d held: %+v, want %+v", n, got, want)
				}
			}
			answered <- err
		}()
		<-held
		for range 2 {
			if other, err := m.Generate(context.Background(), Request{Tokens: chat("ho"), MaxTokens: 5}, nil); err != nil || other.Text != "Sure. "+callOpen+badCall+callClose {
				t.Errorf("search %d: beside it: %+v, %v", n, other, err)
			}
		}
		letGo()
		if err := <-answered; err != nil {
			t.Error(err)
		}
	}
}

// The tokens that may not open calls are counted with the vocabulary, and where they do
// not fit strict tools are refused, and nothing else is.
func TestOpeningsHaveABound(t *testing.T) {
	m := load(t, testmodel.Write(t, testmodel.Default()), Options{})
	large := grammar.NewVocabulary(1<<16, func(id int32) []byte { return []byte(fmt.Sprint(id)) })
	m.forms.vocabulary = func() (*grammar.Vocabulary, error) { return large, nil }
	req := Request{Tokens: chat("hi"), Tools: lamps}
	var short *FormError
	if _, err := m.Generate(context.Background(), req, nil); !errors.As(err, &short) || short.Limit != vocabularyBytes(m.cfg.Vocab) || short.Need <= short.Limit {
		t.Errorf("error %v", err)
	}
	req.Tools = loose(lamps)
	if got, err := m.Generate(context.Background(), req, nil); err != nil || got.Text != testmodel.Answer {
		t.Errorf("%+v, %v", got, err)
	}
}
