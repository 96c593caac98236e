// SPDX-License-Identifier: Apache-2.0

package tokenizer_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"windhover/engine/tokenizer"
)

func readTemplate(tb testing.TB, name string) *tokenizer.Template {
	tb.Helper()
	src, err := os.ReadFile(filepath.Join("testdata", "chat", name+".jinja"))
	if err != nil {
		tb.Fatal(err)
	}
	tpl, err := tokenizer.ParseTemplate(string(src), tokenizer.TemplateVars{})
	if err != nil {
		tb.Fatal(err)
	}
	return tpl
}

// chatCase is one golden of testdata/chat: a chat, and what the genuine
// template makes of it in transformers, or the class of its error.
type chatCase struct {
	Name                string              `json:"name"`
	Messages            []tokenizer.Message `json:"messages"`
	Tools               []json.RawMessage   `json:"tools"`
	AddGenerationPrompt bool                `json:"add_generation_prompt"`
	EnableThinking      *bool               `json:"enable_thinking"`
	AddVisionID         *bool               `json:"add_vision_id"`
	Text                string              `json:"text"`
	IDs                 []int32             `json:"ids"`
	HFError             string              `json:"hf_error"`
}

func (c *chatCase) chat() tokenizer.Chat {
	in := tokenizer.Chat{Messages: c.Messages, Tools: c.Tools, AddGenerationPrompt: c.AddGenerationPrompt, EnableThinking: c.EnableThinking}
	if c.AddVisionID != nil {
		in.Extra = map[string]any{"add_vision_id": *c.AddVisionID}
	}
	return in
}

var chatFamilies = map[string]string{
	"qwen3": "qwen3", "qwen3-instruct-2507": "qwen3", "qwen3-thinking-2507": "qwen3",
	"qwen3-vl-instruct": "qwen3", "qwen3-vl-thinking": "qwen3", "smollm2": "smollm2",
}

func TestChatGoldens(t *testing.T) {
	for name, family := range chatFamilies {
		tpl, tok := readTemplate(t, name), load(t, family)
		for _, c := range readCases[chatCase](t, "chat", name+".json.gz") {
			t.Run(name+"/"+c.Name, func(t *testing.T) {
				got, err := tpl.Render(c.chat())
				if c.HFError != "" {
					var te *tokenizer.TemplateError
					if !errors.As(err, &te) {
						t.Fatalf("Render: %q, %v; want an error (%s)", got, err, c.HFError)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if got != c.Text {
					t.Fatalf("Render:\n%q, want\n%q", got, c.Text)
				}
				if ids := tok.Encode(got, true); !slices.Equal(ids, c.IDs) {
					t.Errorf("ids %v, want %v", ids, c.IDs)
				}
			})
		}
	}
}

func TestTemplateErrors(t *testing.T) {
	for _, c := range []struct {
		src, want string
		line      int
		raised    bool
	}{
		{"a\n{{ raise_exception('roles must alternate') }}", "roles must alternate", 2, true},
		{"\n\n{{ missing.x }}", `"missing" is undefined`, 3, false},
		{"{% if 1 %}\n{{ 'a' | nosuch }}{% endif %}", `filter "nosuch" is not supported`, 2, false},
		{strings.Repeat("a", 300_000), "300000 bytes is over the limit", 0, false},
	} {
		tpl, err := tokenizer.ParseTemplate(c.src, tokenizer.TemplateVars{})
		if err == nil {
			_, err = tpl.Render(tokenizer.Chat{})
		}
		var te *tokenizer.TemplateError
		if !errors.As(err, &te) {
			t.Errorf("%.40q: error %v, want a TemplateError", c.src, err)
			continue
		}
		if !strings.Contains(te.Msg, c.want) || te.Line != c.line || te.Raised != c.raised {
			t.Errorf("%.40q: %+v, want line %d, raised %v and %q", c.src, te, c.line, c.raised, c.want)
		}
		msg := err.Error()
		if !strings.HasPrefix(msg, "tokenizer: chat template: ") || !strings.Contains(msg, c.want) || strings.Contains(msg, "jinja") {
			t.Errorf("%.40q: error %q", c.src, msg)
		}
		if refuses := strings.Contains(msg, "the model's template refuses the chat"); refuses != c.raised {
			t.Errorf("%.40q: error %q", c.src, msg)
		}
	}
}

// TestTemplateVariables: what a template sees beside the messages.
func TestTemplateVariables(t *testing.T) {
	vars := tokenizer.TemplateVars{BOS: "<s>", PAD: "p\xff"}
	tpl, err := tokenizer.ParseTemplate("{{ bos_token }}{{ eos_token is defined }} {{ pad_token }} {{ tools }} {{ documents }} "+
		"{{ enable_thinking is defined }} {{ i }} {{ f }} {{ s[1] }} {{ l }} {{ n }}", vars)
	if err != nil {
		t.Fatal(err)
	}
	got, err := tpl.Render(tokenizer.Chat{Extra: map[string]any{
		"bos_token": "x", "i": 2, "f": 2.0, "s": "a\xffb", "l": []any{1, "b", nil}, "n": nil,
	}})
	if want := "<s>False p\uFFFD None None False 2 2.0 \uFFFD [1, 'b', None] None"; err != nil || got != want {
		t.Errorf("Render = %q, %v, want %q", got, err, want)
	}
	if !tpl.Uses("documents") || tpl.Uses("unk_token") {
		t.Errorf("Uses(documents) = %v, Uses(unk_token) = %v, want true, false", tpl.Uses("documents"), tpl.Uses("unk_token"))
	}
}

func TestMessageJSON(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`{"role":"user","content":"hi"}`, `{"content":"hi","role":"user"}`},
		{`{"role":"user","content":null,"name":null}`, `{"role":"user"}`},
		{`{"role":"user"}`, `{"role":"user"}`},
		{`{"role":"user","content":[]}`, `{"content":[],"role":"user"}`},
		{`{"role":"user","content":[{"type":"image"}],"x":{"b":1,"a":2}}`, `{"content":[{"type":"image"}],"role":"user","x":{"b":1,"a":2}}`},
		{`{"role":"assistant","reasoning_content":"","tool_calls":[{"name":"f"}],"tool_call_id":"1","name":"n"}`,
			`{"name":"n","reasoning_content":"","role":"assistant","tool_call_id":"1","tool_calls":[{"name":"f"}]}`},
	} {
		var m tokenizer.Message
		if err := json.Unmarshal([]byte(c.in), &m); err != nil {
			t.Errorf("%s: %v", c.in, err)
			continue
		}
		got, err := json.Marshal(m)
		if err != nil || string(got) != c.want {
			t.Errorf("%s comes back as %s (%v), want %s", c.in, got, err, c.want)
		}
	}
	for _, in := range []string{`5`, `{"role":5}`, `{"role":"user","content":5}`, `{"role":"user","content":{"text":"x"}}`, `{"tool_calls":"x"}`} {
		var m tokenizer.Message
		if err := json.Unmarshal([]byte(in), &m); err == nil {
			t.Errorf("%s is taken as %+v, want an error", in, m)
		}
	}
}

func TestRenderHostileChat(t *testing.T) {
	tpl := readTemplate(t, "qwen3")
	got, err := tpl.Render(tokenizer.Chat{Messages: []tokenizer.Message{{Role: "user", Content: tokenizer.Content{Text: "a\xffb"}}}})
	if want := "<|im_start|>user\na\uFFFDb<|im_end|>\n"; err != nil || got != want {
		t.Errorf("Render = %q, %v, want %q", got, err, want)
	}
	for _, raw := range []string{`{`, `[1,]`, `{"a":1e}`, strings.Repeat("[", 10_000)} {
		_, err := tpl.Render(tokenizer.Chat{Tools: []json.RawMessage{json.RawMessage(raw)}})
		var te *tokenizer.TemplateError
		if !errors.As(err, &te) {
			t.Errorf("tool %.20q: error %v, want a TemplateError", raw, err)
		}
	}
	// A long chat is no hostile template.
	var long tokenizer.Chat
	for range 3000 {
		long.Messages = append(long.Messages, tokenizer.Message{Role: "user", Content: tokenizer.Content{Text: strings.Repeat("word ", 100)}},
			tokenizer.Message{Role: "assistant", Content: tokenizer.Content{Text: "yes"}})
	}
	if _, err := tpl.Render(long); err != nil {
		t.Errorf("6000 messages: %v", err)
	}
}
