// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"unicode/utf8"

	"windhover/control"
	"windhover/engine"
	"windhover/engine/tokenizer"
)

// Resolve names the model that a request would run on.
func (b *backend) Resolve(name string) (control.ModelRef, error) {
	if err := b.heat.refuses(); err != nil {
		return control.ModelRef{Name: name}, err
	}
	if err := b.audit.refuses(); err != nil {
		return control.ModelRef{Name: name}, err
	}
	return b.reg.resolve(name)
}

// Generate carries out one generation on the version of the model that serves
// when it starts.
func (b *backend) Generate(ctx context.Context, r *control.Request, emit func(control.Event) error) (*control.Result, error) {
	s, release, err := b.reg.acquire(ctx, r.Model)
	if err != nil {
		return nil, coded(err, control.Internal)
	}
	defer release()
	if r.Op == control.OpEmbed {
		return b.embed(ctx, s, r, emit)
	}
	ctx, end := context.WithCancel(ctx)
	defer end() // its pictures are let go
	tokens, pictures, err := promptTokens(ctx, s, r, b.cfg.Paths.imports())
	if err != nil {
		return nil, coded(unshortened(r, err), control.BadRequest)
	}
	if b.cfg.Log.Prompts {
		b.log.Info("prompt", "client", r.Client, "id", r.ID, "text", s.Tokenizer().Decode(tokens, false))
	}
	req := engineRequest(s, r, tokens)
	req.Pictures, req.Realm = pictures, b.now().Engine.realm(r.Client)
	say := teller{tok: s.Tokenizer(), id: r.ID}
	res, err := s.Generate(ctx, req, func(e engine.Event) error { return emit(say.event(e)) })
	if err != nil {
		return nil, b.broken(ctx, r, s, unshortened(r, err))
	}
	b.metrics.generated(res)
	if b.cfg.Log.Prompts {
		b.log.Info("answer", "client", r.Client, "id", r.ID, "text", res.Text)
	}
	finish := res.Finish
	if finish == engine.FinishStop && len(res.ToolCalls) > 0 {
		finish = control.FinishCalls
	}
	return &control.Result{
		Finish: finish, BadToolCall: res.BadToolCall, TTFT: res.Timing.TTFT, Model: s.ref(),
		Usage:      Usage(res.Usage),
		PrefillTPS: round1(res.Timing.PrefillTPS), DecodeTPS: round1(res.Timing.DecodeTPS),
		Sampling: &control.Sampling{Seed: req.Sampling.Seed, Temperature: req.Sampling.Temperature, TopP: req.Sampling.TopP,
			TopK: req.Sampling.TopK, MinP: req.Sampling.MinP, RepeatPenalty: req.Sampling.RepeatPenalty},
	}, nil
}

// broken gives the error of a request its code, and tells of it where the box is at
// fault. What is wrong with a request itself is told to the client alone: it may quote the
// request. Nor is it a fault that somebody, or a deadline, has ended it.
func (b *backend) broken(ctx context.Context, r *control.Request, s *serving, err error) *control.Error {
	out := coded(err, control.Internal)
	if cause := context.Cause(ctx); cause != nil && errors.Is(err, cause) {
		return out
	}
	switch out.Code {
	case control.Internal, control.ModelIOError, control.HealthCheckFailed, control.InsufficientMem:
		b.log.Error("a request failed", "client", r.Client, "id", r.ID, "model", s.Name, "version", s.Version, "code", out.Code.Name, "error", out.Message)
	}
	return out
}

// Usage is what a generation used, in the words of the protocol.
func Usage(u engine.Usage) control.Usage {
	return control.Usage{
		Prompt: u.Prompt, Completion: u.Completion, Cached: u.Cached, Pictures: u.Pictures, PicturesKnown: u.PicturesKnown,
	}
}

// Tokenize returns the token ids of the prompt.
func (b *backend) Tokenize(ctx context.Context, r *control.Request) ([]int32, error) {
	s, release, err := b.reg.acquire(ctx, r.Model)
	if err != nil {
		return nil, coded(err, control.Internal)
	}
	defer release()
	return s.Tokenizer().Encode(r.Prompt, true), nil
}

// promptTokens makes the tokens of a request: the prompt as it is, or the messages
// through the model's own template. Pictures come from the request, or from the
// directory imports.
func promptTokens(ctx context.Context, s *serving, r *control.Request, imports string) ([]int32, []*engine.Picture, error) {
	if r.Op == control.OpGenerate {
		return PlainTokens(s.Tokenizer(), s.Meta(), r.Prompt), nil, nil
	}
	c := conversation{
		Chat:  tokenizer.Chat{Messages: make([]tokenizer.Message, len(r.Messages)), Tools: tools(r), AddGenerationPrompt: true, EnableThinking: &r.Think},
		going: expendable(r.Truncate, r.Messages),
	}
	for i, m := range r.Messages {
		var err error
		if c.Messages[i], err = templateMessage(m); err != nil {
			return nil, nil, err
		}
	}
	inWords(s.Template(), c.Messages)
	read := pictureReader{ctx: ctx, s: s, imports: imports, room: s.Info().Context - r.MaxTokens, answer: r.MaxTokens}
	if err := c.readPictures(&read, r.Messages); err != nil {
		return nil, nil, err
	}
	return c.tokens(ctx, s, read.room)
}

// engineRequest fills in what the request leaves open: the model's own defaults,
// else those of the protocol.
func engineRequest(s *serving, r *control.Request, tokens []int32) engine.Request {
	g := s.Meta().Generation
	return engine.Request{
		Tokens: tokens, MaxTokens: r.MaxTokens, Stop: r.Stop, ThinkBudget: r.ThinkBudget, Truncate: truncate(r),
		Raw: r.Op == control.OpGenerate, Client: r.Client, Priority: r.Priority,
		Schema: r.Schema, JSONObject: r.JSONObject, MayThink: r.Think, Logprobs: r.Logprobs, TopLogprobs: r.TopLogprobs,
		Tools: tools(r), MustCall: r.ToolChoice == control.ToolsRequired || r.ToolChoice == control.ToolsNamed, CallTool: r.ToolName, OneCall: r.OneCall,
		Sampling: engine.Sampling{
			Temperature:   first(r.Temperature, g.Temperature, control.DefaultTemperature),
			TopP:          first(r.TopP, g.TopP, control.DefaultTopP),
			TopK:          first(r.TopK, g.TopK, control.DefaultTopK),
			MinP:          r.MinP,
			RepeatPenalty: r.RepeatPenalty,
			Seed:          first(r.Seed, nil, rand.Uint64()),
		},
	}
}

// truncate is what the engine may cut: the beginning of a plain text. A chat lost
// whole messages before; cutting into the one that is left would cut the template.
func truncate(r *control.Request) string {
	if r.Op == control.OpGenerate {
		return r.Truncate
	}
	return ""
}

// first returns the first value that is there.
func first[T any](a, b *T, otherwise T) T {
	switch {
	case a != nil:
		return *a
	case b != nil:
		return *b
	default:
		return otherwise
	}
}

// tools are those that the model is told of.
func tools(r *control.Request) []json.RawMessage {
	if r.ToolChoice == control.ToolsNone {
		return nil
	}
	return r.Tools
}

// teller turns what an engine says into the words of the protocol.
type teller struct {
	tok   *tokenizer.Tokenizer
	id    string // of the request
	calls int    // of tools so far
}

func (t *teller) event(e engine.Event) control.Event {
	switch {
	case e.Progress != nil:
		return control.Event{Phase: "prefill", Done: e.Progress.Done, Total: e.Progress.Total}
	case e.Delta != nil:
		out := control.Event{Text: e.Delta.Text, Thinking: e.Delta.Thinking, Tokens: e.Delta.Tokens, Logprobs: Logprobs(t.tok, e.Delta.Logprobs)}
		for _, c := range e.Delta.ToolCalls {
			out.ToolCalls = append(out.ToolCalls, control.ToolCall{
				Index: t.calls, ID: fmt.Sprintf("%s-%d", t.id, t.calls), Name: c.Name, Arguments: c.Arguments,
			})
			t.calls++
		}
		return out
	default:
		return control.Event{}
	}
}

// Logprobs gives tokens their text.
func Logprobs(tok *tokenizer.Tokenizer, logs []engine.Logprob) []control.TokenLogprob {
	var out []control.TokenLogprob
	for _, l := range logs {
		raw := tok.TokenBytes(l.ID)
		p := control.TokenLogprob{Token: strings.ToValidUTF8(string(raw), "\uFFFD"), ID: l.ID, Logprob: l.Value, Top: Logprobs(tok, l.Top)}
		if !utf8.Valid(raw) {
			p.Bytes = raw
		}
		out = append(out, p)
	}
	return out
}
