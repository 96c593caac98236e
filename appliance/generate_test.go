// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"syscall"
	"testing"

	"windhover/control"
	"windhover/engine"
)

// A conversation that does not fit is refused with the counts, or loses its oldest
// messages where the request says so.
func TestChatTooLong(t *testing.T) {
	r := newRig(t, t.TempDir())
	r.put(t, "m.vqf", tinyModel(t, nil))
	r.scan(context.Background())
	s, release, err := r.reg.acquire(context.Background(), "m")
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	req := &control.Request{Op: control.OpChat, MaxTokens: 16}
	turn := strings.Repeat("a", s.Info().Context/4)
	for range 8 {
		req.Messages = append(req.Messages, control.Message{Role: "user", Content: control.Content{Text: turn}},
			control.Message{Role: "assistant", Content: control.Content{Text: turn}})
	}
	req.Messages = append(req.Messages, control.Message{Role: "user", Content: control.Content{Text: "last"}})
	run := func() error {
		tokens, _, err := promptTokens(context.Background(), s, req, "")
		if err != nil {
			return err
		}
		_, err = s.Generate(context.Background(), engineRequest(s, req, tokens), func(engine.Event) error { return nil })
		return err
	}
	if err := run(); !errors.Is(err, engine.ErrContextOverflow) {
		t.Errorf("without truncate: got %v", err)
	}
	req.Truncate = "oldest"
	if err := run(); err != nil {
		t.Errorf("with truncate: %v", err)
	}
	// One message alone that does not fit is never cut.
	req.Messages = []control.Message{{Role: "user", Content: control.Content{Text: strings.Repeat("a", s.Info().Context+1)}}}
	if err := run(); !errors.Is(err, engine.ErrContextOverflow) {
		t.Errorf("one long message: got %v", err)
	}
	// The advice is one that can be followed: truncate only where it was not asked for.
	b := &backend{reg: r.reg, log: r.log, metrics: newMetrics(r.reg)}
	for policy, want := range map[string]string{
		"":       `lower max_tokens or ask for truncate "oldest" or "middle"`,
		"oldest": "truncate has nothing more to drop: shorten what it keeps",
		"middle": "truncate has nothing more to drop: shorten what it keeps",
	} {
		req.Truncate = policy
		_, err := b.Generate(context.Background(), req, func(control.Event) error { return nil })
		if !errors.Is(err, control.ContextOverflow) || !strings.Contains(err.Error(), want) {
			t.Errorf("truncate %q: got %v, want %q", policy, err, want)
		}
	}
}

// A request's form, tools and logprobs go the whole way, and come back in the words of
// the protocol.
func TestGenerateInAForm(t *testing.T) {
	r := newRig(t, t.TempDir())
	r.put(t, "m.vqf", tinyModel(t, nil))
	r.scan(context.Background())
	b := &backend{reg: r.reg, log: r.log, metrics: newMetrics(r.reg)}
	run := func(payload string) (*control.Result, []control.Event) {
		t.Helper()
		req, err := control.DecodeRequest(control.OpChat, "me", []byte(payload))
		if err != nil {
			t.Fatal(err)
		}
		var events []control.Event
		res, err := b.Generate(context.Background(), req, func(e control.Event) error {
			events = append(events, e)
			return nil
		})
		if err != nil {
			t.Fatalf("%s: %v", payload, err)
		}
		return res, events
	}
	said := func(events []control.Event) (text string, calls []control.ToolCall, logs []control.TokenLogprob) {
		for _, e := range events {
			text += e.Text
			calls, logs = append(calls, e.ToolCalls...), append(logs, e.Logprobs...)
		}
		return text, calls, logs
	}

	res, events := run(`{"prompt":"hi","max_tokens":60,"json_schema":{"enum":["on","off"]},"logprobs":true,"top_logprobs":2}`)
	text, calls, logs := said(events)
	if text != `"on"` && text != `"off"` || res.Finish != control.FinishStop || calls != nil {
		t.Errorf("schema: %q, %+v, calls %v", text, res, calls)
	}
	tokens := ""
	for _, l := range logs {
		tokens += l.Token
		if len(l.Top) != 2 || l.Top[0].Token == l.Top[1].Token {
			t.Errorf("logprob %+v", l)
		}
	}
	if tokens != text {
		t.Errorf("logprobs of %q, the text is %q", tokens, text)
	}

	const tools = `"tools":[{"type":"function","function":{"name":"lamp","parameters":{"type":"object","properties":{"on":{"type":"boolean"}},"required":["on"]}}}]`
	res, events = run(`{"id":"q","prompt":"hi","max_tokens":150,` + tools + `,"tool_choice":"required"}`)
	text, calls, _ = said(events)
	if text != "" || res.Finish != control.FinishCalls || res.BadToolCall || len(calls) != 1 {
		t.Fatalf("call: %q, %+v, calls %v", text, res, calls)
	}
	if c := calls[0]; c.Name != "lamp" || c.ID != "q-0" || !strings.HasPrefix(c.Arguments, `{"on":`) {
		t.Errorf("call %+v", c)
	}
	_, events = run(`{"prompt":"hi","max_tokens":8,` + tools + `,"tool_choice":"none","json_object":true}`)
	if text, calls, _ = said(events); !strings.HasPrefix(text, "{") || calls != nil {
		t.Errorf("an object beside tools that are not to be called: %q, calls %v", text, calls)
	}
}

// A request that its client or a deadline ends is no fault of the box; an error that
// comes beside that is one.
func TestFaultsAreTold(t *testing.T) {
	deadline, unread := errors.New("deadline passed"), fmt.Errorf("page 7: %w", syscall.EIO)
	over, end := context.WithCancelCause(context.Background())
	end(deadline)
	for _, tt := range []struct {
		ctx  context.Context
		err  error
		code control.Code
		told bool
	}{
		{over, deadline, control.Internal, false},
		{over, fmt.Errorf("engine: %w", deadline), control.Internal, false},
		{over, unread, control.ModelIOError, true},
		{context.Background(), unread, control.ModelIOError, true},
		{context.Background(), deadline, control.Internal, true},
		{context.Background(), engine.ErrContextOverflow, control.ContextOverflow, false},
	} {
		var log bytes.Buffer
		b := &backend{log: slog.New(slog.NewTextHandler(&log, nil))}
		err := b.broken(tt.ctx, &control.Request{ID: "r7"}, &serving{Name: "m"}, tt.err)
		if told := strings.Contains(log.String(), "a request failed"); err.Code != tt.code || told != tt.told {
			t.Errorf("%v: code %s, told %v: %s", tt.err, err.Code.Name, told, log.String())
		}
	}
}
