// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"windhover/internal/testmodel"
)

// crossing is a model without tokens for the markers, and with pieces of text that begin
// or end within them, or go on behind.
func crossing() testmodel.Config {
	c := testmodel.Default()
	c.MaxSeq = 2048
	c.Words = []string{
		"<tool", "<tool_call", "_call>", "_call>\n", "_call>\n\n", "_call>{", "l>", "l>x", "ol_call>\n{\"", ">\n", ">\n\n", "> ", ">{", "><", "/tool",
		"<tool_call>", "x<tool_call>", "<tool_call>\n", "<tool_call><tool", "<tool_call>\n{\"name\": ", "<<tool_call>{}", "</tool_call>\n<tool",
		"{\"name\": \"lamp\", \"arguments\": ", "{\"on\": \"perhaps\"}}\n</tool_call>", "\"on\"", "\"room\"", "true", "hall", "}}", "\n</", "tool_call>", "<th", "ink>",
		"\u4e16", "\xe4\xb8", "\x96<tool", "call",
	}
	return c
}

// listener says tokens in the place of a model, as a scheduler does.
type listener struct {
	t *testing.T
	m *Model
	g *generation
}

func listen(t *testing.T, m *Model, req Request) *listener {
	t.Helper()
	g, err := m.newGeneration(req)
	if err != nil {
		t.Fatal(err)
	}
	return &listener{t, m, g}
}

// want says the first of some tokens that may come next, else the best of others; it
// returns it and whether the answer is over.
func (l *listener) want(seed uint64, ids ...int32) (int32, bool) {
	l.t.Helper()
	logits := make([]float32, l.m.cfg.Vocab)
	r := rand.New(rand.NewPCG(seed, 1))
	for i := range logits {
		logits[i] = r.Float32()
	}
	for i, id := range ids {
		logits[id] = float32(100 - i)
	}
	id, err := l.g.next(logits)
	if err != nil {
		l.t.Fatal(err)
	}
	over := l.g.take(id)
	if l.g.puzzled {
		l.g.puzzled = false
		if !l.g.form.matcher.Accept(id) {
			l.t.Fatalf("token %d was allowed and may not come next", id)
		}
		over = l.g.form.moved(l.g) || over
	}
	return id, over
}

// recite wants a text, byte by byte or in larger tokens, whatever comes of it.
func (l *listener) recite(tokens ...int32) {
	l.t.Helper()
	for _, id := range tokens {
		l.want(0, id)
	}
}

// inStep holds the form of an answer against the parser: calls are held where it is in one.
func (l *listener) inStep() {
	l.t.Helper()
	p, f := l.g.tools, l.g.form
	if p.lost || f.calls.inside == p.inside {
		return
	}
	l.t.Fatalf("the form is in a call: %v, the parser: %v; %q", f.calls.inside, p.inside, l.m.tok.Decode(l.g.ids(), true))
}

// FuzzHeldCalls: whatever tokens a model likes, what comes out as a call is as its tool
// has it, and none is malformed unless it was cut off.
func FuzzHeldCalls(f *testing.F) {
	c := crossing()
	text := func(parts ...string) []byte {
		var ids []byte
		for _, s := range parts {
			switch at := slices.Index(c.Words, s); {
			case at >= 0:
				ids = append(ids, byte(at), 1)
			default:
				for i := range len(s) {
					ids = append(ids, s[i], 0)
				}
			}
		}
		return ids
	}
	f.Add(text("Sure. <tool_call>\n", "{\"name\": \"lamp\", \"arguments\": ", "{\"on\": \"perhaps\"}}\n</tool_call>"), false)
	f.Add(text("<tool", "_call>{", "<tool", "_call>\n\n", "_call>\n", "x"), false)
	f.Add(text("<tool_call", ">{", "> ", ">\n"), false)
	f.Add(text("<<", "<tool_call>\n{\"name\": ", "<tool_call>", "<tool_call><tool", "x<tool_call>", "}}"), false)
	f.Add(text("<tool", "\xe4\xb8", "_call>", "\xe4\xb8", "\x96<tool", "ol_call>\n{\"", "_call>", "\n"), false)
	f.Add(append([]byte{3, 2, '<', 0}, text("tool_call>x", "<tool_call>", "{}")...), false)
	f.Add(append(append([]byte{3, 2}, text("<tool_call>{}")...), append([]byte{4, 2}, text("<tool_call>{}")...)...), true)
	m := load(f, testmodel.Write(f, c), Options{})
	f.Fuzz(func(t *testing.T, likes []byte, raw bool) {
		if len(likes) > 400 {
			return
		}
		l := listen(t, m, Request{Tokens: chat("hi"), Tools: lamps, IgnoreEOS: true, Raw: raw})
		step := func(ids ...int32) bool {
			_, over := l.want(uint64(len(l.g.all)), ids...)
			l.inStep()
			return over
		}
		for ; len(likes) > 1; likes = likes[2:] {
			id := testmodel.TokenByte + int32(likes[0])
			switch n := len(c.Words); likes[1] % 3 {
			case 1:
				id = c.TokenOf(c.Words[int(likes[0])%n])
			case 2:
				id = int32(likes[0]) % testmodel.TokenByte // markers, special tokens
			}
			if step(id) {
				t.Fatal("the answer is over")
			}
		}
		// Out of the call, if it is in one: by what ends things.
		for range 400 {
			if !l.g.form.calls.inside && !l.g.out.inside {
				break
			}
			step(testmodel.TokenDone, c.TokenOf("}}"), testmodel.Tokens("}")[0], testmodel.Tokens("]")[0], testmodel.Tokens(`"`)[0], c.TokenOf("hall"))
		}
		ended := !l.g.form.calls.inside
		l.g.out.finish()
		for _, call := range l.g.tools.calls {
			if err := keepsTo(call); err != nil {
				t.Error(err)
			}
		}
		if l.g.tools.bad && ended && len(l.g.tools.calls) < maxCalls {
			t.Errorf("malformed: %q", l.m.tok.Decode(l.g.ids(), true))
		}
		if n := strings.Count(l.g.out.text.String(), callOpen); ended && n > 0 && len(l.g.tools.calls) < maxCalls {
			t.Errorf("%d calls are text: %q", n, l.g.out.text.String())
		}
		m.forms.release(l.g.form.kept)
	})
}
