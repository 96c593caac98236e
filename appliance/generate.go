// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"math/rand/v2"

	"windhover/control"
	"windhover/engine"
	"windhover/engine/tokenizer"
)

// Resolve names the model that a request would run on.
func (b *backend) Resolve(name string) (control.ModelRef, error) { return b.reg.resolve(name) }

// Generate carries out one generation on the version of the model that serves
// when it starts.
func (b *backend) Generate(ctx context.Context, r *control.Request, emit func(control.Event) error) (*control.Result, error) {
	s, release, err := b.reg.acquire(ctx, r.Model)
	if err != nil {
		return nil, coded(err, control.Internal)
	}
	defer release()
	ctx, end := context.WithCancel(ctx)
	defer end() // its pictures are let go
	tokens, pictures, err := promptTokens(ctx, s, r, b.cfg.Paths.imports())
	if err != nil {
		return nil, coded(err, control.BadRequest)
	}
	if b.cfg.Log.Prompts {
		b.log.Info("prompt", "client", r.Client, "id", r.ID, "text", s.Tokenizer().Decode(tokens, false))
	}
	req := engineRequest(s, r, tokens)
	req.Pictures, req.Realm = pictures, b.cfg.Engine.realm(r.Client)
	res, err := s.Generate(ctx, req, func(e engine.Event) error { return emit(event(e)) })
	if err != nil {
		b.metrics.failed(err)
		return nil, coded(err, control.Internal)
	}
	b.metrics.generated(res)
	if b.cfg.Log.Prompts {
		b.log.Info("answer", "client", r.Client, "id", r.ID, "text", res.Text)
	}
	return &control.Result{
		Finish: res.Finish, TTFT: res.Timing.TTFT, Model: s.ref(),
		Usage:      Usage(res.Usage),
		PrefillTPS: round1(res.Timing.PrefillTPS), DecodeTPS: round1(res.Timing.DecodeTPS),
	}, nil
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
	if len(r.Schema) > 0 {
		return nil, nil, control.Errorf(control.Unsupported, "json_schema is not supported by this build yet: leave it out")
	}
	if r.Op == control.OpGenerate {
		return PlainTokens(s.Tokenizer(), s.Meta(), r.Prompt), nil, nil
	}
	c := conversation{
		Chat:  tokenizer.Chat{Messages: make([]tokenizer.Message, len(r.Messages)), Tools: r.Tools, AddGenerationPrompt: true, EnableThinking: &r.Think},
		going: expendable(r.Truncate, r.Messages),
	}
	for i, m := range r.Messages {
		var err error
		if c.Messages[i], err = templateMessage(m); err != nil {
			return nil, nil, err
		}
	}
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

func event(e engine.Event) control.Event {
	switch {
	case e.Progress != nil:
		return control.Event{Phase: "prefill", Done: e.Progress.Done, Total: e.Progress.Total}
	case e.Delta != nil:
		return control.Event{Text: e.Delta.Text, Thinking: e.Delta.Thinking, Tokens: e.Delta.Tokens}
	default:
		return control.Event{}
	}
}
