// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"windhover/appliance"
	"windhover/control"
	"windhover/engine"
)

// sampling are the flags of run and send that shape an answer.
type sampling struct {
	maxTokens                    int
	temperature, topP, minP, pen float32
	topK, thinkBudget            int
	seed                         uint64
	stop                         []string
	think, raw                   bool
	system                       string
	form                         formFlags
}

func (s *sampling) add(cmd *cobra.Command, maxTokens string) {
	f := cmd.Flags()
	f.IntVar(&s.maxTokens, "max-tokens", 0, maxTokens)
	f.Float32Var(&s.temperature, "temperature", 0, "0 takes the likeliest token each time (default: the model's, else 0.7)")
	f.Float32Var(&s.topP, "top-p", 0, "keep the likeliest tokens up to this probability (default: the model's, else 0.8)")
	f.IntVar(&s.topK, "top-k", 0, "keep this many of the likeliest tokens, 0 all (default: the model's, else 20)")
	f.Float32Var(&s.minP, "min-p", 0, "drop tokens less likely than this part of the likeliest")
	f.Float32Var(&s.pen, "repeat-penalty", 1, "above 1: what was said before becomes less likely")
	f.Uint64Var(&s.seed, "seed", 0, "same seed, same answer (default: another each time)")
	f.StringArrayVar(&s.stop, "stop", nil, "text that ends the answer (repeatable)")
	f.BoolVar(&s.think, "think", false, "let the model think first, where it can; thinking goes to stderr")
	f.IntVar(&s.thinkBudget, "think-budget", 0, "most tokens of thinking")
	f.BoolVar(&s.raw, "raw", false, "continue the prompt as it is, without the chat template")
	f.StringVar(&s.system, "system", "", "system message before the conversation")
	s.form.add(cmd)
}

// loading are the flags of the verbs that load a model and say how.
type loading struct {
	opt     engine.Options
	keyFile string
}

func (l *loading) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.IntVar(&l.opt.Threads, "threads", 0, "threads (default: one for each big core)")
	f.StringVar(&l.opt.Family, "family", "", "copy of a dual file that computes: q4 or q8 (default: q4)")
	f.StringVar(&l.opt.KV, "kv", "", "KV cache: f16, or int8 in about half of the memory (default: f16)")
	f.StringVar(&l.opt.Residency, "residency", "", "auto, full (all weights in memory), experts (of a mixture, as many experts as fit) or layered (a layer at a time; slow, and no model is too large) (default: auto, the first that fits)")
	completes(cmd, "family", familyValues...)
	completes(cmd, "kv", kvValues...)
	completes(cmd, "residency", residencyValues...)
	addKeyFileFlag(cmd, &l.keyFile)
}

// open loads a model. A copy of the weights that is asked for by name must be there.
func (l *loading) open(cmd *cobra.Command, path string) (*engine.Model, error) {
	if l.keyFile != "" {
		key, err := appliance.ReadPassphrase(l.keyFile)
		if err != nil {
			return nil, err
		}
		l.opt.VQF.Key = key
	}
	m, err := appliance.OpenModel(path, l.opt)
	if err != nil {
		return nil, keyHint(err)
	}
	if has := m.Info().Family; l.opt.Family != "" && l.opt.Family != has {
		_ = m.Close() // the first error tells more
		return nil, usagef(cmd, "--family %s: %s holds %s weights only", l.opt.Family, path, has)
	}
	return m, nil
}

// check refuses what does not go together.
func (s *sampling) check(cmd *cobra.Command) error {
	switch {
	case s.raw && (s.system != "" || s.think || s.thinkBudget != 0):
		return usagef(cmd, "--system, --think and --think-budget are for chats: leave them out, or --raw")
	case cmd.Flags().Changed("max-tokens") && s.maxTokens < 1:
		return usagef(cmd, "--max-tokens %d: give at least 1", s.maxTokens)
	}
	return nil
}

// request is what the flags say; what they do not say is left to the device.
func (s *sampling) request(cmd *cobra.Command) (*control.Request, error) {
	op := control.OpChat
	if s.raw {
		op = control.OpGenerate
	}
	r := control.NewRequest(op)
	changed := cmd.Flags().Changed
	if changed("max-tokens") {
		r.MaxTokens = s.maxTokens
	}
	if changed("temperature") {
		r.Temperature = &s.temperature
	}
	if changed("top-p") {
		r.TopP = &s.topP
	}
	if changed("top-k") {
		r.TopK = &s.topK
	}
	if changed("seed") {
		r.Seed = &s.seed
	}
	r.MinP, r.RepeatPenalty, r.Stop, r.Think, r.ThinkBudget = s.minP, s.pen, s.stop, s.think, s.thinkBudget
	return r, s.form.fill(cmd, r)
}

// local is the same for the engine, with the model's defaults filled in; seed is
// used where the flags name none.
func (s *sampling) local(r *control.Request, m *engine.Model, seed uint64) engine.Request {
	g := m.Meta().Generation
	req := engine.Request{
		MaxTokens: s.maxTokens, Stop: s.stop, ThinkBudget: s.thinkBudget, Raw: s.raw,
		Sampling: engine.Sampling{
			Temperature: first(r.Temperature, g.Temperature, control.DefaultTemperature),
			TopP:        first(r.TopP, g.TopP, control.DefaultTopP),
			TopK:        first(r.TopK, g.TopK, control.DefaultTopK),
			MinP:        r.MinP, RepeatPenalty: r.RepeatPenalty, Seed: first(r.Seed, nil, seed),
		},
	}
	localForm(r, &req)
	return req
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
