// SPDX-License-Identifier: Apache-2.0

package vqf

import "math"

// checkArch refuses architectures that no writer makes and no reader can
// compute with, docs/FORMAT.md section 2.5. vision says whether the file holds
// (or is to hold) vision tensors; without them the vis_* fields inform only.
func checkArch(a *Arch, moe, vision bool) error {
	for _, f := range []struct {
		name string
		v    uint32
	}{
		{"dim", a.Dim}, {"n_layers", a.NLayers}, {"n_heads", a.NHeads}, {"n_kv_heads", a.NKVHeads},
		{"head_dim", a.HeadDim}, {"ffn_dim", a.FFNDim}, {"vocab_size", a.VocabSize}, {"max_seq_len", a.MaxSeqLen},
	} {
		switch {
		case f.v == 0:
			return archField(f.name, "is 0")
		case f.v > math.MaxInt32:
			return archField(f.name, "is %d: absurd", f.v)
		}
	}
	switch {
	case a.NHeads%a.NKVHeads != 0:
		return archField("n_kv_heads", "is %d, which does not divide n_heads %d", a.NKVHeads, a.NHeads)
	case a.HeadDim%2 != 0:
		return archField("head_dim", "is %d, want an even number", a.HeadDim)
	case a.QDim() > math.MaxInt32:
		return archField("n_heads", "times head_dim is %d: absurd", a.QDim())
	case a.Dim%BlockLen != 0:
		return archField("dim", "is %d, not a multiple of 32: quantised blocks would straddle rows", a.Dim).as(ErrUnsupported)
	case a.FFNDim%BlockLen != 0:
		return archField("ffn_dim", "is %d, not a multiple of 32: quantised blocks would straddle rows", a.FFNDim).as(ErrUnsupported)
	case a.QDim()%BlockLen != 0:
		return archField("n_heads", "times head_dim is %d, not a multiple of 32: quantised blocks would straddle rows", a.QDim()).as(ErrUnsupported)
	case !(a.RopeTheta > 0) || math.IsInf(float64(a.RopeTheta), 0):
		return archField("rope_theta", "is %v, want a positive number", a.RopeTheta)
	case !(a.NormEps >= 0 && a.NormEps < 1):
		return archField("norm_eps", "is %v, want 0 to 1", a.NormEps)
	case a.HeadDimFull != a.HeadDim:
		return archField("head_dim_full", "is %d, want head_dim %d", a.HeadDimFull, a.HeadDim)
	case a.KVLoraRank != 0:
		return archField("kv_lora_rank", "is %d: latent attention is not supported", a.KVLoraRank).as(ErrUnsupported)
	}
	for _, f := range []struct {
		name   string
		v, max uint32
	}{
		{"has_q_norm", a.HasQNorm, 1}, {"has_mrope", a.HasMRope, 1}, {"has_vision", a.HasVision, 1},
		{"vis_ds_count", a.VisDSCount, 4}, {"mrope_n_sec", a.MRopeNSec, 4},
	} {
		if f.v > f.max {
			return archField(f.name, "is %d, want at most %d", f.v, f.max)
		}
	}
	for i, s := range a.MRopeSections {
		if s < 0 {
			return badField(archNames[33+i], archOffset+4*int64(33+i), "is %d, want 0 or more", s)
		}
	}
	for _, f := range []struct {
		name string
		v    uint32
	}{{"bos_id", a.BosID}, {"eos_id", a.EosID}} {
		if f.v != NoToken && f.v >= a.VocabSize {
			return archField(f.name, "is %d, past the vocabulary of %d", f.v, a.VocabSize)
		}
	}
	if err := checkExperts(a, moe); err != nil {
		return err
	}
	return checkVisionArch(a, vision)
}

func checkExperts(a *Arch, moe bool) error {
	if !moe {
		if a.MoE() {
			return archField("n_experts", "is %d, but neither the MOE flag nor version 3 says mixture of experts", a.NExperts)
		}
		return nil
	}
	switch {
	case a.NExperts == 0:
		return archField("n_experts", "is 0 in a mixture of experts")
	case a.MoEFFN == 0 || a.MoEFFN%BlockLen != 0:
		return archField("moe_ffn", "is %d, want a multiple of 32: blocks would cross experts", a.MoEFFN)
	case a.TopK == 0 || a.TopK > a.NExperts:
		return archField("top_k", "is %d, want 1 to n_experts %d", a.TopK, a.NExperts)
	case uint64(a.NExperts)*uint64(a.MoEFFN) != uint64(a.FFNDim):
		return archField("ffn_dim", "is %d, want n_experts %d times moe_ffn %d", a.FFNDim, a.NExperts, a.MoEFFN)
	}
	return nil
}

func checkVisionArch(a *Arch, vision bool) error {
	if (a.HasVision != 0) != (a.VisDepth != 0) {
		return archField("has_vision", "is %d, but vis_depth is %d", a.HasVision, a.VisDepth)
	}
	for i, idx := range a.VisDSIdx {
		if idx < 0 || uint32(i) < a.VisDSCount && a.VisDepth != 0 && uint32(idx) >= a.VisDepth {
			return badField(archNames[29+i], archOffset+4*int64(29+i), "is %d, want a block of %d", idx, a.VisDepth)
		}
	}
	if !vision {
		return nil
	}
	if a.HasVision == 0 {
		return archField("has_vision", "is 0, but there are vision tensors")
	}
	for _, f := range []struct {
		name string
		v    uint32
	}{
		{"vis_hidden", a.VisHidden}, {"vis_heads", a.VisHeads}, {"vis_ffn", a.VisFFN}, {"vis_patch", a.VisPatch},
		{"vis_temporal", a.VisTemporal}, {"vis_merge", a.VisMerge}, {"vis_out_dim", a.VisOutDim}, {"vis_max_pos", a.VisMaxPos},
	} {
		if f.v == 0 || f.v > math.MaxInt32 {
			return archField(f.name, "is %d: absurd", f.v)
		}
	}
	switch {
	case a.VisHidden%BlockLen != 0:
		return archField("vis_hidden", "is %d, not a multiple of 32: quantised blocks would straddle rows", a.VisHidden).as(ErrUnsupported)
	case a.VisHidden%a.VisHeads != 0:
		return archField("vis_heads", "is %d, which does not divide vis_hidden %d", a.VisHeads, a.VisHidden)
	case a.VisOutDim != a.Dim:
		return archField("vis_out_dim", "is %d, want dim %d", a.VisOutDim, a.Dim)
	}
	for _, f := range []struct {
		name string
		v    uint32
	}{
		{"vision_start_id", a.VisionStartID}, {"vision_end_id", a.VisionEndID},
		{"image_token_id", a.ImageTokenID}, {"video_token_id", a.VideoTokenID},
	} {
		if f.v >= a.VocabSize {
			return archField(f.name, "is %d, past the vocabulary of %d", f.v, a.VocabSize)
		}
	}
	return nil
}
