// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"math"

	"windhover/kernels"
	"windhover/vqf"
)

// Config is the geometry of a decoder, in the numbers the forward pass uses.
type Config struct {
	Dim       int // width of the residual stream
	Layers    int
	Heads     int // query heads
	KVHeads   int // key and value heads; divides Heads
	HeadDim   int // even
	FFN       int // inner width of the feed-forward part
	Vocab     int
	MaxSeq    int // positions the file names; 0 when it names none
	RopeTheta float32
	NormEps   float32
	QKNorm    bool // RMSNorm over each query and key head
}

// QO is the width of all query heads together.
func (c *Config) QO() int { return c.Heads * c.HeadDim }

// KO is the width of all key heads together, and of all value heads.
func (c *Config) KO() int { return c.KVHeads * c.HeadDim }

// Bounds of a header's numbers, far above those of any model, so that nothing
// that is computed from them overflows or allocates without measure. Layers
// times kv width bounds the KV cache of a token.
const (
	maxWidth  = 1 << 20
	maxLayers = 1 << 12
	maxVocab  = 1 << 24
	maxKV     = 1 << 26
)

// configOf reads the geometry and refuses, by name, what this build cannot
// run.
func configOf(arch vqf.Arch, flags vqf.Flags) (Config, error) {
	switch {
	case flags&vqf.FlagMoE != 0 || arch.NExperts > 0:
		return Config{}, unsupported("mixture of experts (%d experts) is not supported by this build yet", arch.NExperts)
	case arch.KVLoraRank != 0:
		return Config{}, unsupported("latent attention (kv_lora_rank %d)", arch.KVLoraRank)
	case arch.HeadDimFull != 0 && arch.HeadDimFull != arch.HeadDim:
		return Config{}, unsupported("partial rotary embedding (head_dim %d of %d)", arch.HeadDim, arch.HeadDimFull)
	}
	fields := []struct {
		name     string
		v, limit uint32
	}{
		{"dim", arch.Dim, maxWidth}, {"n_layers", arch.NLayers, maxLayers}, {"n_heads", arch.NHeads, maxWidth},
		{"n_kv_heads", arch.NKVHeads, maxWidth}, {"head_dim", arch.HeadDim, maxWidth}, {"ffn_dim", arch.FFNDim, maxWidth},
		{"vocab_size", arch.VocabSize, maxVocab},
	}
	for _, f := range fields {
		if f.v == 0 || f.v > f.limit {
			return Config{}, fmt.Errorf("engine: header: %s is %d, want 1 to %d", f.name, f.v, f.limit)
		}
	}
	c := Config{
		Dim: int(arch.Dim), Layers: int(arch.NLayers), Heads: int(arch.NHeads), KVHeads: int(arch.NKVHeads),
		HeadDim: int(arch.HeadDim), FFN: int(arch.FFNDim), Vocab: int(arch.VocabSize), MaxSeq: int(min(arch.MaxSeqLen, maxContext)),
		RopeTheta: arch.RopeTheta, NormEps: arch.NormEps, QKNorm: arch.HasQNorm != 0,
	}
	switch {
	case c.Heads%c.KVHeads != 0:
		return Config{}, fmt.Errorf("engine: header: %d query heads are no multiple of %d kv heads", c.Heads, c.KVHeads)
	case c.HeadDim%2 != 0:
		return Config{}, fmt.Errorf("engine: header: head_dim %d is odd", c.HeadDim)
	case c.QO() > maxWidth || c.Layers*c.KO() > maxKV:
		return Config{}, fmt.Errorf("engine: header: %d heads and %d kv heads of %d in %d layers", c.Heads, c.KVHeads, c.HeadDim, c.Layers)
	case c.Dim%kernels.BlockLen != 0 || c.FFN%kernels.BlockLen != 0 || c.QO()%kernels.BlockLen != 0:
		return Config{}, fmt.Errorf("engine: header: dim %d, ffn %d and heads*head_dim %d must be multiples of %d",
			c.Dim, c.FFN, c.QO(), kernels.BlockLen)
	case !(c.RopeTheta > 0) || math.IsInf(float64(c.RopeTheta), 0):
		return Config{}, fmt.Errorf("engine: header: rope_theta is %v", c.RopeTheta)
	case !(c.NormEps > 0) || math.IsInf(float64(c.NormEps), 0):
		return Config{}, fmt.Errorf("engine: header: norm_eps is %v", c.NormEps)
	}
	return c, nil
}
