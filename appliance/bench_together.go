// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"sync"
	"time"

	"windhover/engine"
)

// TogetherSpeed is how fast tokens are generated for several requests at once.
type TogetherSpeed struct {
	Mode     string  `json:"mode"`
	Threads  int     `json:"threads"`
	Requests int     `json:"requests"`
	TokS     float64 `json:"tok_s"`  // of all together, median of three
	OfOne    float64 `json:"of_one"` // as a multiple of one request's
	Tokens   int     `json:"tokens"` // of each
}

// togetherPrompt is how long the prompts are: all of them are one chunk.
const togetherPrompt = 16

// together measures 1, 2, 4 and 8 requests.
func (r *runner) together(ctx context.Context) error {
	r.say("         threads   requests     tok/s   times one")
	one := 0.0
	for n := 1; n <= engine.MaxSequences; n *= 2 {
		r.doing("%s at once, %s", several(n, "request"), threads(r.info.Threads))
		var rates []float64
		tokens := 0
		for range benchTimes {
			rate, each, err := r.atOnce(ctx, n)
			if err != nil {
				return err
			}
			rates, tokens = append(rates, rate), each
		}
		s := TogetherSpeed{Mode: r.info.Family, Threads: r.info.Threads, Requests: n, TokS: round1(median(rates)), Tokens: tokens}
		if n == 1 {
			one = median(rates)
		}
		s.OfOne = round2(median(rates) / one)
		r.report.Together = append(r.report.Together, s)
		r.say("         %7d   %8d %9.1f   %9.2f", s.Threads, s.Requests, s.TokS, s.OfOne)
	}
	return nil
}

// atOnce generates for n requests and returns tokens a second from the first token of
// any to the end of the last.
func (r *runner) atOnce(ctx context.Context, n int) (rate float64, tokens int, err error) {
	if tokens = r.opt.Tokens; tokens == 0 {
		tokens = benchTokensMost / 4
		if r.opt.Quick {
			tokens = 8
		}
	}
	start := time.Now()
	results, errs := make([]*engine.Result, n), make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		text := r.prompt(togetherPrompt)
		all.Go(func() { results[i], errs[i] = r.generate(ctx, text, tokens+1) })
	}
	all.Wait()
	took := time.Since(start)
	first := took
	for i, res := range results {
		if errs[i] != nil {
			return 0, 0, errs[i]
		}
		first = min(first, res.Timing.TTFT)
	}
	return float64(n*tokens) / (took - first).Seconds(), tokens, nil
}
