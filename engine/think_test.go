// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"testing"

	"windhover/engine/tokenizer"
	"windhover/internal/testmodel"
)

func testTokenizer(t testing.TB) *tokenizer.Tokenizer {
	t.Helper()
	tok, err := tokenizer.Parse(testmodel.TokenizerJSON())
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// say is text in which < and > stand for the thinking markers.
func say(text string) []int32 {
	var ids []int32
	for _, id := range testmodel.Tokens(text) {
		switch id {
		case testmodel.Tokens("<")[0]:
			id = testmodel.TokenThink
		case testmodel.Tokens(">")[0]:
			id = testmodel.TokenDone
		}
		ids = append(ids, id)
	}
	return ids
}

func TestAnswer(t *testing.T) {
	tok := testTokenizer(t)
	cases := []struct {
		name, prompt   string
		said           string
		text, thinking string
		raw            bool
		stop           []string
	}{
		{name: "no thinking", said: " plain ", text: " plain "},
		{name: "thinking", said: "<\nso be\nit\n>\n\nYes.", text: "Yes.", thinking: "so be\nit"},
		{name: "white space before", said: "\n <hm>ok", text: "\n ok", thinking: "hm"},
		{name: "nothing thought", said: "<\n\n>\n\nok ", text: "ok "},
		{name: "never closed", said: "<on and on \n", thinking: "on and on"},
		{name: "opened by the prompt", prompt: "hi<\n", said: "hm\n>\n\nok", text: "ok", thinking: "hm"},
		{name: "closed by the prompt", prompt: "<\n\n>\n\n", said: " ok", text: " ok"},
		{name: "marker in the user's text", prompt: "what is <, please?\n", said: "a marker", text: "a marker"},
		{name: "opened again in the text", said: "ok <hm> done", text: "ok <think>hm</think> done"},
		{name: "closed without being open", said: "ok> done", text: "ok</think> done"},
		{name: "white space inside is kept", said: "<a  b\n\nc >d", text: "d", thinking: "a  b\n\nc"},
		{name: "raw", said: "<hm>ok", text: "<think>hm</think>ok", raw: true},
		{name: "stop across the markers", said: "<XY>aXYb", text: "a", thinking: "XY", stop: []string{"XY"}},
		{name: "half a character", said: "<\xe4\xb8>ok\xe4", text: "ok\ufffd", thinking: "\ufffd"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			marks := findMarkers(tok)
			a := answer{marks: marks, raw: c.raw, stream: tok.NewStream(!c.raw), stop: stopper{stops: c.stop}}
			a.inside = !c.raw && marks.openAtEnd(tok, say(c.prompt))
			a.trim = a.inside
			text, thinking := "", ""
			for _, id := range say(c.said) {
				found := a.token(id)
				var d Delta
				a.take(&d)
				text, thinking = text+d.Text, thinking+d.Thinking
				if found {
					break
				}
			}
			a.finish()
			var d Delta
			a.take(&d)
			text, thinking = text+d.Text, thinking+d.Thinking
			if text != c.text || thinking != c.thinking {
				t.Errorf("text %q and thinking %q, want %q and %q", text, thinking, c.text, c.thinking)
			}
			if a.text.String() != text || a.thinking.String() != thinking {
				t.Errorf("in all %q and %q, in pieces %q and %q", a.text.String(), a.thinking.String(), text, thinking)
			}
		})
	}
}

func TestMarkersNeedBothTokens(t *testing.T) {
	tok := testTokenizer(t)
	m := findMarkers(tok)
	if m.open != testmodel.TokenThink || m.close != testmodel.TokenDone || !slices.Equal(m.end, say("\n>\n\n")) {
		t.Errorf("markers %+v", m)
	}
	if m := findMarkers(nil); m.open != -1 || m.close != -1 || m.openAtEnd(nil, say("<")) {
		t.Errorf("markers without a tokenizer: %+v", m)
	}
}
