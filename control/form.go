// SPDX-License-Identifier: Apache-2.0

package control

import (
	"encoding/json"
	"fmt"
)

const (
	maxTools    = 128
	maxToolName = 64
)

// fillForm copies the fields that say what an answer has to look like.
func (r *Request) fillForm(w *wireRequest) error {
	r.Schema, r.JSONObject = w.Schema, w.JSONObject
	r.Logprobs, r.TopLogprobs = w.Logprobs, w.TopLogprobs
	r.OneCall = w.ParallelCalls != nil && !*w.ParallelCalls
	if string(r.Schema) == "null" {
		r.Schema = nil
	}
	return r.readToolChoice(w.ToolChoice)
}

// readToolChoice reads "auto", "none", "required" or {"name":…}; also the form of
// OpenAI, {"type":"function","function":{"name":…}}.
func (r *Request) readToolChoice(raw json.RawMessage) error {
	const want = `tool_choice: "auto", "none", "required" or {"name":"…"}`
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	if raw[0] == '"' {
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			return Errorf(BadRequest, want)
		}
		switch s {
		case "auto":
		case ToolsNone, ToolsRequired:
			r.ToolChoice = s
		default:
			return Errorf(BadRequest, "tool_choice %.40q: %s", s, want[len("tool_choice: "):])
		}
		return nil
	}
	var named struct {
		Name     string `json:"name"`
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	if err := json.Unmarshal(raw, &named); err != nil {
		return Errorf(BadRequest, want)
	}
	if r.ToolName = named.Name; r.ToolName == "" {
		r.ToolName = named.Function.Name
	}
	if r.ToolName == "" {
		return Errorf(BadRequest, want)
	}
	r.ToolChoice = ToolsNamed
	return nil
}

// toolChoice is the wire form.
func (r *Request) toolChoice() json.RawMessage {
	var v any = r.ToolChoice
	switch r.ToolChoice {
	case "":
		return nil
	case ToolsNamed:
		v = map[string]string{"name": r.ToolName}
	}
	raw, err := encode(v)
	if err != nil {
		return nil // strings always encode
	}
	return raw
}

// CheckForm holds the fields that say what an answer has to look like against each other. What a schema says is looked at
// where the answer is made.
func (r *Request) CheckForm() *Error {
	call := r.ToolChoice == ToolsRequired || r.ToolChoice == ToolsNamed
	switch {
	case r.TopLogprobs < 0 || r.TopLogprobs > MaxTopLogprobs:
		return Errorf(BadRequest, "top_logprobs %d: 0 to %d", r.TopLogprobs, MaxTopLogprobs)
	case r.TopLogprobs > 0 && !r.Logprobs:
		return Errorf(BadRequest, "top_logprobs without logprobs")
	case r.Schema != nil && r.JSONObject:
		return Errorf(BadRequest, "json_schema and json_object: one of them")
	case len(r.Tools) > maxTools:
		return Errorf(BadRequest, "%d tools, at most %d", len(r.Tools), maxTools)
	case (len(r.Tools) > 0 || call) && r.Op == OpGenerate:
		return Errorf(BadRequest, "tools belong to chat")
	case call && len(r.Tools) == 0:
		return Errorf(BadRequest, "tool_choice wants a call, and there are no tools")
	case len(r.Tools) > 0 && r.ToolChoice != ToolsNone && (r.Schema != nil || r.JSONObject):
		return Errorf(BadRequest, "json_schema and json_object do not go with tools: leave out one of them, or say tool_choice \"none\"")
	}
	switch said := string(r.Schema); {
	case r.Schema == nil, said[0] == '{', said == "true":
	case said == "false":
		return Errorf(BadRequest, "json_schema false: no value satisfies it")
	default:
		return Errorf(BadRequest, "json_schema is no schema: want an object, or true for any value")
	}
	names := make(map[string]bool, len(r.Tools))
	for i, raw := range r.Tools {
		name, err := toolName(raw)
		if err != nil {
			return Errorf(BadRequest, "tools[%d]: %s", i, err)
		}
		if names[name] {
			return Errorf(BadRequest, "tools[%d]: name %.80q is that of another before it", i, name)
		}
		names[name] = true
	}
	if r.ToolChoice == ToolsNamed && !names[r.ToolName] {
		return Errorf(BadRequest, "tool_choice: %.80q is not among the tools", r.ToolName)
	}
	return nil
}

// toolName is the name of a declared tool: {"type":"function","function":{"name":…}},
// or what function holds alone.
func toolName(raw json.RawMessage) (string, error) {
	var t struct {
		Type     string          `json:"type"`
		Name     string          `json:"name"`
		Strict   json.RawMessage `json:"strict"`
		Function *struct {
			Name   string          `json:"name"`
			Strict json.RawMessage `json:"strict"`
		} `json:"function"`
	}
	if err := json.Unmarshal(raw, &t); err != nil {
		return "", fmt.Errorf("want {\"type\":\"function\",\"function\":{\"name\":…,\"parameters\":…}}")
	}
	if t.Type != "" && t.Type != "function" {
		return "", fmt.Errorf("type %.40q: function is the only one", t.Type)
	}
	strict := []json.RawMessage{t.Strict}
	if t.Function != nil {
		t.Name, strict = t.Function.Name, append(strict, t.Function.Strict)
	}
	for _, s := range strict {
		if said := string(s); said != "" && said != "null" && said != "true" && said != "false" {
			return "", fmt.Errorf("strict %.40s: true or false", said)
		}
	}
	if t.Name == "" || len(t.Name) > maxToolName {
		return "", fmt.Errorf("name %.80q: 1 to %d bytes", t.Name, maxToolName)
	}
	return t.Name, nil
}
