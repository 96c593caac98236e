// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"encoding/json"
	"strings"
	"testing"

	"windhover/control"
	"windhover/engine/tokenizer"
)

// Lists of texts reach every model: as lists where its template reads them, else as
// the text that they are.
func TestListsOfTexts(t *testing.T) {
	const list = `[{"type":"text","text":"a b"},{"type":"text","text":"c"}]`
	for name, tt := range map[string]struct{ template, content, want string }{
		"adds texts":           {`{% for m in messages %}{{ '<' + m.content + '>' }}{% endfor %}`, list, "<a b\nc>"},
		"leaves lists out":     {`{% for m in messages %}<{{ m.content if m.content is string else '' }}>{% endfor %}`, list, "<a b\nc>"},
		"reads lists":          {`{% for m in messages %}<{% for p in m.content %}{{ p.text }}|{% endfor %}>{% endfor %}`, list, "<a b|c|>"},
		"an empty list":        {`{% for m in messages %}{{ '<' + m.content + '>' }}{% endfor %}`, `[]`, "<>"},
		"a text that is empty": {`{% for m in messages %}{{ '<' + m.content + '>' }}{% endfor %}`, `[{"type":"text","text":""}]`, "<>"},
		"a text":               {`{% for m in messages %}{{ '<' + m.content + '>' }}{% endfor %}`, `"a"`, "<a>"},
		"a picture":            {`{% for m in messages %}<{{ m.content | length }}>{% endfor %}`, `[{"type":"image","data":"AAAA"},{"type":"text","text":"a"}]`, "<2>"},
	} {
		t.Run(name, func(t *testing.T) {
			tmpl, err := tokenizer.ParseTemplate(tt.template, tokenizer.TemplateVars{})
			if err != nil {
				t.Fatal(err)
			}
			var m control.Message
			if err := json.Unmarshal([]byte(`{"role":"tool","content":`+tt.content+`}`), &m); err != nil {
				t.Fatal(err)
			}
			one, err := templateMessage(m)
			if err != nil {
				t.Fatal(err)
			}
			messages := []tokenizer.Message{one}
			inWords(tmpl, messages)
			if got, err := tmpl.Render(tokenizer.Chat{Messages: messages}); err != nil || got != tt.want {
				t.Errorf("%q, %v; want %q", got, err, tt.want)
			}
		})
	}
}

// A question in parts is that in one text: it has as many tokens, and the same answer.
func TestQuestionInParts(t *testing.T) {
	b := startBox(t, nil)
	b.drop(t, "m.vqf", tinyModel(t, nil))
	b.ready(t, "m")
	type told struct {
		Choices []struct{ Message struct{ Content string } }
		Usage   struct {
			Prompt int `json:"prompt_tokens"`
		}
	}
	ask := func(content string) (out told) {
		code, body := b.ask(t, false, "POST", "/v1/chat/completions",
			strings.NewReader(`{"messages":[{"role":"user","content":`+content+`}],"max_tokens":32,"temperature":0}`))
		if err := json.Unmarshal(body, &out); err != nil || code != 200 || len(out.Choices) != 1 {
			t.Fatalf("%s: %d %s", content, code, body)
		}
		return out
	}
	got, want := ask(`[{"type":"text","text":"one"},{"type":"text","text":"two"}]`), ask(`"one\ntwo"`)
	if got.Choices[0] != want.Choices[0] || got.Usage != want.Usage {
		t.Errorf("in parts %+v, as a text %+v", got, want)
	}
}
