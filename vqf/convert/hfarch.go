// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"windhover/vqf"
)

// classes are the model classes whose forward pass is the one the engine has,
// by architecture. Others of the same family are classifiers, embedders …
var classes = map[string]string{
	"qwen3":    "Qwen3ForCausalLM",
	"llama":    "LlamaForCausalLM",
	"qwen3moe": "Qwen3MoeForCausalLM",
	"qwen3vl":  "Qwen3VLForConditionalGeneration",
}

// bodies are the classes of the same forward pass without a head, as models are
// stored whose embeddings were trained.
var bodies = map[string]string{"qwen3": "Qwen3Model", "llama": "LlamaModel"}

// architecture says which model this is, or why it is refused. One that makes
// embeddings needs no head.
func (c *config) architecture(embeds bool) (string, error) {
	name := c.textTop("model_type")
	if name == "" {
		return "", faulty("%s: model_type is missing", c.path)
	}
	family, err := familyOf(name)
	if err != nil {
		return "", err
	}
	var list []string
	if raw := c.top["architectures"]; raw != nil {
		if err := json.Unmarshal(raw, &list); err != nil {
			return "", faulty("%s: architectures is no list of names", c.path)
		}
	}
	if len(list) > 0 && list[0] != classes[family] && (!embeds || list[0] != bodies[family]) {
		return "", unsupported("%s: %s is not converted; %s is", c.path, list[0], classes[family])
	}
	return family, nil
}

// textTop reads a string at the top level, past text_config.
func (c *config) textTop(key string) string {
	return (&config{path: c.path, top: c.top}).text1(key)
}

// refusals checks every setting that changes what the model computes and that
// the engine does not have.
func (c *config) refusals(family string) error {
	refuse := func(key string, raw json.RawMessage, why string) error {
		return unsupported("%s: %s is %.80s: %s", c.path, key, raw, why)
	}
	for _, key := range []string{"attention_bias", "mlp_bias", "qkv_bias"} {
		if on, _ := c.flag(key); on {
			return refuse(key, c.get(key), "the format has no place for the biases of projections")
		}
	}
	if act := c.text1("hidden_act"); act != "" && act != "silu" {
		return refuse("hidden_act", c.get("hidden_act"), "only silu is computed")
	}
	if raw := c.get("quantization_config"); raw != nil {
		return refuse("quantization_config", raw, "take the model before it was quantised")
	}
	if on, _ := c.flag("use_sliding_window"); on {
		return refuse("use_sliding_window", c.get("use_sliding_window"), "attention with a sliding window is not supported")
	}
	// Qwen3 has the window off unless use_sliding_window says otherwise.
	if _, there := c.flag("use_sliding_window"); c.get("sliding_window") != nil && !there && family == "llama" {
		return refuse("sliding_window", c.get("sliding_window"), "attention with a sliding window is not supported")
	}
	if raw := c.get("layer_types"); raw != nil {
		var list []string
		if err := json.Unmarshal(raw, &list); err != nil {
			return faulty("%s: layer_types is no list of names", c.path)
		}
		for _, t := range list {
			if t != "full_attention" {
				return unsupported("%s: layer_types has %q: only full_attention is supported", c.path, t)
			}
		}
	}
	for _, key := range []string{"num_experts", "num_local_experts"} {
		if c.uint(key, 0) > 0 && !hasExperts(family) {
			return refuse(key, c.get(key), "of the mixtures of experts qwen3_moe is converted")
		}
	}
	for _, key := range []string{"attn_logit_softcapping", "final_logit_softcapping", "logit_scale", "embedding_multiplier", "residual_multiplier", "attention_multiplier", "logits_scaling"} {
		if raw := c.get(key); raw != nil && string(raw) != "1" && string(raw) != "1.0" {
			return refuse(key, raw, "no such scaling is computed")
		}
	}
	if f := c.float("partial_rotary_factor", 1); f != 1 {
		return refuse("partial_rotary_factor", c.get("partial_rotary_factor"), "only whole heads are rotated")
	}
	return c.err
}

// rope takes the base from rope_theta or, in the newer style, from
// rope_parameters, and refuses every kind of scaling. sections are those of
// multimodal rotary embeddings.
func (c *config) rope(multimodal bool) (theta float32, sections []int32, err error) {
	theta = c.float("rope_theta", 10000)
	for _, key := range []string{"rope_scaling", "rope_parameters"} {
		members, err := c.object(key)
		if err != nil {
			return 0, nil, err
		}
		sub := &config{path: c.path, top: members}
		for _, name := range slices.Sorted(maps.Keys(members)) {
			raw := members[name]
			switch name {
			case "rope_type", "type":
				if t := sub.text1(name); t != "default" && (t != "mrope" || !multimodal) {
					return 0, nil, unsupported("%s: %s has %s %s: rotary embeddings are not scaled", c.path, key, name, raw)
				}
			case "rope_theta":
				theta = sub.float(name, theta)
			case "mrope_interleaved":
				if on, _ := sub.flag(name); !on {
					return 0, nil, unsupported("%s: mrope_interleaved is %s: only the interleaved form is supported", c.path, raw)
				}
			case "mrope_section":
				if !multimodal {
					return 0, nil, unsupported("%s: %s has mrope_section in a text model", c.path, key)
				}
				if json.Unmarshal(raw, &sections) != nil || len(sections) > 4 {
					return 0, nil, faulty("%s: mrope_section is %.40s, want up to 4 numbers", c.path, raw)
				}
			case "partial_rotary_factor":
				if sub.float(name, 1) != 1 {
					return 0, nil, unsupported("%s: %s has %s %s: only whole heads are rotated", c.path, key, name, raw)
				}
			default:
				if string(raw) != "null" {
					return 0, nil, unsupported("%s: %s has %s: rotary embeddings are not scaled", c.path, key, name)
				}
			}
		}
		if sub.err != nil {
			return 0, nil, sub.err
		}
	}
	return theta, sections, c.err
}

// arch fills the header's fields as docs/FORMAT.md section 8.2 says.
func (c *config) arch(family string, s *settings) (a vqf.Arch, context uint64, err error) {
	multimodal := sees(family)
	theta, sections, err := c.rope(multimodal)
	if err != nil {
		return a, 0, err
	}
	a = vqf.Arch{
		Dim: c.need("hidden_size"), NLayers: c.need("num_hidden_layers"), NHeads: c.need("num_attention_heads"),
		VocabSize: c.need("vocab_size"),
		RopeTheta: theta, NormEps: c.float("rms_norm_eps", 1e-6),
		BosID: c.tokenID("bos_token_id"), EosID: c.tokenID("eos_token_id"),
	}
	if hasExperts(family) {
		if err := c.mixture(&a); err != nil {
			return a, 0, err
		}
	} else {
		a.FFNDim = c.need("intermediate_size")
	}
	a.NKVHeads = c.uint("num_key_value_heads", a.NHeads)
	a.HeadDim = c.uint("head_dim", 0)
	context = uint64(c.need("max_position_embeddings"))
	if c.err != nil {
		return a, 0, c.err
	}
	if a.HeadDim == 0 {
		if a.Dim%a.NHeads != 0 {
			return a, 0, faulty("%s: hidden_size %d does not divide into %d heads, and there is no head_dim", c.path, a.Dim, a.NHeads)
		}
		a.HeadDim = a.Dim / a.NHeads
	}
	a.HeadDimFull = a.HeadDim
	if strings.HasPrefix(family, "qwen3") {
		a.HasQNorm = 1
	}
	if multimodal {
		a.HasMRope = 1
		a.MRopeNSec = uint32(copy(a.MRopeSections[:], sections))
		if err := c.vision(&a); err != nil {
			return a, 0, err
		}
	}
	a.MaxSeqLen, err = s.maxSeq(context)
	return a, context, err
}
