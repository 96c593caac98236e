// SPDX-License-Identifier: Apache-2.0

package web

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"windhover/control"
)

// chatQuestion is the body of /v1/chat/completions.
type chatQuestion struct {
	common
	Messages            []message         `json:"messages"`
	MaxCompletionTokens *int              `json:"max_completion_tokens"`
	Tools               []json.RawMessage `json:"tools"`
	ToolChoice          json.RawMessage   `json:"tool_choice"`
	ParallelCalls       *bool             `json:"parallel_tool_calls"`
	FunctionCall        json.RawMessage   `json:"function_call"`
	ResponseFormat      *struct {
		Type   string `json:"type"`
		Schema struct {
			Schema json.RawMessage `json:"schema"`
		} `json:"json_schema"`
	} `json:"response_format"`
	Logprobs     bool              `json:"logprobs"`
	TopLogprobs  int               `json:"top_logprobs"`
	Functions    []json.RawMessage `json:"functions"`
	Modalities   []string          `json:"modalities"`
	ThinkBudget  int               `json:"think_budget"` // ours
	Think        bool              `json:"think"`        // ours
	TemplateArgs struct {
		EnableThinking *bool `json:"enable_thinking"`
	} `json:"chat_template_kwargs"` // as other servers have it
}

// message is a turn as OpenAI writes it.
type message struct {
	Role       string          `json:"role"`
	Content    content         `json:"content"`
	Reasoning  string          `json:"reasoning_content"`
	ToolCalls  json.RawMessage `json:"tool_calls"`
	ToolCallID string          `json:"tool_call_id"`
	Name       string          `json:"name"`
}

// content is a string, null, or a list of parts.
type content struct {
	text  string
	parts []part
}

// part is a piece of a turn.
type part struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Refusal  string `json:"refusal"`
	ImageURL struct {
		URL string `json:"url"`
	} `json:"image_url"`
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *content) UnmarshalJSON(p []byte) error {
	*c = content{}
	if len(p) > 0 && p[0] == '[' {
		c.parts = []part{}
		return json.Unmarshal(p, &c.parts)
	}
	return json.Unmarshal(p, &c.text)
}

// request checks the question and turns it into one of the protocol.
func (q *chatQuestion) request(h *handler) (*control.Request, error) {
	switch {
	case q.TopLogprobs != 0 && !q.Logprobs:
		return nil, bad("top_logprobs", "top_logprobs needs logprobs")
	case len(q.Functions) > 0:
		return nil, unsupported("functions", "functions is not supported: use tools")
	case given(q.FunctionCall):
		return nil, unsupported("function_call", "function_call is not supported: use tool_choice")
	case len(q.Modalities) > 1 || len(q.Modalities) == 1 && q.Modalities[0] != "text":
		return nil, unsupported("modalities", "this box answers with text")
	case q.MaxCompletionTokens != nil:
		q.MaxTokens = q.MaxCompletionTokens
	}
	r, err := h.fill(control.OpChat, &q.common)
	if err != nil {
		return nil, err
	}
	if err := q.tools(r); err != nil {
		return nil, err
	}
	if err := q.format(r); err != nil {
		return nil, err
	}
	r.Logprobs, r.TopLogprobs = q.Logprobs, q.TopLogprobs
	r.Think, r.ThinkBudget = q.Think, q.ThinkBudget
	if q.TemplateArgs.EnableThinking != nil {
		r.Think = *q.TemplateArgs.EnableThinking
	}
	r.Messages = make([]control.Message, len(q.Messages))
	for i := range q.Messages {
		if r.Messages[i], err = q.Messages[i].turn(i); err != nil {
			return nil, err
		}
		q.Messages[i] = message{} // a picture is held once, and not as text too
	}
	return r, nil
}

// tools puts in those that the model is told of, and which of them it has to call.
func (q *chatQuestion) tools(r *control.Request) error {
	var named struct {
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	r.Tools, r.OneCall = q.Tools, q.ParallelCalls != nil && !*q.ParallelCalls
	choice := "auto"
	switch {
	case len(q.ToolChoice) == 0 || string(q.ToolChoice) == "null" || json.Unmarshal(q.ToolChoice, &choice) == nil:
	case json.Unmarshal(q.ToolChoice, &named) == nil && named.Function.Name != "":
		r.ToolChoice, r.ToolName = "function", named.Function.Name
		return nil
	default:
		return bad("tool_choice", "tool_choice: auto, none, required or a function by its name")
	}
	switch choice {
	case "auto":
	case "none":
		r.Tools = nil
	case "required":
		r.ToolChoice = choice
	default:
		return bad("tool_choice", "tool_choice %.40q: auto, none, required or a function by its name", choice)
	}
	return nil
}

// format puts in what form the answer has to have.
func (q *chatQuestion) format(r *control.Request) error {
	if q.ResponseFormat == nil {
		return nil
	}
	switch q.ResponseFormat.Type {
	case "", "text":
	case "json_object":
		r.JSONObject = true
	case "json_schema":
		if r.Schema = q.ResponseFormat.Schema.Schema; !given(r.Schema) {
			return bad("response_format.json_schema.schema", "response_format of type json_schema needs a schema")
		}
	default:
		return unsupported("response_format.type", "response_format %.40q: text, json_object or json_schema", q.ResponseFormat.Type)
	}
	return nil
}

// turn turns a message into one of the protocol.
func (m *message) turn(i int) (control.Message, error) {
	out := control.Message{Role: m.Role, Reasoning: m.Reasoning, ToolCalls: m.ToolCalls, ToolCallID: m.ToolCallID, Name: m.Name}
	if m.Role == "developer" { // OpenAI's newer name of it
		out.Role = "system"
	}
	if string(out.ToolCalls) == "null" {
		out.ToolCalls = nil
	}
	out.Content.Text = m.Content.text
	if m.Content.parts == nil {
		return out, nil
	}
	out.Content.Parts = make([]control.Part, len(m.Content.parts))
	for j, p := range m.Content.parts {
		at := fmt.Sprintf("messages[%d].content[%d]", i, j)
		switch p.Type {
		case "text":
			out.Content.Parts[j] = control.Part{Type: "text", Text: p.Text}
		case "refusal":
			out.Content.Parts[j] = control.Part{Type: "text", Text: p.Refusal}
		case "image_url":
			data, err := dataURL(p.ImageURL.URL)
			if err != nil {
				return out, bad(at+".image_url.url", "%s: %v", at, err)
			}
			out.Content.Parts[j] = control.Part{Type: "image", Picture: control.Picture{Data: data}}
		default:
			return out, unsupported(at+".type", "%s: type %.40q: text or image_url", at, p.Type)
		}
	}
	return out, nil
}

// dataURL returns the bytes of a picture that stands in its address. What it is, the
// bytes say: the media type is not looked at further than that it is a picture's. No
// other address is followed, for it could lead anywhere in the network of the box.
func dataURL(url string) ([]byte, error) {
	rest, ok := strings.CutPrefix(url, "data:")
	if !ok {
		return nil, fmt.Errorf("a picture has to stand in the request as a data URL (data:image/jpeg;base64,…): this box fetches nothing")
	}
	kind, text, ok := strings.Cut(rest, ",")
	kind, based := strings.CutSuffix(kind, ";base64")
	if !ok || !based || kind != "" && !strings.HasPrefix(kind, "image/") {
		return nil, fmt.Errorf("a data URL of a picture begins with data:image/TYPE;base64,")
	}
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		data, err = base64.RawStdEncoding.DecodeString(text)
	}
	if err != nil {
		return nil, fmt.Errorf("the data of a picture is not base64")
	}
	if len(data) == 0 {
		return nil, fmt.Errorf("the picture is empty")
	}
	return data, nil
}

// plainQuestion is the body of /v1/completions.
type plainQuestion struct {
	common
	Prompt   json.RawMessage `json:"prompt"`
	Suffix   string          `json:"suffix"`
	Echo     bool            `json:"echo"`
	BestOf   *int            `json:"best_of"`
	Logprobs *int            `json:"logprobs"`
}

// request checks the question and turns it into one of the protocol.
func (q *plainQuestion) request(h *handler) (*control.Request, error) {
	switch {
	case q.Suffix != "":
		return nil, unsupported("suffix", "suffix is not supported: models here continue a text at its end")
	case q.Echo:
		return nil, unsupported("echo", "echo is not supported: the prompt is yours already")
	case q.BestOf != nil && *q.BestOf != 1:
		return nil, unsupported("best_of", "best_of %d: this box gives one answer to a question", *q.BestOf)
	}
	r, err := h.fill(control.OpGenerate, &q.common)
	if err != nil {
		return nil, err
	}
	if q.Logprobs != nil {
		r.Logprobs, r.TopLogprobs = true, *q.Logprobs
	}
	if json.Unmarshal(q.Prompt, &r.Prompt) == nil {
		return r, nil
	}
	var list []string
	if json.Unmarshal(q.Prompt, &list) != nil {
		return nil, bad("prompt", "prompt is a string: token ids are not taken")
	}
	if len(list) != 1 {
		return nil, unsupported("prompt", "%d prompts: ask for one at a time", len(list))
	}
	r.Prompt = list[0]
	return r, nil
}
