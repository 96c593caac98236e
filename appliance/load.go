// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"windhover/control"
	"windhover/engine"
	"windhover/vqf"
)

// loader loads models with the configured options.
type loader struct {
	cfg   Config
	pass  *passphrase
	cpus  int // that this process may use
	pulse *pulse
	build string // digest of this program; "": unknown, and no prefixes are saved
	heat  *heat  // nil: nobody watches
	gate  gate

	mu     sync.Mutex // guards loaded
	loaded map[*takesTurns]engine.Need
}

func newLoader(cfg Config, pass *passphrase, cpus int, p *pulse) *loader {
	return &loader{cfg: cfg, pass: pass, cpus: cpus, pulse: p, loaded: map[*takesTurns]engine.Need{}}
}

// takesTurns is a model that shares cores and memory with others.
type takesTurns struct {
	*engine.Model
	l *loader
}

// Generate waits until no other model computes.
func (m *takesTurns) Generate(ctx context.Context, req engine.Request, on func(engine.Event) error) (*engine.Result, error) {
	leave, err := m.l.gate.enter(ctx, m, req.Priority)
	if err != nil {
		return nil, err
	}
	defer leave()
	defer m.l.pulse.begin(m)()
	return m.Model.Generate(ctx, req, on)
}

// Close frees the model and what was counted for it.
func (m *takesTurns) Close() error {
	err := m.Model.Close()
	m.l.mu.Lock()
	defer m.l.mu.Unlock()
	delete(m.l.loaded, m)
	return err
}

// adopt makes a section count for what is loaded from now on.
func (l *loader) adopt(c VQF) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cfg.VQF.Layout, l.cfg.VQF.Expect = c.Layout, c.Expect
}

// options are the engine's options for the configuration and the memory of now.
func (l *loader) options() (engine.Options, error) {
	l.mu.Lock()
	c := l.cfg.VQF
	l.mu.Unlock()
	open, err := openOptions(c, os.Getenv)
	if err != nil {
		return engine.Options{}, err
	}
	e := l.cfg.Engine
	cache, err := ParseSize(e.CacheMemory)
	if err != nil {
		return engine.Options{}, fmt.Errorf("config: engine.cache_memory: %w", err)
	}
	return engine.Options{
		Threads: min(e.Threads, l.cpus), Pin: e.Pin, Context: e.Context, KV: e.KV, Family: e.Family, Residency: e.Residency,
		Sequences: e.Sequences, CacheBytes: cache, MemoryLimit: l.room(os.DirFS("/")), VQF: open,
	}, nil
}

// room is how many bytes one more model may take; at least 1, because 0 means any
// number to the engine. It is 0 where the machine does not say.
func (l *loader) room(root fs.FS) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	var weights, rest int64
	for _, n := range l.loaded {
		weights += n.Weights - n.Private
		rest += n.KV + n.Scratch + n.Private
	}
	limit, err := ParseSize(l.cfg.Engine.MemoryLimit)
	if err != nil || limit == 0 { // checked when the configuration was read
		m := readMemory(root)
		if m.Available == 0 && m.Limit == 0 {
			return 0 // nobody says
		}
		// Weights in the page cache count as available. Caches of contexts and
		// deciphered weights do not, but only as far as they have grown.
		limit, rest = m.budget(), max(rest-m.Own, 0)
	}
	return max(limit-weights-rest, 1)
}

// load loads a stored file. An encrypted one whose tag was compared when it was
// installed, under the passphrase of now, is not read for that again.
func (l *loader) load(_ context.Context, weights string, in installed) (servable, error) {
	opt, err := l.options()
	if err != nil {
		return nil, err
	}
	if opt.VQF.Key, err = l.pass.keyOf(weights); err != nil {
		return nil, err
	}
	opt.VQF.Verified = in.compared(opt.VQF.Key, weights)
	if in.crowded && (opt.Residency == "" || opt.Residency == engine.ResidencyAuto) {
		opt.Residency = engine.ResidencyFull
	}
	if opt.Saved, err = l.saved(weights, in); err != nil {
		return nil, err
	}
	model, err := engine.Load(weights, opt)
	if err != nil {
		return nil, err
	}
	m := &takesTurns{model, l}
	m.Pace(l.heat.pace())
	l.mu.Lock()
	defer l.mu.Unlock()
	l.loaded[m] = model.Info().Need
	return m, nil
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
func document(s *serving, speed control.TokenSpeed) control.Model {
	info := s.Info()
	return control.Model{
		V: 1, Name: s.Name, Version: s.Version, SHA256: s.Digest, State: stateReady, Trust: trustLocal,
		Flags: info.Flags.Names(), Arch: info.Architecture, Params: s.Meta().Params, Mode: s.Meta().Mode,
		Context: info.Context, Residency: info.Need.Residency, Bytes: info.FileBytes, TokS: speed,
		Pictures: picturesDoc(info.Sight), Embeds: s.Dimensions(), Tentative: s.installed.Trial != nil,
	}
}

// picturesDoc is what the document of a model says about pictures.
func picturesDoc(s *engine.Sight) *control.Pictures {
	if s == nil {
		return nil
	}
	return &control.Pictures{MinPixels: s.MinPixels, MaxPixels: s.MaxPixels, TokenSide: s.PlaceSide, FileBytes: s.FileBytes, FilePixels: s.FilePixels}
}

// logLoaded writes the one record that tells what was loaded and how.
func (d *deployer) logLoaded(s *serving, took time.Duration) {
	info := s.Info()
	c := info.Config
	attrs := []slog.Attr{
		slog.String("event", "model_ready"), slog.String("model", s.Name), slog.String("version", s.Version), slog.String("sha256", s.Digest), slog.String("path", info.Path),
		slog.Group("geometry", "dim", c.Dim, "layers", c.Layers, "heads", c.Heads, "kv_heads", c.KVHeads, "head_dim", c.HeadDim, "ffn", c.FFN, "vocab", c.Vocab),
		slog.String("flags", info.Flags.String()), slog.String("family", info.Family), slog.String("layout", info.Layout),
		slog.String("residency", info.Need.Residency), slog.String("residency_why", info.Need.Why()), slog.String("kernels", kernelSummary()), slog.Int("threads", info.Threads), slog.Int("context", info.Context), slog.Int("sequences", info.Sequences), slog.Int64("cache_bytes", info.Need.KV),
		slog.String("tokenizer", info.Tokenizer), slog.Int64("ms", took.Milliseconds()),
	}
	by := d.who.standing(s.installed)
	attrs = append(attrs, slog.String("trust", kindOf(by)))
	if by != nil {
		attrs = append(attrs, slog.String("signer", by.Name), slog.String("key_id", by.short()))
	}
	if s.installed.Foreign != "" {
		attrs = append(attrs, slog.String("untrusted_signature", s.installed.Foreign))
	}
	if info.Restored > 0 || info.RestoreErr != "" {
		attrs = append(attrs, slog.Int("restored_tokens", info.Restored))
	}
	if info.RestoreErr != "" {
		attrs = append(attrs, slog.String("restore_error", info.RestoreErr))
	}
	if info.TemplateErr != "" {
		attrs = append(attrs, slog.String("template_error", info.TemplateErr))
	}
	d.log.LogAttrs(context.Background(), slog.LevelInfo, "model ready", attrs...)
}
