// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"math/rand/v2"
	"slices"

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
	tokens, err := promptTokens(s, r)
	if err != nil {
		return nil, coded(err, control.BadRequest)
	}
	if b.cfg.Log.Prompts {
		b.log.Info("prompt", "client", r.Client, "id", r.ID, "text", s.Tokenizer().Decode(tokens, false))
	}
	res, err := s.Generate(ctx, engineRequest(s, r, tokens), func(e engine.Event) error { return emit(event(e)) })
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
		Usage:      control.Usage{Prompt: res.Usage.Prompt, Completion: res.Usage.Completion, Cached: res.Usage.Cached},
		PrefillTPS: round1(res.Timing.PrefillTPS), DecodeTPS: round1(res.Timing.DecodeTPS),
	}, nil
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
// through the model's own template.
func promptTokens(s *serving, r *control.Request) ([]int32, error) {
	if len(r.Schema) > 0 {
		return nil, control.Errorf(control.Unsupported, "json_schema is not supported by this build yet: leave it out")
	}
	if r.Op == control.OpGenerate {
		return PlainTokens(s.Tokenizer(), s.Meta(), r.Prompt), nil
	}
	messages := make([]tokenizer.Message, len(r.Messages))
	for i, m := range r.Messages {
		msg, err := templateMessage(m)
		if err != nil {
			return nil, err
		}
		messages[i] = msg
	}
	chat := tokenizer.Chat{Messages: messages, Tools: r.Tools, AddGenerationPrompt: true, EnableThinking: &r.Think}
	for {
		tokens, err := ChatTokens(s.Tokenizer(), s.Template(), chat)
		if err != nil || r.Truncate != "oldest" || len(tokens) <= s.Info().Context-r.MaxTokens || !dropOldest(&chat) {
			return tokens, err
		}
	}
}

// dropOldest takes the oldest message out of a conversation. The system message at
// its beginning and the last message stay; it reports false when only they are left.
func dropOldest(chat *tokenizer.Chat) bool {
	at := 0
	if len(chat.Messages) > 0 && chat.Messages[0].Role == "system" {
		at = 1
	}
	if len(chat.Messages)-at < 2 {
		return false
	}
	chat.Messages = slices.Delete(chat.Messages, at, at+1)
	return true
}

// PlainTokens encodes a text to be continued, with the token that the model wants
// at the beginning of a text.
func PlainTokens(tok *tokenizer.Tokenizer, meta *engine.Meta, text string) []int32 {
	ids := tok.Encode(text, true)
	if meta.AddBOS && meta.BosID >= 0 {
		ids = append([]int32{meta.BosID}, ids...)
	}
	return ids
}

// ChatTokens renders a conversation with the model's own template and encodes it.
func ChatTokens(tok *tokenizer.Tokenizer, tmpl *tokenizer.Template, chat tokenizer.Chat) ([]int32, error) {
	if tmpl == nil {
		return nil, control.Errorf(control.BadRequest, "the model has no chat template that can be used: ask for a plain continuation (op generate, --raw)")
	}
	text, err := tmpl.Render(chat)
	if err != nil {
		return nil, control.Errorf(control.BadRequest, "chat template: %s", oneLine(err))
	}
	return tok.Encode(text, true), nil
}

// engineRequest fills in what the request leaves open: the model's own defaults,
// else those of the protocol.
func engineRequest(s *serving, r *control.Request, tokens []int32) engine.Request {
	g := s.Meta().Generation
	return engine.Request{
		Tokens: tokens, MaxTokens: r.MaxTokens, Stop: r.Stop, ThinkBudget: r.ThinkBudget, Truncate: truncate(r),
		Raw: r.Op == control.OpGenerate,
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
