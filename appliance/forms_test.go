// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"windhover/control"
)

// told is what an answer says, however it came.
type told struct {
	Text, Thinking, Finish string
	Calls                  []toldCall
	Logprobs               []toldToken
	Prompt, Completion     int
}

type toldCall struct{ Name, Arguments string }

type toldToken struct {
	Token   string
	Logprob float32
	Bytes   string
	Top     string
}

// toldBytes are those of a token, which MQTT says only where the text is not all.
func toldBytes(token string, raw []byte) string {
	if len(raw) == 0 {
		return token
	}
	return string(raw)
}

// overMQTT asks with a payload of chat.
func overMQTT(t *testing.T, c *control.Client, payload string) (told, *control.Error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waitFor)
	defer cancel()
	r, err := control.DecodeRequest(control.OpChat, "me", []byte(payload))
	var out told
	if err == nil {
		var calls []control.ToolCall
		var a *control.Answer
		a, err = c.Send(ctx, r, func(reply *control.Reply) error {
			if d := reply.Delta; d != nil {
				for _, l := range d.Logprobs {
					top := ""
					for _, o := range l.Top {
						top += fmt.Sprintf("%q %v;", toldBytes(o.Token, o.Bytes), o.Logprob)
					}
					out.Logprobs = append(out.Logprobs, toldToken{l.Token, l.Logprob, toldBytes(l.Token, l.Bytes), top})
				}
				if d.ToolCall != nil {
					calls = append(calls, *d.ToolCall)
				}
			}
			return nil
		})
		if err == nil {
			out.Text, out.Thinking, out.Finish = a.Text, a.Thinking, a.Done.Finish
			out.Prompt, out.Completion = a.Done.Usage.Prompt, a.Done.Usage.Completion
			if r.Stream && !reflect.DeepEqual(calls, a.Done.ToolCalls) {
				t.Errorf("%s: deltas have %+v, done has %+v", payload, calls, a.Done.ToolCalls)
			}
			for i, c := range a.Done.ToolCalls {
				if c.ID == "" || c.Index != i {
					t.Errorf("%s: call %d is %+v", payload, i, c)
				}
				out.Calls = append(out.Calls, toldCall{c.Name, c.Arguments})
			}
			return out, nil
		}
	}
	e := coded(err, control.Internal)
	return out, e
}

// httpChoice is a choice of an answer, whole or of an event.
type httpChoice struct {
	Message, Delta struct {
		Content   string `json:"content"`
		Reasoning string `json:"reasoning_content"`
		ToolCalls []struct {
			Index    *int   `json:"index"`
			ID       string `json:"id"`
			Function toldCall
		} `json:"tool_calls"`
	}
	Logprobs *struct {
		Content []struct {
			Token   string
			Logprob float32
			Bytes   []int
			Top     []struct {
				Token   string
				Logprob float32
				Bytes   []int
			} `json:"top_logprobs"`
		}
	}
	Finish string `json:"finish_reason"`
}

type httpAnswer struct {
	Choices []httpChoice
	Usage   *struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
	}
	Error *struct{ Message, Code string }
}

// add takes a document or an event.
func (o *told) add(t *testing.T, a *httpAnswer) {
	t.Helper()
	if a.Usage != nil {
		o.Prompt, o.Completion = a.Usage.Prompt, a.Usage.Completion
	}
	chars := func(list []int) string {
		var b []byte
		for _, c := range list {
			b = append(b, byte(c))
		}
		return string(b)
	}
	for _, c := range a.Choices {
		o.Text += c.Message.Content + c.Delta.Content
		o.Thinking += c.Message.Reasoning + c.Delta.Reasoning
		if c.Finish != "" {
			o.Finish = c.Finish
		}
		for _, call := range c.Message.ToolCalls {
			o.Calls = append(o.Calls, call.Function)
		}
		for _, call := range c.Delta.ToolCalls { // as the clients put them together: by index
			switch {
			case call.Index == nil || *call.Index > len(o.Calls):
				t.Errorf("a piece of a call without its place: %+v", call)
			case *call.Index == len(o.Calls):
				if call.ID == "" {
					t.Errorf("a call without an id: %+v", call)
				}
				o.Calls = append(o.Calls, call.Function)
			default:
				o.Calls[*call.Index].Arguments += call.Function.Arguments
			}
		}
		if c.Logprobs == nil {
			continue
		}
		for _, l := range c.Logprobs.Content {
			top := ""
			for _, x := range l.Top {
				top += fmt.Sprintf("%q %v;", chars(x.Bytes), x.Logprob)
			}
			o.Logprobs = append(o.Logprobs, toldToken{l.Token, l.Logprob, chars(l.Bytes), top})
		}
	}
}

// overHTTP asks with a body of chat/completions, whole or in events.
func (b *box) overHTTP(t *testing.T, body string, stream bool) (out told, code, message string) {
	t.Helper()
	if stream {
		body = strings.TrimSuffix(body, "}") + `,"stream":true,"stream_options":{"include_usage":true}}`
	}
	_, data := b.ask(t, false, "POST", "/v1/chat/completions", strings.NewReader(body))
	pieces := [][]byte{data}
	if stream && bytes.HasPrefix(data, []byte("data: ")) || bytes.HasPrefix(data, []byte(": ")) {
		pieces = nil
		for line := range bytes.Lines(data) {
			if event, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("data: ")); ok && string(event) != "[DONE]" {
				pieces = append(pieces, event)
			}
		}
	}
	for _, p := range pieces {
		var a httpAnswer
		if err := json.Unmarshal(p, &a); err != nil {
			t.Fatalf("%s: %v", p, err)
		}
		if a.Error != nil {
			return out, a.Error.Code, a.Error.Message
		}
		out.add(t, &a)
	}
	return out, "", ""
}

// The same question is answered alike over MQTT and over HTTP, in pieces or whole, and
// refused alike.
func TestFormsAreAlikeOverBoth_P229(t *testing.T) {
	b := startBox(t, nil)
	b.drop(t, "m.vqf", tinyModel(t, nil))
	b.ready(t, "m")
	b.connected(t)
	c := b.client(t, "me")
	const (
		lamp  = `{"type":"function","function":{"name":"lamp","parameters":{"type":"object","properties":{"on":{"type":"boolean"},"room":{"enum":["k\"<&>","ü\u2028"]}},"required":["on","room"],"additionalProperties":false}}}`
		tools = `"tools":[` + lamp + `,{"type":"function","function":{"name":"now"}}]`
	)
	ugly := `{"anyOf":[`
	for i := range 1025 {
		ugly += fmt.Sprintf(`{"const":%d},`, i)
	}
	ugly = strings.TrimSuffix(ugly, ",") + `]}`
	for _, tt := range []alike{
		{name: "text", both: `"max_tokens":20`},
		{name: "text, sampled", both: `"max_tokens":20,"temperature":2,"seed":3,"top_p":0.9`},
		{name: "stop across tokens", both: `"max_tokens":20,"stop":["y mo"]`},
		{name: "logprobs", both: `"max_tokens":12,"temperature":2,"seed":3,"logprobs":true,"top_logprobs":3`},
		{name: "most logprobs", both: `"max_tokens":2,"logprobs":true,"top_logprobs":20`},
		{name: "thinking", both: `"max_tokens":30,"think":true`},
		{name: "thinking with a budget, in a form", both: `"max_tokens":60,"think":true,"think_budget":2,"logprobs":true`, mqtt: `"json_schema":{"enum":["a","b"]}`, http: `"response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":{"enum":["a","b"]}}}`},
		{name: "schema", both: `"max_tokens":90,"temperature":2,"seed":7,"logprobs":true,"top_logprobs":1`,
			mqtt: `"json_schema":{"type":"object","properties":{"q\"":{"type":"integer"},"😀":{"type":"array","maxItems":2,"items":{"type":"null"}}},"required":["q\"","😀"],"additionalProperties":false}`,
			http: `"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object","properties":{"q\"":{"type":"integer"},"\ud83d\ude00":{"type":"array","maxItems":2,"items":{"type":"null"}}},"required":["q\"","😀"],"additionalProperties":false}}}`},
		{name: "object", both: `"max_tokens":40,"temperature":1,"seed":5`, mqtt: `"json_object":true`, http: `"response_format":{"type":"json_object"}`},
		{name: "cut by its length", both: `"max_tokens":3,"seed":5`, mqtt: `"json_object":true`, http: `"response_format":{"type":"json_object"}`},
		{name: "a number that no float holds", both: `"max_tokens":20`, mqtt: `"json_schema":{"const":[1e400,-0,1.50]}`, http: `"response_format":{"type":"json_schema","json_schema":{"schema":{"const":[1e400,-0,1.50]}}}`},
		{name: "a call", both: `"max_tokens":150,"temperature":2,"seed":4,"tool_choice":"required",` + tools},
		{name: "a call by name", both: `"max_tokens":150,"temperature":1,"seed":4,"logprobs":true,` + tools, mqtt: `"tool_choice":{"name":"lamp"}`, http: `"tool_choice":{"type":"function","function":{"name":"lamp"}}`},
		{name: "one call at most", both: `"max_tokens":150,"temperature":1,"seed":4,"tool_choice":"required","parallel_tool_calls":false,` + tools},
		{name: "no call", both: `"max_tokens":12,"tool_choice":"none",` + tools},
		{name: "text beside tools", both: `"max_tokens":12,"tool_choice":"auto",` + tools},

		{name: "keyword", both: `"max_tokens":9`, mqtt: `"json_schema":{"items":{"not":{}}}`, http: `"response_format":{"type":"json_schema","json_schema":{"schema":{"items":{"not":{}}}}}`,
			code: "bad_request", reason: `at /items: keyword "not" is not supported`},
		{name: "too many alternatives", both: `"max_tokens":9`, mqtt: `"json_schema":` + ugly, http: `"response_format":{"type":"json_schema","json_schema":{"schema":` + ugly + `}}`,
			code: "bad_request", reason: "want 1 to 1024 schemas, got 1025"},
		{name: "a form and tools", both: `"max_tokens":9,` + tools, mqtt: `"json_object":true`, http: `"response_format":{"type":"json_object"}`, code: "bad_request", reason: "do not go with tools"},
		{name: "logprobs beyond", both: `"max_tokens":9,"logprobs":true,"top_logprobs":21`, code: "bad_request", reason: "top_logprobs 21"},
		{name: "another kind of tool", both: `"max_tokens":9,"tools":[{"type":"web_search"}]`, code: "bad_request", reason: `tools[0]: type "web_search"`},
		{name: "a name twice", both: `"max_tokens":9,"tools":[` + lamp + `,` + lamp + `]`, code: "bad_request", reason: `tools[1]: name "lamp"`},
		{name: "no such tool", both: `"max_tokens":9,` + tools, mqtt: `"tool_choice":{"name":"x"}`, http: `"tool_choice":{"type":"function","function":{"name":"x"}}`, code: "bad_request", reason: `"x" is not among the tools`},
	} {
		t.Run(tt.name, func(t *testing.T) { tt.hold(t, b, c) })
	}
}

// alike is a question that is asked over both.
type alike struct {
	name         string
	both         string // fields that both have by the same name
	mqtt, http   string // and those of one
	code, reason string // of what is refused
}

// hold asks it, in pieces and whole; it returns what the answer says.
func (tt *alike) hold(t *testing.T, b *box, c *control.Client) told {
	t.Helper()
	payload := func(own string) string {
		p := `{"messages":[{"role":"user","content":"Who are you?"}],` + tt.both
		if !strings.Contains(tt.both, "temperature") {
			p += `,"temperature":0`
		}
		if own != "" {
			p += "," + own
		}
		return p + "}"
	}
	want, refused := overMQTT(t, c, payload(tt.mqtt))
	if tt.code != "" {
		if refused == nil || refused.Code.Name != tt.code || !strings.Contains(refused.Message, tt.reason) {
			t.Errorf("MQTT: %v, want %s with %q", refused, tt.code, tt.reason)
		}
	} else if refused != nil {
		t.Fatal(refused)
	}
	whole, refused := overMQTT(t, c, strings.TrimSuffix(payload(tt.mqtt), "}")+`,"stream":false}`)
	if (refused == nil) != (tt.code == "") || !reflect.DeepEqual(whole, want) {
		t.Errorf("MQTT whole: %+v, %v; in pieces %+v", whole, refused, want)
	}
	for _, stream := range []bool{false, true} {
		got, code, message := b.overHTTP(t, payload(tt.http), stream)
		if code != tt.code || !strings.Contains(message, tt.reason) {
			t.Errorf("HTTP, stream %v: code %q, %q; want %q with %q", stream, code, message, tt.code, tt.reason)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("HTTP, stream %v: %+v, MQTT %+v", stream, got, want)
		}
	}
	return want
}

// Calls that a client hands back have their arguments as text, as they came; templates
// see the object. What is none stays as it is.
func TestCallsHandedBack(t *testing.T) {
	for in, want := range map[string]string{
		`[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"b\": 1e400, \"a\":[]}"}}]`: `[{"function":{"arguments":{"b":1e400,"a":[]},"name":"f"},"id":"a","type":"function"}]`,
		`[{"index":0,"id":"a","name":"f","arguments":"{}"}]`:                                            `[{"arguments":{},"id":"a","index":0,"name":"f"}]`,
		`[{"function":{"name":"f","arguments":{"a":1}}}]`:                                               `[{"function":{"name":"f","arguments":{"a":1}}}]`,
		`[{"function":{"name":"f","arguments":"no JSON"}}]`:                                             `[{"function":{"name":"f","arguments":"no JSON"}}]`,
		`[{"function":{"name":"f","arguments":""}}]`:                                                    `[{"function":{"name":"f","arguments":""}}]`,
		`[{"function":{"name":"f","arguments":"[1]"}}]`:                                                 `[{"function":{"name":"f","arguments":"[1]"}}]`,
	} {
		m, err := templateMessage(control.Message{Role: "assistant", ToolCalls: json.RawMessage(in)})
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		got, err := json.Marshal(m.ToolCalls)
		if err != nil || string(got) != want {
			t.Errorf("%s becomes %s, %v; want %s", in, got, err, want)
		}
	}
}
