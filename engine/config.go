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
	FFN       int // inner width of the feed-forward part, of a mixture of experts for one token: TopK times MoEFFN
	Vocab     int
	MaxSeq    int // positions the file names; 0 when it names none
	RopeTheta float32
	NormEps   float32
	QKNorm    bool // RMSNorm over each query and key head

	// Of a mixture of experts, else 0.
	NExperts int
	TopK     int // experts that compute for a token
	MoEFFN   int // inner width of each
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
	maxExpert = 1 << 12
	maxKV     = 1 << 26
)

// configOf reads the geometry and refuses, by name, what this build cannot
// run.
func configOf(arch vqf.Arch, flags vqf.Flags) (Config, error) {
	switch {
	case arch.SharedExperts != 0:
		return Config{}, unsupported("%d experts that all tokens share", arch.SharedExperts)
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
	if flags&vqf.FlagMoE != 0 || arch.NExperts > 0 {
		if err := c.mixture(arch); err != nil {
			return Config{}, err
		}
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

// mixture reads what the header says of experts, which vqf has held against each
// other; weights of the chosen ones add up to 1 in every such file.
func (c *Config) mixture(arch vqf.Arch) error {
	ne, k, width := arch.NExperts, arch.TopK, arch.MoEFFN
	switch {
	case ne == 0 || ne > maxExpert || k == 0 || k > ne:
		return fmt.Errorf("engine: header: %d of %d experts compute, want 1 to %d of them", k, ne, maxExpert)
	case width == 0 || width%kernels.BlockLen != 0 || uint64(ne)*uint64(width) != uint64(arch.FFNDim):
		return fmt.Errorf("engine: header: %d experts of width %d and ffn_dim %d: want a multiple of %d, and their product", ne, width, arch.FFNDim, kernels.BlockLen)
	}
	c.NExperts, c.TopK, c.MoEFFN = int(ne), int(k), int(width)
	c.FFN = c.TopK * c.MoEFFN
	return nil
}
