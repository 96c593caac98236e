// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"windhover/control"
	"windhover/engine"
	"windhover/vqf"
)

// loader loads models with the configured options. Each has workers of its own on
// the same cores, so they take turns.
type loader struct {
	cfg  Config
	reg  *registry
	turn chan struct{} // capacity 1: holds an element while a model computes
}

func newLoader(cfg Config, reg *registry) *loader {
	return &loader{cfg: cfg, reg: reg, turn: make(chan struct{}, 1)}
}

// takesTurns is a model that shares its cores with others.
type takesTurns struct {
	*engine.Model
	turn chan struct{}
}

// Generate waits until no other model computes.
func (m takesTurns) Generate(ctx context.Context, req engine.Request, on func(engine.Event) error) (*engine.Result, error) {
	select {
	case m.turn <- struct{}{}:
		defer func() { <-m.turn }()
		return m.Model.Generate(ctx, req, on)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// options are the engine's options for the configuration; held is what the
// weights of loaded models take of the memory.
func (l *loader) options(held int64) (engine.Options, error) {
	open, err := openOptions(l.cfg.VQF, os.Getenv)
	if err != nil {
		return engine.Options{}, err
	}
	limit, err := ParseSize(l.cfg.Engine.MemoryLimit)
	if err != nil {
		return engine.Options{}, err
	}
	if limit == 0 {
		limit = readMemory(os.DirFS("/")).budget()
	}
	if limit > 0 {
		limit = max(limit-held, 1)
	}
	return engine.Options{
		Threads: l.cfg.Engine.Threads, Pin: l.cfg.Engine.Pin, Context: l.cfg.Engine.Context, KV: l.cfg.Engine.KV, Family: l.cfg.Engine.Family,
		MemoryLimit: limit, VQF: open,
	}, nil
}

func (l *loader) load(_ context.Context, weights string) (servable, error) {
	opt, err := l.options(l.reg.weightBytes())
	if err != nil {
		return nil, err
	}
	m, err := engine.Load(weights, opt)
	if err != nil {
		return nil, err
	}
	return takesTurns{m, l.turn}, nil
}

// openOptions maps the [vqf] section, and the original engine's environment
// variables, to the flag gate. VLLM_Q8_8X8=0 takes the 8x8 layout out of what
// the strict gate expects; VLLM_VQF_CHECK=1 asks for a full check on each load.
func openOptions(c VQF, getenv func(string) string) (vqf.OpenOptions, error) {
	expect, err := vqf.ParseFlags(c.Expect)
	if err != nil {
		return vqf.OpenOptions{}, fmt.Errorf("config: vqf.expect: %w", err)
	}
	if len(getenv("VLLM_Q8_8X8")) > 0 && getenv("VLLM_Q8_8X8")[0] == '0' {
		expect &^= vqf.FlagQ8x8
	}
	check := getenv("VLLM_VQF_CHECK")
	return vqf.OpenOptions{Strict: c.Layout == "strict", Expect: expect, FullCheck: len(check) > 0 && check[0] == '1'}, nil
}

// loadBeside loads a version beside the one that serves under the same name. Where
// memory does not hold both, the old one is drained and unloaded first while its
// requests wait; if the new one then fails, the old one comes back.
func (d *deployer) loadBeside(ctx context.Context, name, weights string) (servable, error) {
	model, err := d.load(ctx, weights)
	if !errors.Is(err, engine.ErrMemory) {
		return model, err
	}
	old := d.reg.suspend(name)
	if old == nil {
		return nil, err
	}
	d.log.Info("memory does not hold two versions: unloading the old one first", "model", name, "version", old.Version)
	select {
	case <-old.idle:
	case <-time.After(drainLimit):
	}
	if err := old.Close(); err != nil {
		d.log.Error("close model", "model", name, "error", err)
	}
	if model, err = d.load(ctx, weights); err == nil {
		return model, nil
	}
	back, rerr := d.load(ctx, d.store.weights(old.Key))
	if rerr != nil {
		d.log.Error("the version that served cannot be loaded again", "model", name, "error", rerr)
		d.reg.resume(name, nil)
		return nil, errors.Join(err, rerr)
	}
	d.reg.resume(name, newServing(name, back, installed{Key: old.Key, Version: old.Version, SHA256: old.Digest}))
	return nil, err
}

// probeTokens is how many tokens the trial run of a new model generates.
const probeTokens = 16

// probeModel runs a model once before it serves: a short greedy generation, which
// fails on logits that are not numbers and on pages that cannot be read.
func probeModel(ctx context.Context, s servable) (control.TokenSpeed, error) {
	prompt := s.Tokenizer().Encode("The quick brown fox jumps over the lazy dog.", false)
	if len(prompt) == 0 {
		return control.TokenSpeed{}, fmt.Errorf("probe: the tokenizer makes no tokens of plain English")
	}
	if n := s.Info().Context; len(prompt)+probeTokens > n {
		prompt = prompt[:max(1, min(len(prompt), n-probeTokens))]
	}
	res, err := s.Generate(ctx, engine.Request{Tokens: prompt, MaxTokens: probeTokens, IgnoreEOS: true, Raw: true}, func(engine.Event) error { return nil })
	if err != nil {
		return control.TokenSpeed{}, fmt.Errorf("probe: %w", err)
	}
	if len(res.Tokens) == 0 {
		return control.TokenSpeed{}, fmt.Errorf("probe: the model generated no token")
	}
	return control.TokenSpeed{Prefill: round1(res.Timing.PrefillTPS), Decode: round1(res.Timing.DecodeTPS)}, nil
}

func round1(f float64) float64 { return float64(int64(f*10+0.5)) / 10 }

// document is the retained document of a model that serves.
func document(name string, s *serving, speed control.TokenSpeed) control.Model {
	info := s.Info()
	return control.Model{
		V: 1, Name: name, Version: s.Version, SHA256: s.Digest, State: stateReady, Trust: "local",
		Flags: info.Flags.Names(), Arch: info.Architecture, Params: s.Meta().Params, Mode: s.Meta().Mode,
		Context: info.Context, Residency: "full", Bytes: info.FileBytes, TokS: speed,
	}
}

// logLoaded writes the one record that tells what was loaded and how.
func (d *deployer) logLoaded(name string, s *serving, took time.Duration) {
	info := s.Info()
	c := info.Config
	d.log.LogAttrs(context.Background(), slog.LevelInfo, "model ready",
		slog.String("model", name), slog.String("version", s.Version), slog.String("path", info.Path),
		slog.Group("geometry", "dim", c.Dim, "layers", c.Layers, "heads", c.Heads, "kv_heads", c.KVHeads, "head_dim", c.HeadDim, "ffn", c.FFN, "vocab", c.Vocab),
		slog.String("flags", info.Flags.String()), slog.String("family", info.Family), slog.String("layout", info.Layout),
		slog.String("kernels", kernelSummary()), slog.Int("threads", info.Threads), slog.Int("context", info.Context),
		slog.String("tokenizer", info.Tokenizer), slog.String("template_error", info.TemplateErr),
		slog.Int64("ms", took.Milliseconds()))
}
