// SPDX-License-Identifier: Apache-2.0

package tokenizer_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
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
