// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"bytes"
	"encoding/json"

	"windhover/control"
	"windhover/engine"
	"windhover/engine/tokenizer"
)

// templateMessage turns a message off the wire into one for the chat template. Both
// speak the JSON of Hugging Face's templates. Of a picture the template only learns
// that it is there.
func templateMessage(m control.Message) (tokenizer.Message, error) {
	if m.Content.Parts != nil {
		parts := make([]control.Part, len(m.Content.Parts))
		for i, p := range m.Content.Parts {
			parts[i] = control.Part{Type: p.Type, Text: p.Text}
		}
		m.Content.Parts = parts
	}
	m.ToolCalls = openedCalls(m.ToolCalls)
	var out tokenizer.Message
	raw, err := json.Marshal(m)
	if err != nil {
		return out, control.Errorf(control.BadRequest, "message of role %q: %v", m.Role, err)
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		return out, control.Errorf(control.BadRequest, "message of role %q: %v", m.Role, err)
	}
	return out, nil
}

// openedCalls gives calls their arguments as objects, which are text on the wire:
// templates write what they get as JSON, and text would become a string within it.
// What is none of a call's is left as it is, for the template to judge.
func openedCalls(raw json.RawMessage) json.RawMessage {
	var calls []map[string]json.RawMessage
	if len(raw) == 0 || json.Unmarshal(raw, &calls) != nil {
		return raw
	}
	for _, c := range calls {
		var function map[string]json.RawMessage
		if json.Unmarshal(c["function"], &function) == nil && openArguments(function) {
			if opened, err := json.Marshal(function); err == nil {
				c["function"] = opened
			}
		}
		openArguments(c)
	}
	if opened, err := json.Marshal(calls); err == nil {
		return opened
	}
	return raw
}

func openArguments(call map[string]json.RawMessage) bool {
	var text string
	if json.Unmarshal(call["arguments"], &text) != nil {
		return false
	}
	args := bytes.TrimSpace([]byte(text))
	if !json.Valid(args) || args[0] != '{' {
		return false
	}
	call["arguments"] = args
	return true
}

// Speaker is what a conversation needs of a model to become tokens.
type Speaker interface {
	Tokenizer() *tokenizer.Tokenizer
	Template() *tokenizer.Template
	Place(prompt string, pictures []*engine.Picture) (string, error)
}

// ChatTokens renders a conversation with the model's own template, puts in the
// pictures, which are in the order of their parts, and encodes it.
func ChatTokens(m Speaker, chat tokenizer.Chat, pictures []*engine.Picture) ([]int32, error) {
	tmpl := m.Template()
	if tmpl == nil {
		return nil, control.Errorf(control.BadRequest, "the model has no chat template that can be used: ask for a plain continuation (op generate, --raw)")
	}
	text, err := tmpl.Render(chat)
	if err != nil {
		return nil, control.Errorf(control.BadRequest, "chat template: %s", oneLine(err))
	}
	if text, err = m.Place(text, pictures); err != nil {
		return nil, err
	}
	return m.Tokenizer().Encode(text, true), nil
}

// PlainTokens encodes a text to be continued, with the token that the model wants
// at the beginning of a text.
func PlainTokens(tok *tokenizer.Tokenizer, meta *engine.Meta, text string) []int32 {
	ids := tok.Encode(text, true)
	if meta.AddBOS && meta.BosID >= 0 {
		ids = append([]int32{meta.BosID}, ids...)
	}
	return ids
}
