// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"sync"
	"testing"
)

// books keeps what is handed over, by id, and what had gone out by then.
type books struct {
	mu   sync.Mutex
	all  map[string]Audited
	late []string // ids whose client knew before
	gone func(a Audited) bool
}

func (b *books) keep(a Audited) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a.Job != nil { // it goes on
		rec := *a.Job
		a.Job, a.ID = &rec, "job "+a.ID
	}
	if _, twice := b.all[a.ID]; twice {
		b.late = append(b.late, a.ID+" twice")
	}
	if b.gone != nil && b.gone(a) {
		b.late = append(b.late, a.ID)
	}
	b.all[a.ID] = a
}

func (b *books) of(id string) Audited {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all[id]
}

func sum(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }

// Every request and every job is handed over once, with the digests of what came and of
// what was said, before its client knows how it ended.
func TestAudit(t *testing.T) {
	step := make(chan struct{})
	f := &fake{
		generate: func(ctx context.Context, r *Request, emit func(Event) error) (*Result, error) {
			switch q := question(r); {
			case strings.HasPrefix(q, "wait"):
				return until(step, 99)(ctx, r, emit)
			case q == "fail":
				_ = emit(Event{Text: "half an answer"})
				return nil, Errorf(ModelIOError, "the disk is gone")
			}
			for _, e := range []Event{{Thinking: "let me "}, {Thinking: "see", Text: "世界"[:4]}, {Text: "世界"[4:5], ToolCalls: []ToolCall{{ID: "x", Name: "clock", Arguments: `{"zone":"UTC"}`}}, Tokens: 3}} {
				if err := emit(e); err != nil {
					return nil, err
				}
			}
			return &Result{Finish: FinishCalls, Usage: Usage{Prompt: 2, Completion: 3}, Model: ModelRef{"tiny", "2", "cd"}, Sampling: &Sampling{Seed: 7, TopK: 20}}, nil
		},
		runJob: func(ctx context.Context, j Job, _ func(JobProgress)) (any, error) {
			if j.ID == "slow" {
				<-ctx.Done()
			}
			return map[string]int{}, ctx.Err()
		},
	}
	b := &books{all: map[string]Audited{}}
	g := newRig(t, f, func(c *Config) {
		c.Audit = b.keep
		c.Policy = Policy{EnforcesACL: true, Rules: []Rule{{Client: "me", Allow: []string{"verify"}}}}
		c.Limits.PerClient = 2
	})
	b.mu.Lock()
	b.gone = func(a Audited) bool {
		for _, m := range g.messages(g.topics.Reply(a.Client, a.ID)) {
			if r, err := DecodeReply(m.payload); err == nil && r.Terminal() {
				return true
			}
		}
		return false
	}
	b.mu.Unlock()

	chat := func(id, text, more string) string {
		return fmt.Sprintf(`{"id":%q,"messages":[{"role":"user","content":%q}]%s}`, id, text, more)
	}
	asked := map[string]string{}
	ask := func(id, op, payload string) {
		asked[id] = payload
		g.ask("me", op, payload)
	}
	ask("good", "chat", chat("good", "hello", `,"max_tokens":5,"think":true`))
	ask("whole", "chat", chat("whole", "hello", `,"stream":false`))
	g.end("me", "good")
	g.end("me", "whole")
	ask("fail", "chat", chat("fail", "fail", ""))
	g.end("me", "fail")
	ask("unheard", "chat", chat("unheard", "fail", `,"stream":false`))
	g.end("me", "unheard")
	ask("bad", "chat", `{"id":"bad","messages":[]}`)
	ask("odd", "dance", `{"id":"odd"}`)
	ask("other", "chat", chat("other", "hello", `,"model":"none"`))
	ask("ids", "tokenize", `{"id":"ids","text":"ab"}`)
	g.end("me", "ids")
	ask("one", "chat", chat("one", "wait", ""))
	step <- struct{}{}
	step <- struct{}{}
	g.await("two tokens", func() bool { return g.Server.desk.find("me", "one").stream.outcome().tokens == 2 })
	ask("two", "chat", chat("two", "wait too", ""))
	ask("three", "chat", chat("three", "hello", ""))
	ask("stop", "cancel", `{"id":"stop","target":"two"}`)
	g.end("me", "two")
	ask("stop1", "cancel", `{"id":"stop1","target":"one"}`)
	g.end("me", "one")
	big := chat("big", strings.Repeat("x", 70<<10), "")
	ask("big", "chat", big)
	r := localChat("http:anna", "hello")
	r.Received = sum("a body")
	if err := g.Server.Ask(t.Context(), r, func(r *Reply) error { return nil }); err != nil {
		t.Fatal(err)
	}
	bad := localChat("socket:", "hello")
	bad.MaxTokens = -1
	if g.Server.Ask(t.Context(), bad, func(*Reply) error { return nil }) == nil {
		t.Fatal("accepted")
	}
	g.tell("me", "verify", "j", `{"model":"tiny"}`)
	g.finalRecord("me", "j")
	g.tell("you", "verify", "k", `{}`)
	g.tell("me", "verify", "slow", `{}`)
	g.await("the job runs", func() bool { r := g.record("me", "slow"); return r != nil && r.Status == JobRunning })
	g.tell("me", "job_cancel", "slow", `{}`)
	g.finalRecord("me", "slow")

	said := "世" + "\uFFFD"
	for _, want := range []struct {
		id, op, code, finish, answer string
		unread                       bool
	}{
		{id: "good", op: "chat", code: "ok", finish: FinishCalls, answer: said},
		{id: "whole", op: "chat", code: "ok", finish: FinishCalls, answer: said},
		{id: "fail", op: "chat", code: "model_io_error", answer: "half an answer"},
		{id: "unheard", op: "chat", code: "model_io_error"},
		{id: "bad", op: "chat", code: "bad_request"},
		{id: "odd", op: "dance", code: "unsupported"},
		{id: "other", op: "chat", code: "unknown_model"},
		{id: "ids", op: "tokenize", code: "ok"},
		{id: "one", op: "chat", code: "ok", finish: FinishCancel, answer: "token 0 token 1 "},
		{id: "two", op: "chat", code: "canceled"},
		{id: "three", op: "chat", code: "queue_full"},
		{id: "stop", op: "cancel", code: "ok"},
		{id: "big", op: "chat", code: "payload_too_large", unread: true},
	} {
		a := b.of(want.id)
		if a.Op != want.op || a.Code != want.code || a.Finish != want.finish || a.Client != "me" || a.Local {
			t.Errorf("%s: %+v", want.id, a)
		}
		if in := sum(asked[want.id]); (a.Request != in) != want.unread || want.unread && a.Request != "" {
			t.Errorf("%s: request %q, want %q", want.id, a.Request, in)
		}
		if answer := sum(want.answer); want.answer == "" && a.Answer != "" || want.answer != "" && a.Answer != answer {
			t.Errorf("%s: answer %q, want that of %q", want.id, a.Answer, want.answer)
		}
	}
	good := b.of("good")
	if good.Thinking != sum("let me see") || good.Calls != sum("clock\x00{\"zone\":\"UTC\"}\x00") || good.Model.SHA256 != "cd" || good.Usage.Completion != 3 ||
		good.MaxTokens != 5 || !good.Think || good.Sampling == nil || good.Sampling.Seed != 7 || !good.Waits {
		t.Errorf("%+v", good)
	}
	if got := *g.end("me", "good").Done.Text; got != said {
		t.Errorf("the client has %q", got)
	}
	if a := b.of("two"); a.Waits || a.Sampling != nil || a.Model.Name != "tiny" {
		t.Errorf("what never ran: %+v", a)
	}
	local := 0
	b.mu.Lock()
	for _, a := range b.all {
		if a.Local {
			local++
			if a.Client == "http:anna" && (a.Request != sum("a body") || a.Code != "ok") || a.Client == "socket:" && a.Code != "bad_request" {
				t.Errorf("%+v", a)
			}
		}
	}
	late := b.late
	b.mu.Unlock()
	if local != 2 || len(late) > 0 {
		t.Errorf("%d of this process; told too late, or twice: %v", local, late)
	}
	for id, status := range map[string]string{"j": JobSucceeded, "k": JobRejected, "slow": JobCanceled} {
		if a := b.of("job " + id); a.Job == nil || a.Job.Status != status || (a.Code == "ok") != (status == JobSucceeded) {
			t.Errorf("job %s: %+v", id, a)
		}
	}
	if a := b.of("job j"); a.Request != sum(`{"model":"tiny"}`) || a.Job.Type != "verify" {
		t.Errorf("%+v", a)
	}
}
