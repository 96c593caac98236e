// SPDX-License-Identifier: Apache-2.0

package testmodel

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"windhover/vqf"
)

// Config says which model [Write] makes. The zero value of each field is the
// usual one.
type Config struct {
	Mode   vqf.Mode   // "": q8
	Q8     vqf.Layout // the zero value is row-major; [Default] has 8x8
	Q4     vqf.Layout // the zero value is row-major; [Default] has 4x4
	EmbF32 bool       // token_embed in F32
	Fields int        // header fields, 41 (also 0) or 45

	Layers, Heads, KVHeads, HeadDim, Dim, FFN, Vocab, MaxSeq int

	// Experts makes a mixture of that many experts, TopK of which compute for a
	// token; FFN is the width of each.
	Experts, TopK int

	// Random fills the model with noise of the size trained weights have: every
	// part of it matters to the logits, but it has nothing to say. Else it
	// recites the script, and its layers only disturb it a little.
	Random bool
	NoNorm bool   // no q/k norm: a Llama instead of a Qwen3
	Tied   bool   // the head is the embedding; Random only
	Bare   bool   // no tokenizer and no metadata inside
	Name   string // "": "tiny"
	Seed   uint64 // of the noise
	Vision bool   // with a vision tower (vision.go), and tokens for pictures

	// Embeds makes it a model of embeddings as well, of a text's last token: its
	// tokenizer sets <|endoftext|> behind a text, as that of Qwen3-Embedding does.
	Embeds bool

	// Marks and Words are tokens behind the others: markers that are no special
	// tokens, and pieces of text, which no text is cut into. Says is what the script
	// has in place of Answer, each of them once.
	Marks, Words, Says []string

	// Edit, when set, may change header fields before writing.
	Edit func(*vqf.Arch)
}

// Default is the usual model: 2 layers, 4 heads over 2, Qwen3-like, Q8 in 8x8,
// Q4 in 4x4, 256 positions, some 200 kB.
func Default() Config {
	return Config{
		Mode: vqf.ModeQ8, Q8: vqf.Layout8x8, Q4: vqf.Layout4x4, Name: "tiny",
		Layers: 2, Heads: 4, KVHeads: 2, HeadDim: 32, Dim: 96, FFN: 160, Vocab: Vocab, MaxSeq: 256,
	}
}

// Write makes the model in a directory that is gone after the test and returns
// its path.
func Write(t testing.TB, c Config) string {
	t.Helper()
	name := c.Name
	if name == "" {
		name = "tiny"
	}
	path := filepath.Join(t.TempDir(), name+".vqf")
	if err := c.WriteFile(path); err != nil {
		t.Fatalf("testmodel: %v", err)
	}
	return path
}

// WriteFile makes the model at path.
func (c Config) WriteFile(path string) error {
	c = c.filled()
	arch := c.arch()
	if c.Vision {
		seeing(&arch)
	}
	if c.Edit != nil {
		c.Edit(&arch)
	}
	s := Spec{VQF: vqf.Spec{Arch: arch, Mode: c.Mode, Q8: c.Q8, Q4: c.Q4, EmbF32: c.EmbF32, Fields: c.Fields, Vision: c.Vision}}
	if c.Mode == vqf.ModeQ4I {
		s.VQF.Q8 = vqf.LayoutRow
	}
	if !c.Bare {
		s.Tokenizer, s.Meta = c.tokenizer(), c.meta()
	}
	return Build(path, s, c.weights)
}

// filled puts the usual values in the place of zeros.
func (c Config) filled() Config {
	d := Default()
	for _, f := range []struct {
		v    *int
		want int
	}{
		{&c.Layers, d.Layers}, {&c.Heads, d.Heads}, {&c.KVHeads, d.KVHeads}, {&c.HeadDim, d.HeadDim},
		{&c.Dim, d.Dim}, {&c.FFN, d.FFN}, {&c.Vocab, d.Vocab}, {&c.MaxSeq, d.MaxSeq}, {&c.TopK, 2},
	} {
		if *f.v == 0 {
			*f.v = f.want
		}
	}
	if c.Vision || len(c.Marks)+len(c.Words) > 0 {
		c.Vocab = max(c.Vocab, c.vocab())
	}
	if c.Mode == "" {
		c.Mode = d.Mode
	}
	if c.Name == "" {
		c.Name = d.Name
	}
	return c
}

func (c Config) arch() vqf.Arch {
	a := vqf.Arch{
		Dim: uint32(c.Dim), NLayers: uint32(c.Layers), NHeads: uint32(c.Heads), NKVHeads: uint32(c.KVHeads),
		HeadDim: uint32(c.HeadDim), HeadDimFull: uint32(c.HeadDim), FFNDim: uint32(c.FFN),
		VocabSize: uint32(c.Vocab), MaxSeqLen: uint32(c.MaxSeq), RopeTheta: 10000, NormEps: 1e-6,
		BosID: vqf.NoToken, EosID: TokenEnd, HasQNorm: 1,
	}
	if c.NoNorm {
		a.HasQNorm = 0
	}
	if c.Experts > 0 {
		a.NExperts, a.TopK, a.MoEFFN = uint32(c.Experts), uint32(c.TopK), uint32(c.FFN)
		a.FFNDim = a.NExperts * a.MoEFFN
	}
	return a
}

// weights is the model's source of values.
func (c Config) weights(name string, layer int) ([]float32, error) {
	qo, ko := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	// Noise of 1/sqrt(columns) keeps a unit input at unit size.
	noise := func(rows, cols int, gain float64) []float32 {
		return c.noise(name, layer, rows*cols, gain/math.Sqrt(float64(cols)))
	}
	disturb := 0.02
	if c.Random {
		disturb = 1
	}
	if strings.HasPrefix(name, "v_") {
		return c.tower(name, layer), nil
	}
	switch name {
	case "token_embed":
		return c.embedding(), nil
	case "lm":
		return c.head(), nil
	case "final_norm":
		return ones(c.Dim, nil), nil
	case "attn_norm", "ffn_norm":
		return ones(c.Dim, c.noise(name, layer, c.Dim, 0.2)), nil
	case "q_norm", "k_norm":
		return ones(c.HeadDim, c.noise(name, layer, c.HeadDim, 0.2)), nil
	case "q":
		return noise(qo, c.Dim, 1), nil
	case "k", "v":
		return noise(ko, c.Dim, 1), nil
	case "o":
		return noise(c.Dim, qo, disturb), nil
	case "moe_router":
		return noise(c.Experts, c.Dim, 2), nil
	case "gate", "up":
		return noise(max(c.Experts, 1)*c.FFN, c.Dim, 1.5), nil
	case "down":
		return c.noise(name, layer, c.Dim*max(c.Experts, 1)*c.FFN, disturb/math.Sqrt(float64(c.FFN))), nil
	}
	return nil, fmt.Errorf("no tensor %q", name)
}

// embedding is a vector of unit entries for each token: of random sign, so that
// two tokens have little in common, or of noise.
func (c Config) embedding() []float32 {
	x := c.noise("token_embed", 0, c.Vocab*c.Dim, 1)
	if c.Random {
		return x
	}
	for i, v := range x {
		x[i] = float32(math.Copysign(1, float64(v)))
	}
	return x
}

// headGain is the logit of the token that the script says is next.
const headGain = 12

// head looks for the embedding of each token's predecessors.
func (c Config) head() []float32 {
	if c.Random {
		if c.Tied {
			return c.embedding()
		}
		return c.noise("lm", 0, c.Vocab*c.Dim, 3/math.Sqrt(float64(c.Dim)))
	}
	embed := c.embedding()
	x := make([]float32, c.Vocab*c.Dim)
	for id, follows := range c.script() {
		if follows < 0 {
			continue
		}
		row := x[int(follows)*c.Dim:]
		for i, v := range embed[id*c.Dim:][:c.Dim] {
			row[i] += v * headGain / float32(c.Dim)
		}
	}
	return x
}

// noise is n normal values of the given size, from the tensor's own generator.
func (c Config) noise(name string, layer, n int, size float64) []float32 {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s/%d", name, layer) // a hash takes everything
	r := rand.New(rand.NewPCG(c.Seed, h.Sum64()))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64() * size)
	}
	return x
}

// ones adds 1 to each value of x, or makes n ones.
func ones(n int, x []float32) []float32 {
	if x == nil {
		x = make([]float32, n)
	}
	for i := range x {
		x[i]++
	}
	return x
}
