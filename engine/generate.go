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
// piece of text, on the caller's goroutine: pieces that come while on runs are
// given together. Other requests do not wait for it; this one does when on is far
// behind. on may be nil; an error it returns ends the generation and is returned.
//
// It may be called by many goroutines at once: their requests are computed beside
// each other, and none changes what another is told. Those for which there is no
// room wait, see [Request.Priority] and [Request.Client].
//
// The result of a context that is cancelled or whose deadline passes is what
// there was until then, with Finish saying so, and no error: within 200 ms, in
// prefill as well. Errors: [ErrClosed], [ErrRequest], [ErrContextOverflow],
// [ErrNumeric], [ErrUnsupported], *kernels.FaultError.
func (m *Model) Generate(ctx context.Context, req Request, on func(Event) error) (*Result, error) {
	start := time.Now()
	g, err := m.newGeneration(req)
	if err != nil {
		return nil, err
	}
	defer g.drop()
	g.start, g.listens = start, on != nil
	if g.form != nil {
		went, err := g.ponder(ctx)
		if err != nil {
			return nil, err
		}
		if !went {
			g.finish, g.end = finishOf(ctx), time.Now()
			return g.result(), nil
		}
	}
	if err := m.sched.enter(g); err != nil {
		return nil, err
	}
	return g.follow(ctx, on)
}

// generation is one request under way.
type generation struct {
	m       *Model
	req     Request
	prompt  []int32 // what is left of the request's after truncation
	max     int     // tokens to generate at most
	stops   []int32 // tokens that end the answer
	sampler *sampler
	bell    chan struct{} // capacity 1: there is news
	listens bool          // on is not nil
	scene   *scene        // nil: text only
	tools   *toolParser   // nil: calls of tools are text
	realm   realm         // of the request
	leaving context.Context
	quit    func() // ends leaving: nobody waits any more; nil with neither scene nor form

	// The scheduler's alone.
	arrival int64
	urgency int // of the request's priority, and of having waited: lower first
	passed  int // by how many younger ones since urgency last changed
	account *account
	seq     *sequence // nil while it waits
	forced  []int32   // to be said before anything is sampled
	closed  bool      // the thinking budget was used up
	form    *form     // that the answer is held to; nil: none
	pooled  []float32 // nil: tokens are asked for; else [dim], what is made of the last one of all
	puzzled bool      // where its last token has led to is being found out

	// Guarded by the scheduler's mutex until over, the caller's then. What only the
	// scheduler writes it reads without.
	all      []int32 // prompt and what was generated
	labels   []int32 // the same with pictures told apart; nil without a scene
	out      answer  // take is the caller's
	unsent   int     // tokens generated that are in no Delta yet
	logs     []Logprob
	told     int      // of logs, those that are in a Delta
	progress Progress // of a long prompt
	computed bool     // progress is news
	lag      int      // tokens since the caller began to be behind
	news     bool
	over     bool
	finish   string
	err      error
	panicked any // to go on in the caller
	cached   int // tokens of the prompt that were in the cache

	// Pictures that were known when there were so many positions.
	picturesKnown, lookedAt int

	start time.Time // request taken
	begun time.Time // its turn came
	ready time.Time // prompt computed
	first time.Time // first token known
	end   time.Time
}

// newGeneration checks a request against the model.
func (m *Model) newGeneration(req Request) (*generation, error) {
	g := &generation{m: m, req: req, prompt: req.Tokens, max: req.MaxTokens, bell: make(chan struct{}, 1), realm: realmOf(req.Realm)}
	if err := m.checkTokens(req.Tokens, len(req.Pictures) > 0); err != nil {
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
	if req.TopLogprobs < 0 || req.TopLogprobs > MaxTopLogprobs || req.TopLogprobs > 0 && !req.Logprobs {
		return nil, badRequest("top_logprobs %d: 0 to %d, with logprobs", req.TopLogprobs, MaxTopLogprobs)
	}
	if req.MaxTokens < 0 || req.ThinkBudget < 0 {
		return nil, badRequest("max_tokens %d and think_budget %d: want 0 or more", req.MaxTokens, req.ThinkBudget)
	}
	if err := g.fit(); err != nil {
		return nil, err
	}
	if err := g.see(); err != nil {
		return nil, err
	}
	if err := g.hold(); err != nil {
		return nil, err
	}
	if g.scene != nil || g.form != nil {
		g.leaving, g.quit = context.WithCancel(context.Background())
	}
	g.stops = append(g.stops, req.StopIDs...)
	if !req.IgnoreEOS {
		g.stops = append(g.stops, m.meta.StopIDs...)
	}
	g.all = append(make([]int32, 0, len(g.prompt)+g.max), g.prompt...)
	g.sampler = newSampler(m.scratch, req.Sampling, g.prompt)
	g.out = answer{marks: m.marks, raw: req.Raw, stop: stopper{stops: req.Stop}, tools: g.tools}
	if m.tok != nil {
		g.out.stream = m.tok.NewStream(!req.Raw)
		inside := !req.Raw && m.marks.openAtEnd(m.tok, g.prompt)
		g.out.inside, g.out.trim = inside, inside
	}
	return g, nil
}

// middleHead is the part of the room that TruncateMiddle leaves to the beginning.
const middleHead = 4

// fit holds prompt and max_tokens against the context: an error with the
// counts, or what the request's policy says. The token that the model wants at the
// beginning of a text stays there.
func (g *generation) fit() error {
	size := g.m.st.size.ctx
	want := max(g.max, 1)
	keep := size - want
	head := 0
	if len(g.prompt) > 0 && g.prompt[0] == g.m.meta.BosID && keep > 1 {
		head = 1
	}
	switch g.req.Truncate {
	case "":
		keep = 0
	case TruncateOldest:
	case TruncateMiddle:
		head = max(head, keep/middleHead)
	default:
		return badRequest("truncate %q, want %s or %s", g.req.Truncate, TruncateOldest, TruncateMiddle)
	}
	if keep > 0 && len(g.prompt) > keep {
		g.prompt = slices.Concat(g.prompt[:head], g.prompt[len(g.prompt)-keep+head:])
	}
	if want > size-len(g.prompt) {
		return &ContextError{Prompt: len(g.req.Tokens), MaxTokens: g.max, Context: size, Truncated: g.req.Truncate != ""}
	}
	if g.max == 0 {
		g.max = size - len(g.prompt)
	}
	return nil
}

// ids are the tokens that were generated.
func (g *generation) ids() []int32 { return g.all[len(g.prompt):] }

// known is what the sequence holds or is to hold so far, as the prefix tree tells
// it apart.
func (g *generation) known() []int32 {
	if g.scene != nil {
		return g.labels
	}
	return g.all
}

// whole is how many positions there are to be room for: those of the tokens that are
// known, and where another will be said, its.
func (g *generation) whole() int {
	if g.pooled != nil {
		return len(g.all)
	}
	return len(g.all) + 1
}

// left is how many tokens are to be computed before another can be said.
func (g *generation) left() int { return len(g.all) - g.seq.len() }

// begin says that the request's turn has come for the first time.
func (g *generation) begin() {
	g.begun, g.cached = time.Now(), g.seq.len()
	g.looked()
}

// progressed makes news of how much of a long prompt is computed.
func (g *generation) progressed() {
	if g.listens && len(g.prompt) > g.m.chunk && g.ready.IsZero() {
		g.progress, g.computed, g.news = Progress{Done: g.seq.len(), Total: len(g.prompt)}, true, true
	}
}

// next is the next token, and its logprob where that is asked for.
func (g *generation) next(logits []float32) (int32, error) {
	logged := g.req.Logprobs && !g.out.inside
	if logged {
		g.sampler.remember(logits)
	}
	id, err := g.choose(logits)
	if err != nil || !logged || id == g.m.marks.open && !g.req.Raw || slices.Contains(g.stops, id) {
		return id, err
	}
	l, err := g.sampler.logprob(id, g.req.TopLogprobs)
	g.logs = append(g.logs, l)
	return id, err
}

// choose is the next token: a forced one, else one that is sampled.
func (g *generation) choose(logits []float32) (int32, error) {
	if b := g.req.ThinkBudget; b > 0 && g.out.inside && g.out.thought >= b && !g.closed {
		g.forced, g.closed = g.m.marks.end, true
	}
	if g.form != nil && !g.out.inside {
		if err := g.form.before(g, logits); err != nil {
			return 0, err
		}
	}
	if len(g.forced) > 0 {
		id := g.forced[0]
		g.forced = g.forced[1:]
		return id, nil
	}
	id, err := g.sampler.pick(logits)
	if err != nil {
		return 0, fmt.Errorf("engine: token %d: %w", len(g.ids()), err)
	}
	return id, nil
}

// take adds a token to the answer; it reports true when the answer ends.
func (g *generation) take(id int32) bool {
	if slices.Contains(g.stops, id) {
		return true
	}
	g.all = append(g.all, id)
	if g.scene != nil {
		g.labels = append(g.labels, id)
	}
	g.unsent++
	g.sampler.accept(id)
	inside := g.out.inside
	ended := g.out.token(id)
	if g.form != nil {
		ended = g.form.behind(g, id, inside) || ended
	}
	if g.listens && g.out.isNew() {
		g.news = true
		g.lag++
	}
	return ended
}

// maxLag is how many tokens a listener may be behind: none that keeps up with a
// network is, and one who stops the answer should not have paid for much more.
const maxLag = 32

// behind tells whether the request waits for its listener.
func (g *generation) behind() bool { return g.lag >= maxLag && !g.over }

// tell wakes the caller if there is news for him; it reports whether there was.
func (g *generation) tell() bool {
	if !g.news {
		return false
	}
	g.news = false
	select {
	case g.bell <- struct{}{}:
	default: // he is going to look anyway
	}
	return true
}

// follow gives the news to on until the request is over.
func (g *generation) follow(ctx context.Context, on func(Event) error) (*Result, error) {
	s := g.m.sched
	defer s.leave(g, FinishCancel) // on may fail, or panic
	for {
		select {
		case <-g.bell:
		case <-ctx.Done():
			s.leave(g, finishOf(ctx))
		}
		over, err := g.deliver(on)
		switch {
		case err != nil:
			return nil, err
		case !over:
		case g.panicked != nil:
			panic(g.panicked)
		case g.err != nil:
			return nil, g.err
		default:
			return g.result(), nil
		}
	}
}

// finishOf is how a request ends whose context has.
func finishOf(ctx context.Context) string {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return FinishDeadline
	}
	return FinishCancel
}

// drop gives back what a request holds beside the scheduler.
func (g *generation) drop() {
	if g.form != nil {
		g.m.forms.release(g.form.kept)
	}
}

// deliver calls on with what is new. It reports whether the request is over and all
// is told.
func (g *generation) deliver(on func(Event) error) (over bool, err error) {
	mu := &g.m.sched.mu
	mu.Lock()
	over = g.over
	progress, computed := g.progress, g.computed
	g.computed = false
	if g.behind() {
		g.m.sched.rouse()
	}
	g.lag = 0
	d := Delta{Tokens: g.unsent}
	fresh := g.out.take(&d)
	if fresh || over {
		d.Logprobs, g.told = g.logs[g.told:len(g.logs):len(g.logs)], len(g.logs)
	}
	if fresh {
		g.unsent = 0
	}
	mu.Unlock()
	if on == nil {
		return over, nil
	}
	if computed {
		if err := on(Event{Progress: &progress}); err != nil {
			return over, err
		}
	}
	if fresh || len(d.Logprobs) > 0 {
		return over, on(Event{Delta: &d})
	}
	return over, nil
}

func (g *generation) result() *Result {
	r := &Result{
		Text: g.out.text.String(), Thinking: g.out.thinking.String(), Finish: g.finish, Tokens: slices.Clip(g.ids()),
		Truncated: len(g.req.Tokens) - len(g.prompt),
		Usage: Usage{
			Prompt: len(g.prompt), Completion: len(g.ids()), Cached: g.cached,
			Pictures: len(g.req.Pictures), PicturesKnown: g.picturesKnown,
		},
		Timing: Timing{Total: g.end.Sub(g.start)},
	}
	r.Logprobs = g.logs
	if p := g.tools; p != nil {
		r.ToolCalls, r.BadToolCall = p.calls, p.bad
	}
	t := &r.Timing
	if g.begun.IsZero() {
		t.Wait = t.Total
		return r
	}
	t.Wait = g.begun.Sub(g.start)
	if g.ready.IsZero() {
		t.Prefill = g.end.Sub(g.begun)
		return r
	}
	t.Prefill = g.ready.Sub(g.begun)
	t.PrefillTPS = rate(len(g.prompt)-g.cached, t.Prefill)
	if !g.first.IsZero() {
		t.TTFT, t.Decode = g.first.Sub(g.start), g.end.Sub(g.first)
		t.DecodeTPS = rate(len(g.ids())-1, t.Decode)
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
