// SPDX-License-Identifier: Apache-2.0

package tokenizer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"windhover/engine/jinja"
)

// Chat is what a template renders.
type Chat struct {
	Messages            []Message
	Tools               []json.RawMessage // JSON objects, as the model is to see them
	AddGenerationPrompt bool              // end with the beginning of the model's turn
	EnableThinking      *bool             // nil: the variable is undefined
	Extra               map[string]any    // more variables; values as encoding/json takes them
	Now                 func() time.Time  // for templates that print the date; nil: time.Now
}

// Message is one turn of a chat. From JSON it takes what transformers takes:
// keys it does not know go to Extra, keys whose value is null are dropped.
type Message struct {
	Role             string
	Content          Content
	ReasoningContent *string           // nil: the key is absent
	ToolCalls        []json.RawMessage // JSON objects; nil: absent
	Name             string            // "": absent
	ToolCallID       string            // "": absent
	Extra            map[string]json.RawMessage
}

// Content is what a message says: a text, or a list of parts such as
// {"type":"image"} and {"type":"text","text":"…"}. The zero value is the
// empty text.
type Content struct {
	Text   string            // where Parts is nil
	Parts  []json.RawMessage // JSON objects
	Absent bool              // no content at all, as beside tool calls
}

// UnmarshalJSON takes a string, a list or null.
func (c *Content) UnmarshalJSON(raw []byte) error {
	*c = Content{}
	raw = bytes.TrimSpace(raw)
	switch {
	case isNull(raw):
		c.Absent = true
		return nil
	case raw[0] == '[':
		if err := json.Unmarshal(raw, &c.Parts); err != nil {
			return err
		}
		if c.Parts == nil {
			c.Parts = []json.RawMessage{}
		}
		return nil
	}
	return json.Unmarshal(raw, &c.Text)
}

// MarshalJSON is the inverse of UnmarshalJSON.
func (c Content) MarshalJSON() ([]byte, error) {
	switch {
	case c.Absent:
		return []byte("null"), nil
	case c.Parts != nil:
		return json.Marshal(c.Parts)
	}
	return json.Marshal(c.Text)
}

// UnmarshalJSON reads a message of a chat as the usual APIs write it.
func (m *Message) UnmarshalJSON(raw []byte) error {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(raw, &keys); err != nil {
		return fmt.Errorf("message: %w", err)
	}
	*m = Message{Content: Content{Absent: true}}
	for key, v := range keys {
		if isNull(v) {
			continue
		}
		var err error
		switch key {
		case "role":
			err = json.Unmarshal(v, &m.Role)
		case "content":
			err = json.Unmarshal(v, &m.Content)
		case "reasoning_content":
			err = json.Unmarshal(v, &m.ReasoningContent)
		case "tool_calls":
			err = json.Unmarshal(v, &m.ToolCalls)
		case "name":
			err = json.Unmarshal(v, &m.Name)
		case "tool_call_id":
			err = json.Unmarshal(v, &m.ToolCallID)
		default:
			if m.Extra == nil {
				m.Extra = make(map[string]json.RawMessage)
			}
			m.Extra[key] = v
		}
		if err != nil {
			return fmt.Errorf("message: %s: %w", key, err)
		}
	}
	return nil
}

// MarshalJSON is the inverse of UnmarshalJSON.
func (m Message) MarshalJSON() ([]byte, error) {
	out := maps.Clone(m.Extra)
	if out == nil {
		out = make(map[string]json.RawMessage)
	}
	put := func(key string, v any, absent bool) error {
		if absent {
			return nil
		}
		raw, err := json.Marshal(v)
		out[key] = raw
		return err
	}
	for _, f := range []struct {
		key    string
		v      any
		absent bool
	}{
		{"role", m.Role, false},
		{"content", m.Content, m.Content.Absent},
		{"reasoning_content", m.ReasoningContent, m.ReasoningContent == nil},
		{"tool_calls", m.ToolCalls, m.ToolCalls == nil},
		{"name", m.Name, m.Name == ""},
		{"tool_call_id", m.ToolCallID, m.ToolCallID == ""},
	} {
		if err := put(f.key, f.v, f.absent); err != nil {
			return nil, err
		}
	}
	return json.Marshal(out)
}

// value makes the dictionary a template sees, and tells its size in bytes.
func (m *Message) value() (v jinja.Value, size int, err error) {
	d := new(jinja.Dict)
	text := func(key, s string, absent bool) {
		if !absent {
			size += len(s)
			d.Set(key, jinja.Text(validUTF8(s)))
		}
	}
	list := func(key string, raws []json.RawMessage) error {
		v, n, err := jsonList(raws)
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		size += n
		d.Set(key, v)
		return nil
	}
	text("role", m.Role, false)
	if m.Content.Parts != nil && !m.Content.Absent {
		if err := list("content", m.Content.Parts); err != nil {
			return v, 0, err
		}
	} else {
		text("content", m.Content.Text, m.Content.Absent)
	}
	if m.ReasoningContent != nil {
		text("reasoning_content", *m.ReasoningContent, false)
	}
	if m.ToolCalls != nil {
		if err := list("tool_calls", m.ToolCalls); err != nil {
			return v, 0, err
		}
	}
	text("name", m.Name, m.Name == "")
	text("tool_call_id", m.ToolCallID, m.ToolCallID == "")
	for _, key := range slices.Sorted(maps.Keys(m.Extra)) {
		v, err := jinja.JSON(m.Extra[key])
		if err != nil {
			return v, 0, fmt.Errorf("%s: %w", key, err)
		}
		size += len(m.Extra[key])
		d.Set(key, v)
	}
	return d.Value(), size, nil
}

// jsonList makes a list of JSON texts, and tells their size in bytes.
func jsonList(raws []json.RawMessage) (v jinja.Value, size int, err error) {
	items := make([]jinja.Value, len(raws))
	for i, raw := range raws {
		if items[i], err = jinja.JSON(raw); err != nil {
			return v, 0, fmt.Errorf("entry %d: %w", i, err)
		}
		size += len(raw)
	}
	return jinja.List(items), size, nil
}

// variables makes what a template sees of the chat, and tells its size in
// bytes.
func (c *Chat) variables() (vars *jinja.Dict, size int, err error) {
	messages := make([]jinja.Value, len(c.Messages))
	for i := range c.Messages {
		v, n, err := c.Messages[i].value()
		if err != nil {
			return nil, 0, fmt.Errorf("message %d: %w", i, err)
		}
		size += n
		messages[i] = v
	}
	vars = new(jinja.Dict)
	vars.Set("messages", jinja.List(messages))
	vars.Set("tools", jinja.Value{})
	vars.Set("documents", jinja.Value{})
	if len(c.Tools) > 0 {
		tools, n, err := jsonList(c.Tools)
		if err != nil {
			return nil, 0, fmt.Errorf("tools: %w", err)
		}
		size += n
		vars.Set("tools", tools)
	}
	vars.Set("add_generation_prompt", jinja.Bool(c.AddGenerationPrompt))
	if c.EnableThinking != nil {
		vars.Set("enable_thinking", jinja.Bool(*c.EnableThinking))
	}
	for name, v := range c.Extra {
		val, err := extra(v)
		if err != nil {
			return nil, 0, fmt.Errorf("variable %q: %w", name, err)
		}
		vars.Set(name, val)
	}
	return vars, size, nil
}

// extra makes a value of what callers put in Chat.Extra.
func extra(v any) (jinja.Value, error) {
	switch v := v.(type) {
	case nil:
		return jinja.Value{}, nil
	case bool:
		return jinja.Bool(v), nil
	case string:
		return jinja.Text(validUTF8(v)), nil
	case int64:
		return jinja.Int(v), nil
	case int:
		return jinja.Int(int64(v)), nil
	case float64: // in JSON a whole one is an int
		return jinja.Float(v), nil
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return jinja.Value{}, err
	}
	return jinja.JSON(raw)
}
