// SPDX-License-Identifier: Apache-2.0

package control

import (
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
)

// wireCase is a row of the table that drives encoding, decoding and validation: the
// bytes, what they mean, and how reading them fails ("" for not at all).
type wireCase struct {
	name  string
	raw   string
	value any    // *Reply, *Request, *JobRecord or *Status; nil where reading fails
	fail  string // part of the error
	same  bool   // value encodes to raw again, byte for byte
}

func f32(v float32) *float32 { return &v }
func str(s string) *string   { return &s }
func boolp(b bool) *bool     { return &b }

var replyCases = []wireCase{
	{name: "accepted", same: true,
		raw:   `{"t":"accepted","id":"r-81","seq":0,"queue":1,"model":"qwen3-0.6b@1.4.0"}`,
		value: &Reply{Type: TypeAccepted, ID: "r-81", Accepted: &Accepted{Queue: 1, Model: "qwen3-0.6b@1.4.0"}}},
	{name: "progress", same: true,
		raw:   `{"t":"progress","id":"r-81","seq":1,"phase":"prefill","done":512,"total":2048}`,
		value: &Reply{Type: TypeProgress, ID: "r-81", Seq: 1, Progress: &Progress{"prefill", 512, 2048}}},
	{name: "delta", same: true,
		raw:   `{"t":"delta","id":"r-81","seq":2,"text":"Hel<","n":2}`,
		value: &Reply{Type: TypeDelta, ID: "r-81", Seq: 2, Delta: &Delta{Text: "Hel<", N: 2}}},
	{name: "thinking", same: true,
		raw:   `{"t":"delta","id":"r","seq":3,"thinking":"思","n":1}`,
		value: &Reply{Type: TypeDelta, ID: "r", Seq: 3, Delta: &Delta{Thinking: "思", N: 1}}},
	{name: "done", same: true,
		raw: `{"t":"done","id":"r","seq":9,"text":"Hello","finish":"stop","usage":{"prompt":21,"completion":34,"cached":16},` +
			`"timing":{"queue_ms":3,"ttft_ms":410,"prefill_tps":51.2,"decode_tps":9.8,"total_ms":3890},` +
			`"model":{"name":"q","version":"1.4.0","sha256":"ab"}}`,
		value: &Reply{Type: TypeDone, ID: "r", Seq: 9, Done: &Done{Text: str("Hello"), Finish: FinishStop,
			Usage: &Usage{Prompt: 21, Completion: 34, Cached: 16}, Timing: &Timing{3, 410, 51.2, 9.8, 3890}, Model: &ModelRef{"q", "1.4.0", "ab"}}}},
	{name: "done without text", same: true,
		raw:   `{"t":"done","id":"r","seq":9,"finish":"length","text_omitted":true,"bytes":99,"sha256":"cd"}`,
		value: &Reply{Type: TypeDone, ID: "r", Seq: 9, Done: &Done{Finish: FinishLength, TextOmitted: true, Bytes: 99, SHA256: "cd"}}},
	{name: "empty answer", same: true,
		raw:   `{"t":"done","id":"r","seq":1,"text":"","finish":"stop"}`,
		value: &Reply{Type: TypeDone, ID: "r", Seq: 1, Done: &Done{Text: str(""), Finish: FinishStop}}},
	{name: "tokenize", same: true,
		raw:   `{"t":"done","id":"r","seq":0,"ids":[1,2]}`,
		value: &Reply{Type: TypeDone, ID: "r", Done: &Done{IDs: []int32{1, 2}}}},
	{name: "found", same: true,
		raw:   `{"t":"done","id":"r","seq":0,"found":false}`,
		value: &Reply{Type: TypeDone, ID: "r", Done: &Done{Found: boolp(false)}}},
	{name: "error", same: true,
		raw: `{"t":"error","id":"r-81","seq":1,"error":{"code":"queue_full","status":429,"retry_after_ms":1500,"message":"full"}}`,
		value: &Reply{Type: TypeError, ID: "r-81", Seq: 1,
			Err: &Error{Code: QueueFull, Message: "full", RetryAfter: 1500 * time.Millisecond}}},
	{name: "bytes needed", same: true,
		raw:   `{"t":"error","id":"r","seq":1,"error":{"code":"insufficient_memory","status":507,"message":"m","needed_bytes":5,"available_bytes":0}}`,
		value: &Reply{Type: TypeError, ID: "r", Seq: 1, Err: &Error{Code: InsufficientMem, Message: "m", Needed: 5}}},
	{name: "code from the future",
		raw:   `{"t":"error","id":"r","seq":1,"error":{"code":"moon_phase","status":418,"message":"m"},"new":1}`,
		value: &Reply{Type: TypeError, ID: "r", Seq: 1, Err: &Error{Code: Code{Name: "moon_phase", Status: 418}, Message: "m"}}},
	{name: "unknown type", raw: `{"t":"song","id":"r","seq":0}`, fail: `type "song" is unknown`},
	{name: "no error object", raw: `{"t":"error","id":"r","seq":0}`, fail: "no error object"},
	{name: "negative seq", raw: `{"t":"delta","id":"r","seq":-1}`, fail: "negative"},
	{name: "not json", raw: `delta`, fail: "invalid character"},
	{name: "wrong type", raw: `{"t":"delta","id":"r","seq":0,"text":5}`, fail: "cannot unmarshal"},
}

func TestReplyWire_P9(t *testing.T) {
	for _, c := range replyCases {
		t.Run(c.name, func(t *testing.T) {
			got, err := DecodeReply([]byte(c.raw))
			if !failsAs(t, err, c.fail) {
				return
			}
			if !reflect.DeepEqual(got, c.value) {
				t.Errorf("decoded %+v, want %+v", got, c.value)
			}
			p, err := got.Encode()
			if err != nil || c.same && string(p) != c.raw {
				t.Errorf("encoded %s (%v), want %s", p, err, c.raw)
			}
		})
	}
	if _, err := (&Reply{Type: TypeDone}).Encode(); err == nil {
		t.Error("a done without a body was encoded")
	}
}

// failsAs checks an error against its expected part and says whether there is a value
// to look at.
func failsAs(t *testing.T, err error, want string) bool {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("unexpected error: %v", err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("error %v, want one with %q", err, want)
	}
	return err == nil && want == ""
}

func request(op string, change func(*Request)) *Request {
	r := NewRequest(op)
	r.Client = "me"
	change(r)
	return r
}

var requestCases = []struct {
	op string
	wireCase
}{
	{OpGenerate, wireCase{name: "defaults", same: true, raw: `{"prompt":"x"}`,
		value: request(OpGenerate, func(r *Request) { r.Prompt = "x" })}},
	{OpChat, wireCase{name: "all fields",
		raw: `{"id":"r-81","model":"qwen3-0.6b","messages":[{"role":"user","content":"hi"}],"max_tokens":9,"temperature":0,"top_p":0.5,` +
			`"top_k":3,"min_p":0.1,"repeat_penalty":1.5,"seed":18446744073709551615,"stop":["\n\n"],"stream":false,"stream_qos":0,"flush_ms":0,` +
			`"final_text":false,"deadline_ms":60000,"sent_at":"2026-11-29T12:00:00.000Z","ttl_ms":30000,"priority":0,"think":true,` +
			`"think_budget":7,"truncate":"oldest","json_schema":{},"tools":[{"name":"f"}],"tool_choice":"none","logprobs":true,"top_logprobs":20}`,
		value: request(OpChat, func(r *Request) {
			*r = Request{Op: OpChat, Client: "me", ID: "r-81", Model: "qwen3-0.6b",
				Messages: []Message{{Role: "user", Content: Content{Text: "hi"}}}, MaxTokens: 9,
				Temperature: f32(0), TopP: f32(0.5), TopK: new(int), MinP: 0.1, RepeatPenalty: 1.5, Seed: new(uint64),
				Stop: []string{"\n\n"}, Truncate: "oldest", Think: true, ThinkBudget: 7,
				Schema: json.RawMessage("{}"), Tools: []json.RawMessage{json.RawMessage(`{"name":"f"}`)}, ToolChoice: ToolsNone, Logprobs: true, TopLogprobs: 20,
				Deadline: time.Minute, SentAt: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC), TTL: 30 * time.Second}
			*r.TopK, *r.Seed = 3, 1<<64-1
		})}},
	{OpChat, wireCase{name: "prompt as a message", raw: `{"prompt":"hi"}`,
		value: request(OpChat, func(r *Request) { r.Messages = []Message{{Role: "user", Content: Content{Text: "hi"}}} })}},
	{OpChat, wireCase{name: "parts", raw: `{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image","file":"b.png"}]}]}`,
		value: request(OpChat, func(r *Request) {
			r.Messages = []Message{{Role: "user", Content: Content{Parts: []Part{{Type: "text", Text: "a"}, {Type: "image", Picture: Picture{File: "b.png"}}}}}}
		})}},
	{OpChat, wireCase{name: "pictures", raw: `{"messages":[{"role":"user","content":[{"type":"image","data":"AAEC"},{"type":"video","frames":[{"data":"/w=="},{"file":"f 2.jpg"}],"fps":0.5}]}]}`,
		value: request(OpChat, func(r *Request) {
			r.Messages = []Message{{Role: "user", Content: Content{Parts: []Part{
				{Type: "image", Picture: Picture{Data: []byte{0, 1, 2}}},
				{Type: "video", Frames: []Picture{{Data: []byte{255}}, {File: "f 2.jpg"}}, FPS: 0.5},
			}}}}
		})}},
	{OpPrompt, wireCase{name: "prompt", raw: `{"id":"this is text"}`,
		value: request(OpChat, func(r *Request) {
			r.Messages = []Message{{Role: "user", Content: Content{Text: `{"id":"this is text"}`}}}
		})}},
	{OpTokenize, wireCase{name: "empty text", raw: `{"text":""}`, value: request(OpTokenize, func(*Request) {})}},
	{OpFetch, wireCase{name: "fetch", same: true, raw: `{"id":"f","target":"r","from_seq":3}`,
		value: request(OpFetch, func(r *Request) { r.ID, r.Target, r.FromSeq = "f", "r", 3 })}},
	{OpCancel, wireCase{name: "cancel", same: true, raw: `{"target":"r"}`,
		value: request(OpCancel, func(r *Request) { r.Target = "r" })}},

	{OpGenerate, wireCase{name: "max_tokens 0", raw: `{"prompt":"x","max_tokens":0}`, fail: "max_tokens 0"}},
	{OpGenerate, wireCase{name: "max_tokens huge", raw: `{"prompt":"x","max_tokens":2000000}`, fail: "max_tokens"}},
	{OpGenerate, wireCase{name: "max_tokens fraction", raw: `{"prompt":"x","max_tokens":1.5}`, fail: `"max_tokens"`}},
	{OpGenerate, wireCase{name: "negative temperature", raw: `{"prompt":"x","temperature":-1}`, fail: "temperature"}},
	{OpGenerate, wireCase{name: "overflow", raw: `{"prompt":"x","temperature":1e99}`, fail: `"temperature"`}},
	{OpGenerate, wireCase{name: "top_p 0", raw: `{"prompt":"x","top_p":0}`, fail: "top_p"}},
	{OpGenerate, wireCase{name: "top_k", raw: `{"prompt":"x","top_k":-1}`, fail: "top_k"}},
	{OpGenerate, wireCase{name: "min_p", raw: `{"prompt":"x","min_p":2}`, fail: "min_p"}},
	{OpGenerate, wireCase{name: "repeat_penalty", raw: `{"prompt":"x","repeat_penalty":0}`, fail: "repeat_penalty"}},
	{OpGenerate, wireCase{name: "priority", raw: `{"prompt":"x","priority":10}`, fail: "priority"}},
	{OpGenerate, wireCase{name: "stream_qos", raw: `{"prompt":"x","stream_qos":2}`, fail: "stream_qos"}},
	{OpGenerate, wireCase{name: "flush_ms", raw: `{"prompt":"x","flush_ms":-1}`, fail: "flush_ms"}},
	{OpGenerate, wireCase{name: "duration that would wrap", raw: `{"prompt":"x","deadline_ms":9223372036854775807}`, fail: "deadline_ms"}},
	{OpGenerate, wireCase{name: "ttl 0", raw: `{"prompt":"x","ttl_ms":0}`, fail: "ttl_ms"}},
	{OpGenerate, wireCase{name: "sent_at", raw: `{"prompt":"x","sent_at":"yesterday"}`, fail: "sent_at"}},
	{OpGenerate, wireCase{name: "stop is text", raw: `{"prompt":"x","stop":"a"}`, fail: `"stop"`}},
	{OpGenerate, wireCase{name: "empty stop", raw: `{"prompt":"x","stop":[""]}`, fail: "stop"}},
	{OpGenerate, wireCase{name: "truncate", raw: `{"prompt":"x","truncate":"newest"}`, fail: "truncate"}},
	{OpGenerate, wireCase{name: "think_budget", raw: `{"prompt":"x","think_budget":-1}`, fail: "think_budget"}},
	{OpGenerate, wireCase{name: "model", raw: `{"prompt":"x","model":"../etc"}`, fail: "model"}},
	{OpGenerate, wireCase{name: "empty id", raw: `{"prompt":"x","id":""}`, fail: "id"}},
	{OpGenerate, wireCase{name: "reserved id", raw: `{"prompt":"x","id":"_"}`, fail: "id"}},
	{OpGenerate, wireCase{name: "long id", raw: `{"prompt":"x","id":"` + strings.Repeat("a", 65) + `"}`, fail: "id"}},
	{OpGenerate, wireCase{name: "id with a level", raw: `{"prompt":"x","id":"a/b"}`, fail: "id"}},
	{OpGenerate, wireCase{name: "two values", raw: `{"prompt":"x"}{}`, fail: "not JSON"}},
	{OpChat, wireCase{name: "no messages", raw: `{}`, fail: "messages"}},
	{OpChat, wireCase{name: "role", raw: `{"messages":[{"role":"root","content":"x"}]}`, fail: "role"}},
	{OpChat, wireCase{name: "part type", raw: `{"messages":[{"role":"user","content":[{"type":"sound"}]}]}`, fail: "type"}},
	{OpChat, wireCase{name: "image without bytes", raw: `{"messages":[{"role":"user","content":[{"type":"image"}]}]}`, fail: "image"}},
	{OpChat, wireCase{name: "image twice", raw: withPart(`{"type":"image","data":"AAEC","file":"a.png"}`), fail: "content[0]: an image has data or file"}},
	{OpChat, wireCase{name: "image no base64", raw: withPart(`{"type":"image","data":"AA*C"}`), fail: "not base64 (at its byte 2)"}},
	{OpChat, wireCase{name: "image cut", raw: withPart(`{"type":"image","data":"AAE"}`), fail: "not base64"}},
	{OpChat, wireCase{name: "image in a parent", raw: withPart(`{"type":"image","file":"../a.png"}`), fail: "in import/"}},
	{OpChat, wireCase{name: "image by path", raw: withPart(`{"type":"image","file":"/etc/passwd"}`), fail: "in import/"}},
	{OpChat, wireCase{name: "image hidden", raw: withPart(`{"type":"image","file":".."}`), fail: "in import/"}},
	{OpChat, wireCase{name: "image with a zero", raw: withPart(`{"type":"image","file":"a\u0000.png"}`), fail: "in import/"}},
	{OpChat, wireCase{name: "image with a long name", raw: withPart(`{"type":"image","file":"` + strings.Repeat("a", 256) + `"}`), fail: "in import/"}},
	{OpChat, wireCase{name: "no frames", raw: withPart(`{"type":"video"}`), fail: "1 to 1024 frames, not 0"}},
	{OpChat, wireCase{name: "empty frame", raw: withPart(`{"type":"video","frames":[{"file":"a"},{}]}`), fail: "frames[1] has data or file"}},
	{OpChat, wireCase{name: "fps", raw: withPart(`{"type":"video","frames":[{"file":"a"}],"fps":-1}`), fail: "fps -1"}},
	{OpFetch, wireCase{name: "from_seq", raw: `{"target":"r","from_seq":-1}`, fail: "from_seq"}},
	{OpFetch, wireCase{name: "target", raw: `{"target":"a b"}`, fail: "target"}},
}

// withPart is a chat of one message of one part.
func withPart(part string) string {
	return `{"messages":[{"role":"user","content":[` + part + `]}]}`
}

func TestRequestWire_P114(t *testing.T) {
	for _, c := range requestCases {
		t.Run(c.op+" "+c.name, func(t *testing.T) {
			got, err := DecodeRequest(c.op, "me", []byte(c.raw))
			if err != nil && !errors.Is(err, BadRequest) {
				t.Errorf("error %v is no bad_request", err)
			}
			if !failsAs(t, err, c.fail) {
				return
			}
			if !reflect.DeepEqual(got, c.value) {
				t.Errorf("decoded %+v, want %+v", got, c.value)
			}
			p, err := got.Encode()
			if err != nil || c.same && string(p) != c.raw {
				t.Errorf("encoded %s (%v), want %s", p, err, c.raw)
			}
			if again, err := DecodeRequest(got.Op, "me", p); err != nil || !reflect.DeepEqual(again, got) {
				t.Errorf("read back %+v (%v), want %+v", again, err, got)
			}
		})
	}
}

var jobCases = []wireCase{
	{name: "running", same: true,
		raw: `{"v":1,"id":"j7","type":"convert","client":"ops","status":"running","phase":"reading","version":12,` +
			`"progress":{"done":734003200,"total":1288490188,"pct":56},"attempt":1,"result":{},"error":null,` +
			`"created_at":"2026-11-29T12:00:00Z","updated_at":"2026-11-29T12:00:01Z"}`,
		value: &JobRecord{V: 1, ID: "j7", Type: "convert", Client: "ops", Status: JobRunning, Phase: "reading", Version: 12,
			Progress: JobFraction{734003200, 1288490188, 56}, Attempt: 1, Result: json.RawMessage("{}"),
			CreatedAt: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC), UpdatedAt: time.Date(2026, 11, 29, 12, 0, 1, 0, time.UTC)}},
	{name: "status", raw: `{"v":1,"id":"j7","client":"ops","status":"asleep","version":1}`, fail: "status"},
	{name: "version", raw: `{"v":1,"id":"j7","client":"ops","status":"queued","version":0}`, fail: "version 0"},
	{name: "id", raw: `{"v":1,"id":"j/7","client":"ops","status":"queued","version":1}`, fail: "malformed"},
	{name: "cut", raw: `{"v":1,"id":"j7"`, fail: "unexpected end"},
}

func TestJobWire(t *testing.T) {
	for _, c := range jobCases {
		t.Run(c.name, func(t *testing.T) {
			got, err := DecodeJob([]byte(c.raw))
			if !failsAs(t, err, c.fail) {
				return
			}
			if !reflect.DeepEqual(got, c.value) {
				t.Errorf("decoded %+v, want %+v", got, c.value)
			}
			if p, err := encode(got); err != nil || string(p) != c.raw {
				t.Errorf("encoded %s (%v), want %s", p, err, c.raw)
			}
		})
	}
}

func TestPeekID(t *testing.T) {
	for _, c := range []struct{ raw, want string }{
		{`{"id":"a"`, "a"},
		{`{"id":"a","prompt":"cut of`, "a"},
		{`{"x":[{"id":"no"},2],"y":{"id":"no"},"id":"b",`, "b"},
		{`{"prompt":"` + strings.Repeat("x", 100), ""},
		{`{"id":"bad id"}`, ""},
		{`{"id":7}`, ""},
		{`{"id":{"id":"a"}}`, ""},
		{`["id","a"]`, ""},
		{``, ""},
		{strings.Repeat(`{"a":`, 20000), ""},
	} {
		if got := peekID([]byte(c.raw)); got != c.want {
			t.Errorf("peekID(%.60s) = %q, want %q", c.raw, got, c.want)
		}
	}
}

func TestCodes(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range Codes() {
		if seen[c.Name] || c.Status < 400 || c.Status > 507 {
			t.Errorf("code %+v stands twice or has a strange status", c)
		}
		seen[c.Name] = true
		if !errors.Is(Errorf(c, "x %d", 1), c) || asError(c).Code != c {
			t.Errorf("%v is not found in an error made of it", c)
		}
	}
	if QueueFull.Error() != "control: queue_full" {
		t.Errorf("got %q", QueueFull.Error())
	}
}

// TestProtocolDocument_P24 holds the tables of docs/PROTOCOL.md against the code.
func TestProtocolDocument_P24(t *testing.T) {
	doc, err := os.ReadFile("../docs/PROTOCOL.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| ([0-9]{3}) \\| (yes|no) \\|")
	got := map[string][2]string{}
	for _, m := range rows.FindAllStringSubmatch(string(doc), -1) {
		got[m[1]] = [2]string{m[2], m[3]}
	}
	for _, c := range Codes() {
		want := [2]string{itoa(c.Status), "no"}
		if c.Retry {
			want[1] = "yes"
		}
		if got[c.Name] != want {
			t.Errorf("docs/PROTOCOL.md has %q for %s, want %q", got[c.Name], c.Name, want)
		}
		delete(got, c.Name)
	}
	if len(got) != 0 {
		t.Errorf("docs/PROTOCOL.md has codes that do not exist: %v", got)
	}
	// Every JSON line of the document that says what it is must be read by the code.
	lines := regexp.MustCompile(`(?m)^\{.*\}$`)
	n := 0
	for _, l := range lines.FindAllString(string(doc), -1) {
		if strings.HasPrefix(l, `{"t":`) {
			n++
			if _, err := DecodeReply([]byte(l)); err != nil {
				t.Errorf("%v in %s", err, l)
			}
		}
	}
	if n < 5 {
		t.Errorf("%d replies as examples, want at least 5", n)
	}
}

func itoa(n int) string { b, _ := json.Marshal(n); return string(b) }

func FuzzRequest(f *testing.F) {
	for _, c := range requestCases {
		f.Add(c.op, []byte(c.raw))
	}
	f.Fuzz(func(t *testing.T, op string, p []byte) {
		r, err := DecodeRequest(op, "me", p)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || (e.Code != BadRequest && e.Code != Unsupported) {
				t.Fatalf("error %v has no code of the wire", err)
			}
			peekID(p)
			return
		}
		// What is accepted means the same after a round trip.
		q, err := r.Encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := DecodeRequest(r.Op, "me", q)
		if err != nil {
			t.Fatalf("%v in %s from %q", err, q, p)
		}
		if a, b := mustEncode(t, again), string(q); a != b {
			t.Fatalf("%s became %s", b, a)
		}
	})
}

func mustEncode(t *testing.T, r *Request) string {
	t.Helper()
	p, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return string(p)
}

func FuzzReply(f *testing.F) {
	for _, c := range replyCases {
		f.Add([]byte(c.raw))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		r, err := DecodeReply(p)
		if err != nil {
			return
		}
		q, err := r.Encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := DecodeReply(q)
		if err != nil || !reflect.DeepEqual(normal(again), normal(r)) {
			t.Fatalf("%s became %+v (%v)", q, again, err)
		}
	})
}

// normal takes out what omitempty cannot tell apart.
func normal(r *Reply) Reply {
	c := *r
	if c.Done != nil && len(c.Done.IDs) == 0 {
		d := *c.Done
		d.IDs = nil
		c.Done = &d
	}
	if c.Err != nil {
		e := *c.Err
		e.RetryAfter = e.RetryAfter.Truncate(time.Millisecond)
		if e.Needed == 0 {
			e.Available = 0
		}
		c.Err = &e
	}
	return c
}
