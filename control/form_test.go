// SPDX-License-Identifier: Apache-2.0

package control

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestToolChoice(t *testing.T) {
	for raw, want := range map[string][2]string{
		`"auto"`:             {"", ""},
		`null`:               {"", ""},
		`"none"`:             {ToolsNone, ""},
		`"required"`:         {ToolsRequired, ""},
		`{"name":"weather"}`: {ToolsNamed, "weather"},
		`{"type":"function","function":{"name":"weather"}}`: {ToolsNamed, "weather"},
	} {
		r, err := DecodeRequest(OpChat, "me", []byte(`{"prompt":"x","tools":[{"type":"function","function":{"name":"weather"}}],"tool_choice":`+raw+`}`))
		if err != nil {
			t.Errorf("%s: %v", raw, err)
			continue
		}
		if r.ToolChoice != want[0] || r.ToolName != want[1] {
			t.Errorf("%s: got %q, %q, want %q", raw, r.ToolChoice, r.ToolName, want)
		}
		p, err := r.Encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := DecodeRequest(OpChat, "me", p)
		if err != nil || again.ToolChoice != r.ToolChoice || again.ToolName != r.ToolName {
			t.Errorf("%s became %s, %v", raw, p, err)
		}
	}
}

func TestFormFieldsAreChecked(t *testing.T) {
	for _, tt := range []struct{ op, fields, problem string }{
		{OpChat, `"json_schema":[]`, "json_schema"},
		{OpChat, `"json_schema":"x"`, "json_schema is no schema"},
		{OpChat, `"json_schema":false`, "no value satisfies it"},
		{OpChat, `"json_schema":{},"json_object":true`, "one of them"},
		{OpChat, `"json_object":1`, "json_object"},
		{OpChat, `"json_schema":{},"tools":[{"name":"f"}]`, "do not go with tools"},
		{OpChat, `"tools":[{}]`, "tools[0]: name"},
		{OpChat, `"tools":[{"name":"f"},7]`, "tools[1]"},
		{OpChat, `"tools":[{"name":"f"},{"type":"function","function":{"name":"f"}}]`, `tools[1]: name "f" is that of another`},
		{OpChat, `"tools":[{"type":"web_search","name":"f"}]`, `tools[0]: type "web_search"`},
		{OpChat, `"tools":[{"name":"` + strings.Repeat("f", 65) + `"}]`, "tools[0]: name"},
		{OpChat, `"tools":[` + strings.Repeat(`{"name":"f"},`, 128) + `{"name":"f"}]`, "129 tools"},
		{OpGenerate, `"tools":[{"name":"f"}]`, "belong to chat"},
		{OpChat, `"tool_choice":"required"`, "no tools"},
		{OpChat, `"tools":[{"name":"f"}],"tool_choice":"maybe"`, `"maybe"`},
		{OpChat, `"tools":[{"name":"f"}],"tool_choice":{"name":"g"}`, `"g" is not among`},
		{OpChat, `"tools":[{"name":"f"}],"tool_choice":{}`, "tool_choice"},
		{OpChat, `"tools":[{"name":"f","strict":1}]`, "tools[0]: strict 1: true or false"},
		{OpChat, `"tools":[{"name":"g"},{"function":{"name":"f","strict":"yes"}}]`, `tools[1]: strict "yes": true or false`},
		{OpChat, `"tools":[{"name":"f"}],"tool_choice":[]`, "tool_choice"},
		{OpChat, `"top_logprobs":2`, "without logprobs"},
		{OpChat, `"logprobs":true,"top_logprobs":21`, "top_logprobs 21"},
		{OpChat, `"logprobs":true,"top_logprobs":-1`, "top_logprobs -1"},
		{OpChat, `"logprobs":3`, "logprobs"},
	} {
		_, err := DecodeRequest(tt.op, "me", []byte(`{"prompt":"x",`+tt.fields+`}`))
		var e *Error
		if !errors.As(err, &e) || e.Code != BadRequest || !strings.Contains(e.Message, tt.problem) {
			t.Errorf("%s %s: got %v, want %q", tt.op, tt.fields, err, tt.problem)
		}
	}
}

// calls puts the pieces of calls together again.
func calls(t *testing.T, pieces []string) (calls []ToolCall, logs []TokenLogprob, done *Done) {
	t.Helper()
	for _, p := range pieces {
		r, err := DecodeReply([]byte(p))
		if err != nil {
			t.Fatal(err)
		}
		if r.Done != nil {
			done = r.Done
		}
		if r.Delta == nil {
			continue
		}
		if len(p) > maxDeltaBytes {
			t.Errorf("a delta of %d bytes", len(p))
		}
		logs = append(logs, r.Delta.Logprobs...)
		if c := r.Delta.ToolCall; c != nil {
			if c.Index == len(calls) && c.ID != "" && c.Name != "" {
				calls = append(calls, ToolCall{Index: c.Index, ID: c.ID, Name: c.Name})
			} else if c.Index != len(calls)-1 || c.ID != "" || c.Name != "" {
				t.Errorf("piece %+v behind %d calls", c, len(calls))
				continue
			}
			calls[c.Index].Arguments += c.Arguments
		}
	}
	return calls, logs, done
}

// Calls go out whole in done and in pieces in deltas, never larger than a delta may be.
func TestToolCallsGoOut_P106(t *testing.T) {
	for _, size := range []int{2, 5000, 60000} {
		for _, streamed := range []bool{true, false} {
			want := []ToolCall{
				{Index: 0, ID: strings.Repeat("i", 64) + "-0", Name: "f", Arguments: `{"s":"` + strings.Repeat(`\"`, size/2) + `"}`},
				{Index: 1, ID: "x-1", Name: "g", Arguments: "{}"},
			}
			h := newHand(t)
			s := h.stream(strings.Repeat("i", 64), func(r *Request) { r.Stream = streamed })
			_ = s.push(Event{Text: "Let me see.", Tokens: 3})
			_ = s.push(Event{ToolCalls: want, Tokens: 20})
			s.done(Done{Finish: FinishCalls, BadToolCall: true}, true)
			got, _, done := calls(t, h.drain(true))
			if done == nil || !done.BadToolCall || done.Finish != FinishCalls {
				t.Fatalf("done is %+v", done)
			}
			if fits := size < 10000; fits == done.TextOmitted || fits && !sameCalls(done.ToolCalls, want) {
				t.Errorf("%d bytes: done has %d calls, omitted %v", size, len(done.ToolCalls), done.TextOmitted)
			}
			if (streamed || done.TextOmitted) != sameCalls(got, want) {
				t.Errorf("%d bytes, streamed %v: deltas gave %d calls", size, streamed, len(got))
			}
		}
	}
}

func sameCalls(a, b []ToolCall) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// Logprobs go out in deltas of their own, also where no text does, and fit in them.
func TestLogprobsGoOut_P108(t *testing.T) {
	wide := TokenLogprob{Token: strings.Repeat("\x01", 120), ID: 7, Logprob: -1.5}
	for range MaxTopLogprobs {
		wide.Top = append(wide.Top, TokenLogprob{Token: strings.Repeat("\x02", 120), ID: 8, Logprob: -2.25})
	}
	for _, streamed := range []bool{true, false} {
		h := newHand(t)
		s := h.stream("a", func(r *Request) { r.Stream = streamed })
		for i := range 300 {
			_ = s.push(Event{Text: "w ", Tokens: 1, Logprobs: []TokenLogprob{{Token: "w ", ID: int32(i), Logprob: -0.125, Top: []TokenLogprob{{Token: "w ", ID: int32(i), Logprob: -0.125}}}}})
		}
		_ = s.push(Event{Logprobs: []TokenLogprob{wide, {Token: "\uFFFD", Bytes: []byte{0xe4}, ID: 9, Logprob: -3}}})
		s.done(Done{Finish: FinishStop}, true)
		_, logs, done := calls(t, h.drain(true))
		if done == nil || done.Text == nil || *done.Text != strings.Repeat("w ", 300) {
			t.Fatalf("streamed %v: done is %+v", streamed, done)
		}
		if len(logs) != 302 {
			t.Fatalf("streamed %v: %d logprobs, want 302", streamed, len(logs))
		}
		for i, l := range logs[:300] {
			if l.ID != int32(i) || l.Logprob != -0.125 || len(l.Top) != 1 {
				t.Fatalf("logprob %d is %+v", i, l)
			}
		}
		if l := logs[300]; l.ID != 7 || len(l.Top) == 0 || len(l.Top) >= MaxTopLogprobs {
			t.Errorf("a token that does not fit has %d others", len(l.Top))
		}
		if l := logs[301]; l.Logprob != -3 || string(l.Bytes) != "\xe4" {
			t.Errorf("last is %+v", l)
		}
	}
}

// What tool_choice encodes to is JSON that decodes to it: names are any strings.
func TestToolChoiceNames(t *testing.T) {
	r := NewRequest(OpChat)
	r.ToolChoice, r.ToolName = ToolsNamed, `a"<b>`
	var v map[string]string
	if err := json.Unmarshal(r.toolChoice(), &v); err != nil || v["name"] != r.ToolName {
		t.Errorf("%s: %v", r.toolChoice(), err)
	}
}
