// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"
)

// Generate continues the tokens of req and calls on for progress and for each
// piece of text. on may be nil; an error it returns ends the generation and is
// returned.
//
// The result of a context that is cancelled or whose deadline passes is what
// there was until then, with Finish saying so, and no error: within 200 ms, in
// prefill as well. Errors: [ErrBusy], [ErrClosed], [ErrRequest],
// [ErrContextOverflow], [ErrNumeric], [ErrUnsupported], *kernels.FaultError.
func (m *Model) Generate(ctx context.Context, req Request, on func(Event) error) (res *Result, err error) {
	start := time.Now()
	end, err := m.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end(&err)
	g, err := m.newGeneration(req, on)
	if err != nil {
		return nil, err
	}
	g.start = start
	if err := g.run(ctx); err != nil {
		return nil, err
	}
	return g.result(), nil
}

// generation is one request under way.
type generation struct {
	m      *Model
	req    Request
	on     func(Event) error
	prompt []int32 // what is left of the request's after truncation
	max    int     // tokens to generate at most
	stops  []int32 // tokens that end the answer
	out    answer

	ids    []int32 // generated
	unsent int     // of them, not yet in a Delta
	forced []int32 // to be said before anything is sampled
	closed bool    // the thinking budget was used up

	finish string
	cached int       // tokens of the prompt that were in the cache
	start  time.Time // request taken
	ready  time.Time // prompt computed
	first  time.Time // first token known
	end    time.Time
}

// newGeneration checks a request against the model.
func (m *Model) newGeneration(req Request, on func(Event) error) (*generation, error) {
	g := &generation{m: m, req: req, on: on, prompt: req.Tokens, max: req.MaxTokens}
	if err := m.checkTokens(req.Tokens); err != nil {
		return nil, err
	}
	if err := req.Sampling.check(); err != nil {
		return nil, err
	}
	if m.tok == nil && (len(req.Stop) > 0 || req.ThinkBudget > 0) {
		return nil, badRequest("stop strings and a thinking budget need a tokenizer")
	}
	for _, stop := range req.Stop {
		if stop == "" || !utf8.ValidString(stop) {
			return nil, badRequest("stop string %q: empty or not UTF-8", stop)
		}
	}
	if req.MaxTokens < 0 || req.ThinkBudget < 0 {
		return nil, badRequest("max_tokens %d and think_budget %d: want 0 or more", req.MaxTokens, req.ThinkBudget)
	}
	if err := g.fit(); err != nil {
		return nil, err
	}
	g.stops = append(g.stops, req.StopIDs...)
	if !req.IgnoreEOS {
		g.stops = append(g.stops, m.meta.StopIDs...)
	}
	g.ids = make([]int32, 0, g.max)
	g.out = answer{marks: m.marks, raw: req.Raw, stop: stopper{stops: req.Stop}}
	if m.tok != nil {
		g.out.stream = m.tok.NewStream(!req.Raw)
		inside := !req.Raw && m.marks.openAtEnd(m.tok, g.prompt)
		g.out.inside, g.out.trim = inside, inside
	}
	return g, nil
}

// fit holds prompt and max_tokens against the context: an error with the
// counts, or what the request's policy says.
func (g *generation) fit() error {
	size := g.m.kv.ctx
	want := max(g.max, 1)
	switch g.req.Truncate {
	case "":
	case "oldest":
		if keep := size - want; keep > 0 && len(g.prompt) > keep {
			g.prompt = g.prompt[len(g.prompt)-keep:]
		}
	default:
		return badRequest("truncate %q, want oldest", g.req.Truncate)
	}
	if want > size-len(g.prompt) {
		return &ContextError{Prompt: len(g.req.Tokens), MaxTokens: g.max, Context: size}
	}
	if g.max == 0 {
		g.max = size - len(g.prompt)
	}
	return nil
}

// run generates and settles how it ended.
func (g *generation) run(ctx context.Context) error {
	err := g.loop(ctx)
	g.end = time.Now()
	if errors.Is(err, errStopped) {
		err, g.finish = nil, FinishCancel
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			g.finish = FinishDeadline
		}
	}
	if err != nil {
		return err
	}
	g.out.finish()
	return g.emit()
}

// loop is prefill, then token by token.
func (g *generation) loop(ctx context.Context) error {
	m := g.m
	if err := g.prefill(); err != nil {
		return err
	}
	g.ready = time.Now()
	m.sampler.reset(g.req.Sampling, g.prompt)
	for {
		id, err := g.next()
		if err != nil {
			return err
		}
		if g.first.IsZero() {
			g.first = time.Now()
		}
		if g.take(id) {
			g.finish = FinishStop
			return nil
		}
		if len(g.ids) == g.max {
			g.finish = FinishLength
			return nil
		}
		if err := g.emit(); err != nil {
			return err
		}
		// The flag that watch sets may come a little later than this.
		if ctx.Err() != nil {
			return errStopped
		}
		if err := m.step(id); err != nil {
			return err
		}
	}
}

// prefill computes what of the prompt is not in the cache; the logits of its
// last token are then in m.st.logits.
func (g *generation) prefill() error {
	m := g.m
	g.cached = m.reuse(g.prompt)
	rest := g.prompt[g.cached:]
	for {
		n := min(len(rest), m.chunk)
		if err := m.feed(rest[:n]); err != nil {
			return err
		}
		rest = rest[n:]
		if len(g.prompt) > m.chunk && g.on != nil {
			p := Progress{Done: len(g.prompt) - len(rest), Total: len(g.prompt)}
			if err := g.on(Event{Progress: &p}); err != nil {
				return err
			}
		}
		if len(rest) == 0 {
			return m.st.head(n-1, 1)
		}
	}
}

// next is the next token: a forced one, else one that is sampled.
func (g *generation) next() (int32, error) {
	if b := g.req.ThinkBudget; b > 0 && g.out.inside && g.out.thought >= b && !g.closed {
		g.forced, g.closed = g.m.marks.end, true
	}
	if len(g.forced) > 0 {
		id := g.forced[0]
		g.forced = g.forced[1:]
		return id, nil
	}
	id, err := g.m.sampler.pick(g.m.st.logits[:g.m.cfg.Vocab])
	if err != nil {
		return 0, fmt.Errorf("engine: token %d: %w", len(g.ids), err)
	}
	return id, nil
}

// take adds a token to the answer; it reports true when the answer ends.
func (g *generation) take(id int32) bool {
	if slices.Contains(g.stops, id) {
		return true
	}
	g.ids = append(g.ids, id)
	g.unsent++
	g.m.sampler.accept(id)
	return g.out.token(id)
}

// emit sends new text, if there is any.
func (g *generation) emit() error {
	text, thinking := g.out.take()
	if text == "" && thinking == "" || g.on == nil {
		return nil
	}
	d := Delta{Text: text, Thinking: thinking, Tokens: g.unsent}
	g.unsent = 0
	return g.on(Event{Delta: &d})
}

func (g *generation) result() *Result {
	r := &Result{
		Text: g.out.text.String(), Thinking: g.out.thinking.String(), Finish: g.finish, Tokens: g.ids,
		Truncated: len(g.req.Tokens) - len(g.prompt),
		Usage:     Usage{Prompt: len(g.prompt), Completion: len(g.ids), Cached: g.cached},
		Timing:    Timing{Total: g.end.Sub(g.start)},
	}
	t := &r.Timing
	if g.ready.IsZero() {
		t.Prefill = t.Total
		return r
	}
	t.Prefill = g.ready.Sub(g.start)
	t.PrefillTPS = rate(len(g.prompt)-g.cached, t.Prefill)
	if !g.first.IsZero() {
		t.TTFT, t.Decode = g.first.Sub(g.start), g.end.Sub(g.first)
		t.DecodeTPS = rate(len(g.ids)-1, t.Decode)
	}
	return r
}

// rate is n a second, 0 when there is nothing to measure.
func rate(n int, d time.Duration) float64 {
	if n <= 0 || d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}
