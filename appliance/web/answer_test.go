// SPDX-License-Identifier: Apache-2.0

package web

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"windhover/control"
)

func TestWholeAnswer_P172(t *testing.T) {
	at := time.Unix(1796000000, 0)
	h := New(&fakeBox{}, Options{Now: func() time.Time { return at }})
	w := do(h, "POST", chatPath, `{"messages":[{"role":"user","content":"hi"}]}`)
	want := `{"id":"chatcmpl-w-1","object":"chat.completion","created":1796000000,"model":"tiny","system_fingerprint":"fp_0123456789abcdef",` +
		`"choices":[{"index":0,"message":{"role":"assistant","content":"größer als 世界","reasoning_content":"hm"},"logprobs":null,"finish_reason":"stop"}],` +
		`"usage":{"prompt_tokens":5,"completion_tokens":3,"total_tokens":8,"prompt_tokens_details":{"cached_tokens":4}},` +
		`"timing":{"queue_ms":0,"ttft_ms":0,"prefill_tps":0,"decode_tps":9.5,"total_ms":0}}` + "\n"
	if got := w.Body.String(); got != want || w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("got  %swant %s", got, want)
	}
	w = do(h, "POST", plainPath, `{"prompt":"hi"}`)
	m := decode(t, w.Body.Bytes())
	if m["object"] != "text_completion" || m["id"] != "cmpl-w-1" || m["choices"].([]any)[0].(map[string]any)["text"] != "größer als 世界" {
		t.Errorf("got %s", w.Body)
	}
}

// stream splits events; each is a document or, at the end, "[DONE]".
func stream(t *testing.T, body string) (events []string) {
	t.Helper()
	for _, e := range strings.Split(strings.TrimSuffix(body, "\n\n"), "\n\n") {
		switch data, ok := strings.CutPrefix(e, "data: "); {
		case ok:
			events = append(events, data)
		case !strings.HasPrefix(e, ": "):
			t.Fatalf("%q is no event", e)
		}
	}
	return events
}

func TestStream_P173(t *testing.T) {
	h := New(&fakeBox{}, Options{})
	w := do(h, "POST", chatPath, `{"messages":[{"role":"user","content":"hi"}],"stream":true,"stream_options":{"include_usage":true}}`)
	if got := w.Header().Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("content type %q", got)
	}
	if !strings.HasPrefix(w.Body.String(), ": prefill 5/5\n\n") {
		t.Errorf("no sign of life before the answer: %.60q", w.Body)
	}
	events := stream(t, w.Body.String())
	var text, thought, finish string
	var used float64
	for i, e := range events[:len(events)-1] {
		m := decode(t, []byte(e))
		if m["object"] != "chat.completion.chunk" || m["id"] != "chatcmpl-w-1" || m["model"] != "tiny" {
			t.Errorf("event %d: %s", i, e)
		}
		if u, ok := m["usage"].(map[string]any); ok {
			used = u["total_tokens"].(float64)
			if len(m["choices"].([]any)) != 0 || i != len(events)-2 {
				t.Errorf("usage in event %d: %s", i, e)
			}
			continue
		}
		c := m["choices"].([]any)[0].(map[string]any)
		d := c["delta"].(map[string]any)
		if (i == 0) != (d["role"] == "assistant") {
			t.Errorf("event %d has role %v", i, d["role"])
		}
		s, _ := d["content"].(string)
		r, _ := d["reasoning_content"].(string)
		text, thought = text+s, thought+r
		if c["finish_reason"] != nil {
			finish = c["finish_reason"].(string)
		}
	}
	if text != "größer als 世界" || thought != "hm" || finish != "stop" || used != 8 || events[len(events)-1] != "[DONE]" {
		t.Errorf("text %q, thought %q, finish %q, usage %v, end %q", text, thought, finish, used, events[len(events)-1])
	}
	w = do(h, "POST", plainPath, `{"prompt":"hi","stream":true}`)
	text = ""
	for _, e := range stream(t, w.Body.String()) {
		if e == "[DONE]" {
			continue
		}
		if m := decode(t, []byte(e)); m["usage"] != nil {
			t.Errorf("usage without being asked for: %s", e)
		} else {
			text += m["choices"].([]any)[0].(map[string]any)["text"].(string)
		}
	}
	if text != "größer als 世界" {
		t.Errorf("text %q", text)
	}
}

// Calls of tools and logprobs are written as OpenAI does, a long call in pieces.
func TestCallsAndLogprobs(t *testing.T) {
	half := control.TokenLogprob{Token: "\uFFFD", Bytes: []byte{0xe4, 0xb8}, Logprob: -1, Top: []control.TokenLogprob{{Token: "a", Logprob: -0.5}}}
	b := &fakeBox{ask: func(_ context.Context, _ *control.Request, reply func(*control.Reply) error) error {
		for _, r := range []*control.Reply{
			{ID: "w-1", Accepted: &control.Accepted{Model: "tiny@1"}},
			{Delta: &control.Delta{Text: "x", Logprobs: []control.TokenLogprob{half}}},
			{Delta: &control.Delta{ToolCall: &control.ToolCall{ID: "c0", Name: "f", Arguments: `{"a":`}}},
			{Delta: &control.Delta{ToolCall: &control.ToolCall{Arguments: `1}`}}},
			{Delta: &control.Delta{ToolCall: &control.ToolCall{Index: 1, ID: "c1", Name: "g", Arguments: `{}`}}},
			{Done: &control.Done{Finish: control.FinishCalls, Usage: &control.Usage{}}},
		} {
			if err := reply(r); err != nil {
				return err
			}
		}
		return nil
	}}
	h := New(b, Options{})
	body := do(h, "POST", chatPath, `{"messages":[]}`).Body.String()
	for _, want := range []string{
		`"tool_calls":[{"id":"c0","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}},{"id":"c1","type":"function","function":{"name":"g","arguments":"{}"}}]`,
		`"finish_reason":"tool_calls"`,
		`"logprobs":{"content":[{"token":"\ufffd","logprob":-1,"bytes":[228,184],"top_logprobs":[{"token":"a","logprob":-0.5,"bytes":[97]}]}]}`,
	} {
		if !strings.Contains(body, want) && !strings.Contains(strings.ReplaceAll(body, "\uFFFD", `\ufffd`), want) {
			t.Errorf("%s lacks %s", body, want)
		}
	}
	body = do(h, "POST", chatPath, `{"messages":[],"stream":true}`).Body.String()
	for _, want := range []string{
		`"tool_calls":[{"index":0,"id":"c0","type":"function","function":{"name":"f","arguments":"{\"a\":"}}]`,
		`"tool_calls":[{"index":0,"function":{"arguments":"1}"}}]`,
		`"tool_calls":[{"index":1,"id":"c1",`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("%s lacks %s", body, want)
		}
	}
	if body = do(h, "POST", plainPath, `{"prompt":"a"}`).Body.String(); !strings.Contains(body, `"token_logprobs":[-1],"top_logprobs":[{"a":-0.5}]`) {
		t.Errorf("got %s", body)
	}
}

// The offset of a token is how many characters of the text are before it, also of one that
// begins within a character or is none, in a whole answer and over the pieces of a stream.
func TestTextOffsets(t *testing.T) {
	token := func(raw string) control.TokenLogprob {
		l := control.TokenLogprob{Token: strings.ToValidUTF8(raw, "\uFFFD"), Logprob: -1}
		if l.Token != raw {
			l.Bytes = []byte(raw)
		}
		return l
	}
	pieces := [][]control.TokenLogprob{
		{token("größe"), token(" "), token("\xe4")}, // 世 in three tokens
		{token("\xb8"), token("\x96"), token("界\xf0\x9f")},
		{token("\x98\x80!"), token("\xe4\xb8"), token("x")}, // a half that nothing completes
		{token("\xff\xfe"), token("y")},
	}
	const text, want = "größe 世界😀!\uFFFDx\uFFFD\uFFFDy", "[0 5 6 6 6 7 8 10 11 12 14]"
	b := &fakeBox{ask: func(_ context.Context, _ *control.Request, reply func(*control.Reply) error) error {
		list := []*control.Reply{{ID: "w-1", Accepted: &control.Accepted{Model: "tiny@1"}}, {Delta: &control.Delta{Text: text}}}
		for _, p := range pieces {
			list = append(list, &control.Reply{Delta: &control.Delta{Logprobs: p}})
		}
		for _, r := range append(list, &control.Reply{Done: &control.Done{Finish: control.FinishStop, Usage: &control.Usage{}}}) {
			if err := reply(r); err != nil {
				return err
			}
		}
		return nil
	}}
	type answer struct {
		Choices []struct {
			Logprobs *struct {
				Tokens  []string `json:"tokens"`
				Offsets []int    `json:"text_offset"`
			} `json:"logprobs"`
		} `json:"choices"`
	}
	h := New(b, Options{})
	for _, streaming := range []string{"false", "true"} {
		body := do(h, "POST", plainPath, `{"prompt":"a","logprobs":0,"stream":`+streaming+`}`).Body.String()
		events := []string{body}
		if streaming == "true" {
			events = stream(t, body)
			events = events[:len(events)-1]
		}
		var offsets []int
		for _, e := range events {
			var a answer
			if err := json.Unmarshal([]byte(e), &a); err != nil {
				t.Fatal(err)
			}
			if l := a.Choices[0].Logprobs; l != nil {
				offsets = append(offsets, l.Offsets...)
			}
		}
		if got := fmt.Sprint(offsets); got != want {
			t.Errorf("streamed %s: got %s, want %s", streaming, got, want)
		}
	}
	if runes := []rune(text); string(runes[10]) != "\uFFFD" || string(runes[11:]) != "x\uFFFD\uFFFDy" {
		t.Errorf("the text of this test is another: %q", runes)
	}
}

// Errors have OpenAI's shape, by status before the answer began and as an event after.
func TestErrors_P174(t *testing.T) {
	busy := control.Errorf(control.QueueFull, "full")
	busy.RetryAfter = 1500 * time.Millisecond
	broken := control.Errorf(control.Internal, "internal error")
	broken.Incident = "w-77"
	tests := []struct {
		err        error
		status     int
		kind, code string
	}{
		{control.Errorf(control.UnknownModel, "no model"), 404, "invalid_request_error", "model_not_found"},
		{control.Errorf(control.ContextOverflow, "too long"), 400, "invalid_request_error", "context_length_exceeded"},
		{control.Errorf(control.BadRequest, "temperature 200: 0 to 100"), 400, "invalid_request_error", "bad_request"},
		{busy, 429, "rate_limit_error", "queue_full"},
		{control.Errorf(control.ModelNotReady, "loading"), 503, "server_error", "model_not_ready"},
		{broken, 500, "server_error", "internal"},
		{errors.New("what"), 500, "server_error", "internal"},
	}
	for _, tt := range tests {
		for _, streaming := range []string{"false", "true"} {
			b := &fakeBox{ask: func(context.Context, *control.Request, func(*control.Reply) error) error { return tt.err }}
			w := do(New(b, Options{}), "POST", chatPath, `{"messages":[],"stream":`+streaming+`}`)
			e := errorOf(t, w)
			if w.Code != tt.status || e.Type != tt.kind || e.Code != tt.code {
				t.Errorf("%v: got %d %s %s", tt.err, w.Code, e.Type, e.Code)
			}
			if tt.err == busy && (w.Header().Get("Retry-After") != "2" || w.Header().Get("Retry-After-Ms") != "1500") {
				t.Errorf("retry after %v", w.Header())
			}
			if tt.err == broken && !strings.Contains(e.Message, "w-77") {
				t.Errorf("no incident in %q", e.Message)
			}
			if strings.Contains(tt.err.Error(), "temperature") && (e.Param == nil || *e.Param != "temperature") {
				t.Errorf("param %v", e.Param)
			}
		}
	}
	b := &fakeBox{ask: func(_ context.Context, _ *control.Request, reply func(*control.Reply) error) error {
		if err := say(reply, "a"); err != nil {
			return err
		}
		return busy
	}}
	w := do(New(b, Options{}), "POST", chatPath, `{"messages":[],"stream":true}`)
	events := stream(t, w.Body.String())
	var s shape
	if err := json.Unmarshal([]byte(events[len(events)-2]), &s); err != nil || s.Error.Code != "queue_full" || w.Code != 200 {
		t.Errorf("status %d, events %q", w.Code, events)
	}
}

// A client that goes cancels its request, whole or streamed.
func TestClientGone(t *testing.T) {
	for _, streaming := range []string{"false", "true"} {
		started, ended := make(chan struct{}), make(chan error, 1)
		b := &fakeBox{ask: func(ctx context.Context, _ *control.Request, reply func(*control.Reply) error) error {
			err := reply(&control.Reply{Accepted: &control.Accepted{}})
			if err == nil {
				err = reply(&control.Reply{Delta: &control.Delta{Text: "a"}})
			}
			close(started)
			<-ctx.Done()
			ended <- err
			return ctx.Err()
		}}
		srv := httptest.NewServer(New(b, Options{}))
		ctx, cancel := context.WithCancel(context.Background())
		r, err := http.NewRequestWithContext(ctx, "POST", srv.URL+chatPath, strings.NewReader(`{"messages":[],"stream":`+streaming+`}`))
		if err != nil {
			t.Fatal(err)
		}
		over := make(chan struct{})
		go func() {
			defer close(over)
			if resp, err := http.DefaultClient.Do(r); err == nil {
				_, _ = io.Copy(io.Discard, resp.Body) // ends with the context
				_ = resp.Body.Close()
			}
		}()
		<-started
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("stream %s: reply failed before: %v", streaming, err)
		}
		<-over
		srv.Close()
	}
}

func TestModels(t *testing.T) {
	h := New(&fakeBox{}, Options{})
	var list struct {
		Object string
		Data   []modelDoc
	}
	if err := json.Unmarshal(do(h, "GET", "/v1/models", "").Body.Bytes(), &list); err != nil {
		t.Fatal(err)
	}
	if list.Object != "list" || len(list.Data) != 2 || list.Data[1].ID != "tiny" || !list.Data[1].Default || list.Data[1].Context != 8192 || !list.Data[1].Pictures {
		t.Errorf("got %+v", list)
	}
	for path, want := range map[string]string{"/v1/models/small": "small", "/v1/models/default": "tiny", "/v1/models/tiny@1": "tiny"} {
		if m := decode(t, do(h, "GET", path, "").Body.Bytes()); m["id"] != want || m["object"] != "model" {
			t.Errorf("%s: %v", path, m)
		}
	}
	for _, name := range []string{"old", "none", "tiny@2"} {
		w := do(h, "GET", "/v1/models/"+name, "")
		if e := errorOf(t, w); w.Code != 404 || e.Code != "model_not_found" {
			t.Errorf("%s: %d %+v", name, w.Code, e)
		}
	}
}

// An answer that waits, before its first piece or between two, says so every 15 seconds;
// what the client reads of the answer is the same. One that was not accepted says
// nothing, since its status may still be that of an error.
func TestStreamShowsLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &fakeBox{ask: func(ctx context.Context, r *control.Request, reply func(*control.Reply) error) error {
			wait := func(d time.Duration) { <-time.After(d) }
			wait(40 * time.Second)
			return say(func(r *control.Reply) error {
				if err := reply(r); err != nil {
					return err
				}
				if r.Accepted != nil || r.Delta != nil && r.Delta.Text == "größer " {
					wait(50 * time.Second)
				}
				return nil
			}, "größer ", "als 世界")
		}}
		w := do(New(b, Options{}), "POST", chatPath, `{"messages":[],"stream":true}`)
		text := ""
		for _, e := range stream(t, w.Body.String()) {
			if e == "[DONE]" {
				continue
			}
			for _, c := range decode(t, []byte(e))["choices"].([]any) {
				if part, ok := c.(map[string]any)["delta"].(map[string]any)["content"].(string); ok {
					text += part
				}
			}
		}
		before, after, found := strings.Cut(w.Body.String(), "größer")
		if w.Code != 200 || text != "größer als 世界" || !found || strings.Count(before, ": waiting\n\n") != 3 || strings.Count(after, ": waiting\n\n") != 3 {
			t.Errorf("status %d, text %q:\n%s", w.Code, text, w.Body)
		}
		b.ask = func(context.Context, *control.Request, func(*control.Reply) error) error {
			<-time.After(time.Hour)
			return control.Errorf(control.QueueFull, "full")
		}
		if w := do(New(b, Options{}), "POST", chatPath, `{"messages":[],"stream":true}`); w.Code != 429 || errorOf(t, w).Code != "queue_full" {
			t.Errorf("status %d: %s", w.Code, w.Body)
		}
	})
}

// A client that says no more after its question looks like one that is gone: its request
// is cancelled, and the answer says so, by its status or as an event.
func TestClientHalfGone(t *testing.T) {
	for _, streaming := range []bool{false, true} {
		b := &fakeBox{ask: func(ctx context.Context, _ *control.Request, reply func(*control.Reply) error) error {
			for _, r := range []*control.Reply{{Accepted: &control.Accepted{}}, {Delta: &control.Delta{Text: "a"}}} {
				if err := reply(r); err != nil {
					return err
				}
			}
			<-ctx.Done()
			return context.Cause(ctx)
		}}
		srv := httptest.NewServer(New(b, Options{}))
		conn, err := net.Dial("tcp", srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		body := fmt.Sprintf(`{"messages":[],"stream":%t}`, streaming)
		if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", chatPath, len(body), body); err != nil {
			t.Fatal(err)
		}
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		status := control.Canceled.Status
		if streaming {
			events := stream(t, string(text))
			if status, text = http.StatusOK, nil; len(events) > 2 && events[len(events)-1] == "[DONE]" {
				text = []byte(events[len(events)-2])
			}
		}
		var s shape
		if err := json.Unmarshal(text, &s); err != nil || resp.StatusCode != status || s.Error.Code != "canceled" || s.Error.Type != "invalid_request_error" {
			t.Errorf("streamed %t: status %d, %s (%v)", streaming, resp.StatusCode, text, err)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		srv.Close()
	}
}
