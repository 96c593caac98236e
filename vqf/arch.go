// SPDX-License-Identifier: Apache-2.0

package vqf

// Arch is the model's architecture as the header stores it, docs/FORMAT.md
// section 2.1. It is all an engine needs: nothing else describes the model.
type Arch struct {
	Dim           uint32   `json:"dim"` // hidden size
	NLayers       uint32   `json:"n_layers"`
	NHeads        uint32   `json:"n_heads"` // query heads
	NKVHeads      uint32   `json:"n_kv_heads"`
	HeadDim       uint32   `json:"head_dim"`
	FFNDim        uint32   `json:"ffn_dim"` // MoE: n_experts * moe_ffn
	VocabSize     uint32   `json:"vocab_size"`
	MaxSeqLen     uint32   `json:"max_seq_len"`
	RopeTheta     float32  `json:"rope_theta"`
	NormEps       float32  `json:"norm_eps"`
	BosID         uint32   `json:"bos_id"` // NoToken: none
	EosID         uint32   `json:"eos_id"` // NoToken: none
	HasQNorm      uint32   `json:"has_q_norm"`
	HasMRope      uint32   `json:"has_mrope"`
	HeadDimFull   uint32   `json:"head_dim_full"` // equal to head_dim
	KVLoraRank    uint32   `json:"kv_lora_rank"`  // 0
	HasVision     uint32   `json:"has_vision"`    // of the source model; the file may hold text only
	VisDepth      uint32   `json:"vis_depth"`
	VisHidden     uint32   `json:"vis_hidden"`
	VisHeads      uint32   `json:"vis_heads"`
	VisFFN        uint32   `json:"vis_ffn"`
	VisPatch      uint32   `json:"vis_patch"`
	VisTemporal   uint32   `json:"vis_temporal"`
	VisMerge      uint32   `json:"vis_merge"`
	VisOutDim     uint32   `json:"vis_out_dim"`
	VisInChan     uint32   `json:"vis_in_chan"` // informational
	VisMaxPos     uint32   `json:"vis_max_pos"`
	VisDSCount    uint32   `json:"vis_ds_count"` // deepstack mergers, at most 4
	MRopeNSec     uint32   `json:"mrope_n_sec"`  // used mrope_sections, at most 4
	VisDSIdx      [4]int32 `json:"vis_ds_idx"`
	MRopeSections [4]int32 `json:"mrope_sections"`
	VisionStartID uint32   `json:"vision_start_id"`
	VisionEndID   uint32   `json:"vision_end_id"`
	ImageTokenID  uint32   `json:"image_token_id"`
	VideoTokenID  uint32   `json:"video_token_id"`
	// Only the 45-field header stores these four.
	NExperts      uint32 `json:"n_experts"`
	MoEFFN        uint32 `json:"moe_ffn"`
	TopK          uint32 `json:"top_k"`
	SharedExperts uint32 `json:"shared_experts"`
}

// NoToken in BosID or EosID says that the model has no such token.
const NoToken = ^uint32(0)

// QDim is the width of the queries, n_heads * head_dim.
func (a *Arch) QDim() uint64 { return uint64(a.NHeads) * uint64(a.HeadDim) }

// KVDim is the width of keys and of values, n_kv_heads * head_dim.
func (a *Arch) KVDim() uint64 { return uint64(a.NKVHeads) * uint64(a.HeadDim) }

// MoE says whether the expert fields describe a mixture of experts.
func (a *Arch) MoE() bool { return a.NExperts > 0 && a.TopK > 0 && a.MoEFFN > 0 }

// archNames are the header words from offset 16 on, 4 bytes each; the last
// four exist in the 45-field header only.
var archNames = [...]string{
	"dim", "n_layers", "n_heads", "n_kv_heads", "head_dim", "ffn_dim", "vocab_size", "max_seq_len",
	"rope_theta", "norm_eps", "bos_id", "eos_id", "has_q_norm", "has_mrope", "head_dim_full", "kv_lora_rank",
	"has_vision", "vis_depth", "vis_hidden", "vis_heads", "vis_ffn", "vis_patch", "vis_temporal", "vis_merge",
	"vis_out_dim", "vis_in_chan", "vis_max_pos", "vis_ds_count", "mrope_n_sec",
	"vis_ds_idx[0]", "vis_ds_idx[1]", "vis_ds_idx[2]", "vis_ds_idx[3]",
	"mrope_sections[0]", "mrope_sections[1]", "mrope_sections[2]", "mrope_sections[3]",
	"vision_start_id", "vision_end_id", "image_token_id", "video_token_id",
	"n_experts", "moe_ffn", "top_k", "shared_experts",
}

const (
	archOffset = 16
	archFields = 41 // words of the part common to both headers
)

// archField makes an error about one word of the architecture.
func archField(name, format string, args ...any) *FormatError {
	for i, n := range archNames {
		if n == name {
			return badField(name, int64(archOffset+4*i), format, args...)
		}
	}
	return badField(name, -1, format, args...)
}

// code passes every word to c in file order, for reading and writing alike.
func (a *Arch) code(c wordCoder, fields int) {
	for _, p := range []*uint32{&a.Dim, &a.NLayers, &a.NHeads, &a.NKVHeads, &a.HeadDim, &a.FFNDim, &a.VocabSize, &a.MaxSeqLen} {
		c.u32(p)
	}
	c.f32(&a.RopeTheta)
	c.f32(&a.NormEps)
	for _, p := range []*uint32{
		&a.BosID, &a.EosID, &a.HasQNorm, &a.HasMRope, &a.HeadDimFull, &a.KVLoraRank,
		&a.HasVision, &a.VisDepth, &a.VisHidden, &a.VisHeads, &a.VisFFN, &a.VisPatch, &a.VisTemporal, &a.VisMerge,
		&a.VisOutDim, &a.VisInChan, &a.VisMaxPos, &a.VisDSCount, &a.MRopeNSec,
	} {
		c.u32(p)
	}
	for i := range a.VisDSIdx {
		c.i32(&a.VisDSIdx[i])
	}
	for i := range a.MRopeSections {
		c.i32(&a.MRopeSections[i])
	}
	for _, p := range []*uint32{&a.VisionStartID, &a.VisionEndID, &a.ImageTokenID, &a.VideoTokenID} {
		c.u32(p)
	}
	if fields > archFields {
		for _, p := range []*uint32{&a.NExperts, &a.MoEFFN, &a.TopK, &a.SharedExperts} {
			c.u32(p)
		}
	}
}
