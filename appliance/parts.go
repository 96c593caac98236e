// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"encoding/json"
	"strings"

	"windhover/engine/tokenizer"
)

// inWords makes a text of the content of each message that is a list of texts, a line
// for each, where the template knows texts alone. Such templates are those of most
// models without pictures: they fail on a list, or leave out what it says. A list with
// a picture stays as it is, and so does everything where the template reads lists.
func inWords(tmpl *tokenizer.Template, messages []tokenizer.Message) {
	known := false
	for i := range messages {
		text, ok := onlyText(messages[i].Content.Parts)
		if !ok {
			continue
		}
		if !known {
			if known = true; tmpl == nil || readsParts(tmpl) {
				return
			}
		}
		messages[i].Content = tokenizer.Content{Text: text}
	}
}

// onlyText joins parts that are texts; ok says whether they are.
func onlyText(parts []json.RawMessage) (text string, ok bool) {
	if parts == nil {
		return "", false
	}
	lines := make([]string, len(parts))
	for i, raw := range parts {
		var p struct {
			Type string `json:"type"`
			Text string `json:"text"`
		}
		if json.Unmarshal(raw, &p) != nil || p.Type != "text" {
			return "", false
		}
		lines[i] = p.Text
	}
	return strings.Join(lines, "\n"), true
}

// readsParts tries whether a text in a list comes out of the template.
func readsParts(tmpl *tokenizer.Template) bool {
	const word = "windhover"
	out, err := tmpl.Render(tokenizer.Chat{Messages: []tokenizer.Message{
		{Role: "user", Content: tokenizer.Content{Parts: []json.RawMessage{json.RawMessage(`{"type":"text","text":"` + word + `"}`)}}},
	}})
	return err == nil && strings.Contains(out, word)
}
