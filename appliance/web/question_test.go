// SPDX-License-Identifier: Apache-2.0

package web

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"windhover/control"
)

const chatPath, plainPath = "/v1/chat/completions", "/v1/completions"

// What a question says arrives in the request of the protocol.
func TestQuestion(t *testing.T) {
	f := func(v float32) *float32 { return &v }
	i := func(v int) *int { return &v }
	u := func(v uint64) *uint64 { return &v }
	base := func(change func(*control.Request)) *control.Request {
		r := control.NewRequest(control.OpChat)
		r.Client, r.MaxTokens, r.Flush, r.FinalText, r.Stream = "http:", defaultMost, 0, false, true
		r.Messages = []control.Message{{Role: "user", Content: control.Content{Text: "hi"}}}
		if change != nil {
			change(r)
		}
		return r
	}
	const hi = `"messages":[{"role":"user","content":"hi"}]`
	tests := []struct {
		name, path, body string
		want             *control.Request
	}{
		{"plain", chatPath, `{"model":"tiny",` + hi + `}`, base(func(r *control.Request) { r.Model = "tiny" })},
		{"default model, unknown fields", chatPath, `{"model":"default","store":true,"metadata":{"a":"b"},` + hi + `}`, base(nil)},
		{"context bounds an answer without a bound", chatPath, `{"model":"small",` + hi + `}`, base(func(r *control.Request) { r.Model, r.MaxTokens = "small", 25 })},
		{"sampling", chatPath, `{"max_tokens":7,"temperature":0.5,"top_p":0.25,"top_k":3,"min_p":0.125,"repeat_penalty":1.5,"seed":-1,"stop":"x","user":"bob",` + hi + `}`,
			base(func(r *control.Request) {
				r.MaxTokens, r.Temperature, r.TopP, r.TopK, r.MinP, r.RepeatPenalty = 7, f(.5), f(.25), i(3), .125, 1.5
				r.Seed, r.Stop, r.Client = u(1<<64-1), []string{"x"}, "http:bob"
			})},
		{"a seed as answers over MQTT tell it, and room made", chatPath, `{"seed":18446744073709551615,"truncate":"middle",` + hi + `}`,
			base(func(r *control.Request) { r.Seed, r.Truncate = u(1<<64-1), control.TruncateMiddle })},
		{"a user that is no name of a client", chatPath, `{"user":"a b/c",` + hi + `}`, base(nil)},
		{"the newer bound, a list of stops", chatPath, `{"max_completion_tokens":9,"max_tokens":7,"stop":["a","b"],` + hi + `}`,
			base(func(r *control.Request) { r.MaxTokens, r.Stop = 9, []string{"a", "b"} })},
		{"nothing said", chatPath, `{"stop":null,"n":1,"seed":null,"tools":null,"tool_choice":null,"response_format":{"type":"text"},"logit_bias":{},"modalities":["text"],` + hi + `}`, base(nil)},
		{"thinking", chatPath, `{"think_budget":5,"chat_template_kwargs":{"enable_thinking":true},` + hi + `}`,
			base(func(r *control.Request) { r.Think, r.ThinkBudget = true, 5 })},
		{"tools that may not be used", chatPath, `{"tools":[{"type":"function"}],"tool_choice":"none",` + hi + `}`, base(nil)},
		{"a tool that has to be called", chatPath, `{"tools":[{"type":"function"}],"tool_choice":{"type":"function","function":{"name":"f"}},` + hi + `}`,
			base(func(r *control.Request) {
				r.Tools, r.ToolChoice, r.ToolName = []json.RawMessage{[]byte(`{"type":"function"}`)}, control.ToolsNamed, "f"
			})},
		{"any tool", chatPath, `{"tools":[{}],"tool_choice":"required",` + hi + `}`,
			base(func(r *control.Request) {
				r.Tools, r.ToolChoice = []json.RawMessage{[]byte(`{}`)}, control.ToolsRequired
			})},
		{"a schema", chatPath, `{"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"}}},` + hi + `}`,
			base(func(r *control.Request) { r.Schema = []byte(`{"type":"object"}`) })},
		{"any object", chatPath, `{"response_format":{"type":"json_object"},` + hi + `}`, base(func(r *control.Request) { r.JSONObject = true })},
		{"logprobs", chatPath, `{"logprobs":true,"top_logprobs":2,` + hi + `}`, base(func(r *control.Request) { r.Logprobs, r.TopLogprobs = true, 2 })},
		{"turns", chatPath, `{"messages":[{"role":"developer","content":"be short"},{"role":"assistant","content":null,"tool_calls":[{"id":"1"}]},{"role":"tool","tool_call_id":"1","content":[{"type":"text","text":"42"}]}]}`,
			base(func(r *control.Request) {
				r.Messages = []control.Message{
					{Role: "system", Content: control.Content{Text: "be short"}},
					{Role: "assistant", ToolCalls: []byte(`[{"id":"1"}]`)},
					{Role: "tool", ToolCallID: "1", Content: control.Content{Parts: []control.Part{{Type: "text", Text: "42"}}}},
				}
			})},
		{"a picture", chatPath, `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAEC"}},{"type":"text","text":"what?"}]}]}`,
			base(func(r *control.Request) {
				r.Messages[0].Content = control.Content{Parts: []control.Part{
					{Type: "image", Picture: control.Picture{Data: []byte{0, 1, 2}}}, {Type: "text", Text: "what?"}}}
			})},
		{"logprobs of a text", plainPath, `{"prompt":"once","max_tokens":4,"logprobs":3}`,
			base(func(r *control.Request) {
				r.Op, r.Messages, r.Prompt, r.MaxTokens, r.Logprobs, r.TopLogprobs = control.OpGenerate, nil, "once", 4, true, 3
			})},
		{"plain text", plainPath, `{"prompt":"once","max_tokens":4}`,
			base(func(r *control.Request) {
				r.Op, r.Messages, r.Prompt, r.MaxTokens = control.OpGenerate, nil, "once", 4
			})},
		{"a list of one", plainPath, `{"prompt":["once"],"max_tokens":4,"best_of":1,"echo":false}`,
			base(func(r *control.Request) {
				r.Op, r.Messages, r.Prompt, r.MaxTokens = control.OpGenerate, nil, "once", 4
			})},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := &fakeBox{}
			if w := do(New(b, Options{Client: "http"}), "POST", tt.path, tt.body); w.Code != 200 {
				t.Fatalf("status %d: %s", w.Code, w.Body)
			}
			tt.want.Received = fmt.Sprintf("%x", sha256.Sum256([]byte(tt.body)))
			if got := b.last(); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got  %+v\nwant %+v", got, tt.want)
			}
		})
	}
}

// What is not done here is refused by its name, before anything is asked of the box.
func TestQuestionRefused_P175(t *testing.T) {
	const hi = `"messages":[{"role":"user","content":"hi"}]`
	picture := func(url string) string {
		return `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"` + url + `"}}]}]}`
	}
	const url = "messages[0].content[0].image_url.url"
	tests := []struct {
		name, path, body string
		status           int
		code, param      string
	}{
		{"no JSON", chatPath, `{"messages":`, 400, "bad_request", ""},
		{"nothing", chatPath, ``, 400, "bad_request", ""},
		{"an array", chatPath, `[]`, 400, "bad_request", ""},
		{"bad UTF-8", chatPath, "{\"model\":\"\xff\"}", 400, "bad_request", ""},
		{"wrong type", chatPath, `{"max_tokens":"many",` + hi + `}`, 400, "bad_request", "max_tokens"},
		{"half a token", chatPath, `{"max_tokens":1.5,` + hi + `}`, 400, "bad_request", "max_tokens"},
		{"no number of float32", chatPath, `{"temperature":1e400,` + hi + `}`, 400, "bad_request", "temperature"},
		{"half a seed", chatPath, `{"seed":1.5,` + hi + `}`, 400, "bad_request", "seed"},
		{"a seed of 65 bits", chatPath, `{"seed":18446744073709551616,` + hi + `}`, 400, "bad_request", "seed"},
		{"wrong stop", chatPath, `{"stop":7,` + hi + `}`, 400, "bad_request", "stop"},
		{"two answers", chatPath, `{"n":2,` + hi + `}`, 400, "unsupported", "n"},
		{"presence_penalty", chatPath, `{"presence_penalty":1,` + hi + `}`, 400, "unsupported", "presence_penalty"},
		{"frequency_penalty", chatPath, `{"frequency_penalty":1,` + hi + `}`, 400, "unsupported", "frequency_penalty"},
		{"logit_bias", chatPath, `{"logit_bias":{"5":1},` + hi + `}`, 400, "unsupported", "logit_bias"},
		{"functions", chatPath, `{"functions":[{}],` + hi + `}`, 400, "unsupported", "functions"},
		{"the function to call", chatPath, `{"function_call":"auto",` + hi + `}`, 400, "unsupported", "function_call"},
		{"a schema of null", chatPath, `{"response_format":{"type":"json_schema","json_schema":{"schema":null}},` + hi + `}`, 400, "bad_request", "response_format.json_schema.schema"},
		{"a schema where llama.cpp has it", chatPath, `{"json_schema":{"type":"object"},` + hi + `}`, 400, "unsupported", "json_schema"},
		{"a grammar", plainPath, `{"grammar":"root ::= x","prompt":"a"}`, 400, "unsupported", "grammar"},
		{"a format where ollama has it", chatPath, `{"format":"json",` + hi + `}`, 400, "unsupported", "format"},
		{"a schema where vllm has it", chatPath, `{"guided_json":{},` + hi + `}`, 400, "unsupported", "guided_json"},
		{"a choice likewise", chatPath, `{"guided_choice":["a"],` + hi + `}`, 400, "unsupported", "guided_choice"},
		{"a pattern likewise", chatPath, `{"guided_regex":"a","grammar":null,` + hi + `}`, 400, "unsupported", "guided_regex"},
		{"a grammar likewise", chatPath, `{"guided_grammar":"a",` + hi + `}`, 400, "unsupported", "guided_grammar"},
		{"any of these, newer", chatPath, `{"structured_outputs":{"json":{}},` + hi + `}`, 400, "unsupported", "structured_outputs"},
		{"speech", chatPath, `{"modalities":["text","audio"],` + hi + `}`, 400, "unsupported", "modalities"},
		{"sound", chatPath, `{"messages":[{"role":"user","content":[{"type":"input_audio"}]}]}`, 400, "unsupported", "messages[0].content[0].type"},
		{"a picture elsewhere", chatPath, picture("http://127.0.0.1/secret.png"), 400, "bad_request", url},
		{"a picture on the disk", chatPath, picture("file:///etc/passwd"), 400, "bad_request", url},
		{"no picture", chatPath, picture("data:text/html;base64,AAAA"), 400, "bad_request", url},
		{"no base64", chatPath, picture("data:image/png;base64,%%%%"), 400, "bad_request", url},
		{"not said to be base64", chatPath, picture("data:image/png,AAAA"), 400, "bad_request", url},
		{"empty picture", chatPath, picture("data:image/png;base64,"), 400, "bad_request", url},
		{"top without logprobs", chatPath, `{"top_logprobs":2,` + hi + `}`, 400, "bad_request", "top_logprobs"},
		{"another format", chatPath, `{"response_format":{"type":"grammar"},` + hi + `}`, 400, "unsupported", "response_format.type"},
		{"a format without its schema", chatPath, `{"response_format":{"type":"json_schema"},` + hi + `}`, 400, "bad_request", "response_format.json_schema.schema"},
		{"another choice", chatPath, `{"tool_choice":"maybe",` + hi + `}`, 400, "bad_request", "tool_choice"},
		{"suffix", plainPath, `{"prompt":"a","suffix":"b"}`, 400, "unsupported", "suffix"},
		{"echo", plainPath, `{"prompt":"a","echo":true}`, 400, "unsupported", "echo"},
		{"best_of", plainPath, `{"prompt":"a","best_of":3}`, 400, "unsupported", "best_of"},
		{"two prompts", plainPath, `{"prompt":["a","b"]}`, 400, "unsupported", "prompt"},
		{"token ids", plainPath, `{"prompt":[1,2]}`, 400, "bad_request", "prompt"},
		{"no prompt", plainPath, `{}`, 400, "bad_request", "prompt"},
		{"another route", "/v1/audio/speech", `{}`, 404, "unknown_url", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := &fakeBox{}
			w := do(New(b, Options{}), "POST", tt.path, tt.body)
			e := errorOf(t, w)
			param := ""
			if e.Param != nil {
				param = *e.Param
			}
			if w.Code != tt.status || e.Code != tt.code || param != tt.param || e.Type != "invalid_request_error" {
				t.Errorf("got %d %q of %q (%s): %s", w.Code, e.Code, param, e.Type, e.Message)
			}
			if strings.Contains(e.Message, "secret") || b.last() != nil {
				t.Errorf("said %q, asked %v", e.Message, b.last())
			}
		})
	}
}

// A known path says by which methods it is asked, in the shape of every error.
func TestMethods(t *testing.T) {
	h := New(&fakeBox{}, Options{})
	for _, tt := range []struct{ method, path, allow string }{
		{"POST", "/v1/models", "GET, HEAD"},
		{"DELETE", "/v1/models/tiny", "GET, HEAD"},
		{"GET", chatPath, "POST"},
		{"OPTIONS", plainPath, "POST"},
		{"PUT", "/v1/embeddings", "POST"},
		{"GET", "/v1/drop/m.vqf", "PUT"},
	} {
		w := do(h, tt.method, tt.path, "")
		e := errorOf(t, w)
		if w.Code != 405 || w.Header().Get("Allow") != tt.allow || e.Code != "method_not_supported" || !strings.Contains(e.Message, tt.allow) {
			t.Errorf("%s %s: got %d, Allow %q, %+v", tt.method, tt.path, w.Code, w.Header().Get("Allow"), e)
		}
	}
	for _, path := range []string{"/v1/", "/v1/nothing", "/v1/models/a/b", "/v1/drop/"} {
		w := do(h, "PATCH", path, "")
		if e := errorOf(t, w); w.Code != 404 || e.Code != "unknown_url" || w.Header().Get("Allow") != "" {
			t.Errorf("%s: got %d, Allow %q, %+v", path, w.Code, w.Header().Get("Allow"), e)
		}
	}
}

func FuzzQuestion(f *testing.F) {
	f.Add(true, []byte(`{"model":"tiny","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAEC"}}]}],"stop":["a"],"tool_choice":"none"}`))
	f.Add(false, []byte(`{"prompt":["a"],"seed":-1,"n":1}`))
	f.Fuzz(func(t *testing.T, chat bool, body []byte) {
		path := plainPath
		if chat {
			path = chatPath
		}
		w := do(New(&fakeBox{}, Options{}), "POST", path, string(body))
		if w.Code != 200 {
			errorOf(t, w)
		}
	})
}

// A question that is refused here, and so is never asked, is handed over for a record.
func TestRefusedHere(t *testing.T) {
	var got []control.Audited
	h := New(&fakeBox{}, Options{Client: "http", Refused: func(a control.Audited) { got = append(got, a) }})
	body := `{"functions":[{}],"messages":[{"role":"user","content":"hi"}]}`
	do(h, "POST", chatPath, body)
	do(h, "POST", plainPath, `{`)
	do(h, "POST", plainPath, `{"prompt":"once"}`)
	want := []control.Audited{
		{Op: control.OpChat, Client: "http:", Local: true, Request: fmt.Sprintf("%x", sha256.Sum256([]byte(body))), Code: "unsupported"},
		{Op: control.OpGenerate, Client: "http:", Local: true, Request: fmt.Sprintf("%x", sha256.Sum256([]byte(`{`))), Code: "bad_request"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}
