// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"fmt"
	"slices"
	"time"

	"windhover/engine"
)

// DecodeSpeed is how fast tokens are generated one by one behind a context.
type DecodeSpeed struct {
	Mode    string  `json:"mode"` // "q8" or "q4"
	Threads int     `json:"threads"`
	Context int     `json:"context"`
	TokS    float64 `json:"tok_s"` // median of three
	GBs     float64 `json:"weight_gb_s"`
	OfRead  float64 `json:"of_read"` // GBs as a part of the read loop's
	Tokens  int     `json:"tokens"`  // generated
}

// PrefillSpeed is how fast a prompt is computed.
type PrefillSpeed struct {
	Mode    string  `json:"mode"`
	Threads int     `json:"threads"`
	Tokens  int     `json:"tokens"`
	TokS    float64 `json:"tok_s"` // median of the runs
	GOPS    float64 `json:"gops"`  // of the weight matrices
	OfPeak  float64 `json:"of_peak"`
	Runs    int     `json:"runs"`
}

const (
	benchPrompt      = 512
	benchPromptQuick = 128
	// A prompt that takes less is computed three times.
	benchShort      = 2 * time.Second
	benchShortQuick = 300 * time.Millisecond
	// About how long a decoding is measured, in tokens of the speed that a first
	// short one shows.
	benchDecode      = 2 * time.Second
	benchDecodeQuick = 300 * time.Millisecond
	benchTokensMost  = 128
	benchTimes       = 3
)

// runner measures one loaded model.
type runner struct {
	*bench
	m    *engine.Model
	info engine.Info

	weights int64                   // bytes a token
	used    int32                   // token that the last prompt began with: none is found in the cache
	prefill map[int][]time.Duration // by tokens of the prompt
}

// run computes one long text once: what its beginnings take are the prefills, and
// where it is stopped are the contexts to decode behind. Short prompts are computed
// alone before that, for a median.
func (r *runner) run(ctx context.Context) error {
	r.prefill = map[int][]time.Duration{}
	warm := r.prompt(64)
	res, err := r.generate(ctx, warm, 2) // brings the file into memory
	if err == nil {
		res, err = r.generate(ctx, r.prompt(64), 2)
	}
	if err != nil {
		return err
	}
	short := benchShort
	if r.opt.Quick {
		short = benchShortQuick
	}
	for _, n := range r.prompts() {
		if time.Duration(float64(n)/res.Timing.PrefillTPS*float64(time.Second)) > short {
			continue
		}
		for range benchTimes - 1 {
			res, err := r.generate(ctx, r.prompt(n), 1)
			if err != nil {
				return err
			}
			r.prefill[n] = append(r.prefill[n], res.Timing.Prefill)
		}
	}
	return r.walk(ctx)
}

func (r *runner) walk(ctx context.Context) error {
	stops := slices.Concat(r.prompts(), r.contexts())
	slices.Sort(stops)
	stops = slices.Compact(stops)
	text := r.prompt(max(stops[len(stops)-1], 1))
	took, computed := time.Duration(0), 0
	for _, n := range stops {
		row := tokenRow{length: n}
		if n > 0 {
			res, err := r.generate(ctx, text[:n], 1)
			if err != nil {
				return err
			}
			took += res.Timing.Prefill
			computed += res.Usage.Prompt - res.Usage.Cached // a decoding may have left the first token
			if slices.Contains(r.prompts(), n) {
				r.prefill[n] = append(r.prefill[n], took*time.Duration(n)/time.Duration(computed))
				row.prefill = r.prefillSpeed(n)
			}
		}
		if slices.Contains(r.contexts(), n) {
			s, err := r.decode(ctx, text[:max(n, 1)], n)
			if err != nil {
				return err
			}
			row.decode = &s
		}
		r.add(row)
	}
	return nil
}

func (r *runner) prefillSpeed(tokens int) *PrefillSpeed {
	runs := r.prefill[tokens]
	rate := float64(tokens) / median(runs).Seconds()
	c := r.info.Config
	layer := 2*c.Dim*c.QO() + 2*c.Dim*c.KO() + 3*c.Dim*c.FFN
	s := &PrefillSpeed{Mode: r.info.Family, Threads: r.info.Threads, Tokens: tokens, TokS: round1(rate),
		GOPS: round1(2 * float64(c.Layers) * float64(layer) * rate / 1e9), Runs: len(runs)}
	if peak := r.peakOf(s.Threads); peak > 0 {
		s.OfPeak = round2(s.GOPS / peak)
	}
	return s
}

// decode generates behind a text that is in the cache but for its last token.
func (r *runner) decode(ctx context.Context, text []int32, depth int) (DecodeSpeed, error) {
	r.doing("decoding behind %s, %s", several(depth, "token"), threads(r.info.Threads))
	n := r.opt.Tokens
	if n == 0 {
		res, err := r.generate(ctx, text, 4)
		if err != nil {
			return DecodeSpeed{}, err
		}
		about := benchDecode
		if r.opt.Quick {
			about = benchDecodeQuick
		}
		n = min(max(int(res.Timing.DecodeTPS*about.Seconds()/benchTimes), 8), benchTokensMost)
	}
	var rates []float64
	for range benchTimes {
		res, err := r.generate(ctx, text, n+1)
		if err != nil {
			return DecodeSpeed{}, err
		}
		rates = append(rates, res.Timing.DecodeTPS)
	}
	rate := median(rates)
	gbs := rate * float64(r.weights) / 1e9
	s := DecodeSpeed{Mode: r.info.Family, Threads: r.info.Threads, Context: depth, TokS: round1(rate), GBs: round2(gbs), Tokens: n}
	if read := r.readOf(s.Threads).GBs; read > 0 {
		s.OfRead = round2(gbs / read)
	}
	return s, nil
}

// prompt makes n tokens that begin as no prompt before them.
func (r *runner) prompt(n int) []int32 {
	r.used++
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32((int(r.used) + i*7919) % min(r.info.Config.Vocab, 16384))
	}
	return ids
}

func (r *runner) generate(ctx context.Context, text []int32, tokens int) (*engine.Result, error) {
	res, err := r.m.Generate(ctx, engine.Request{Tokens: text, MaxTokens: tokens, IgnoreEOS: true}, func(e engine.Event) error {
		if p := e.Progress; p != nil {
			r.doing("prefill, %s: %d of %d tokens", threads(r.info.Threads), p.Done, p.Total)
		}
		return nil
	})
	if err == nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	return res, err
}

// tokenRow is a line of the table of token rates.
type tokenRow struct {
	length  int
	prefill *PrefillSpeed
	decode  *DecodeSpeed
}

func (b *bench) sayTokens(family BenchFamily, info engine.Info) {
	b.say("")
	held := "all weights in memory"
	if info.Need.Residency == engine.ResidencyLayered {
		held = "a layer of them in memory at a time"
	}
	b.say("tokens   %s, %s, %.0f MB of weights a token, kv cache in %s, %s", b.report.Model.Path, info.Layout, float64(family.Weights)/1e6, b.report.Model.KV, held)
	b.say("                            prefill of the length         decode behind the length")
	b.say("         threads   length     tok/s     GOPS   of peak     tok/s   weights GB/s   of read")
}

// add reports a row.
func (r *runner) add(row tokenRow) {
	prefill, decode := "        -        -         -", ""
	if s := row.prefill; s != nil {
		r.report.Prefill = append(r.report.Prefill, *s)
		prefill = fmt.Sprintf("%9.1f %8.1f   %6.0f%%", s.TokS, s.GOPS, 100*s.OfPeak)
	}
	if s := row.decode; s != nil {
		r.report.Decode = append(r.report.Decode, *s)
		decode = fmt.Sprintf(" %9.1f   %12.2f   %6.0f%%", s.TokS, s.GBs, 100*s.OfRead)
	}
	r.say("         %7d   %6d %s%s", r.info.Threads, row.length, prefill, decode)
}

// prompts are the lengths of prompts, ascending.
func (b *bench) prompts() []int {
	switch {
	case len(b.opt.Prompt) > 0:
		return slices.Compact(slices.Sorted(slices.Values(b.opt.Prompt)))
	case b.opt.Quick:
		return []int{benchPromptQuick}
	default:
		return []int{benchPrompt}
	}
}

// contexts are the lengths to decode behind, ascending.
func (b *bench) contexts() []int {
	if len(b.opt.Context) == 0 {
		return []int{0}
	}
	return slices.Compact(slices.Sorted(slices.Values(b.opt.Context)))
}
