// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"context"
	"errors"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"windhover/vqf/convert"
)

// Each setting that changes what a model computes is refused by its name.
func TestRefusesConfig(t *testing.T) {
	type object = map[string]any
	for _, c := range []struct {
		name  string
		arch  string
		edit  object // nil values delete
		kind  error
		wants string
	}{
		{"other architecture", "qwen3", object{"model_type": "gemma3"}, convert.ErrUnsupported, `"gemma3"`},
		{"mistral", "qwen3", object{"model_type": "mistral"}, convert.ErrUnsupported, `"mistral"`},
		{"experts in a dense class", "qwen3", object{"model_type": "qwen3_moe"}, convert.ErrUnsupported, "Qwen3MoeForCausalLM"},
		{"experts with vision", "qwen3", object{"model_type": "qwen3_vl_moe"}, convert.ErrUnsupported, "transposed"},
		{"experts by number", "llama", object{"num_local_experts": 8}, convert.ErrUnsupported, "num_local_experts"},
		{"classifier", "qwen3", object{"architectures": []string{"Qwen3ForSequenceClassification"}}, convert.ErrUnsupported, "Qwen3ForSequenceClassification"},
		{"no type", "qwen3", object{"model_type": nil}, convert.ErrSource, "model_type"},
		{"attention bias", "llama", object{"attention_bias": true}, convert.ErrUnsupported, "attention_bias"},
		{"mlp bias", "llama", object{"mlp_bias": true}, convert.ErrUnsupported, "mlp_bias"},
		{"activation", "llama", object{"hidden_act": "gelu"}, convert.ErrUnsupported, "hidden_act"},
		{"quantised", "qwen3", object{"quantization_config": object{"quant_method": "awq"}}, convert.ErrUnsupported, "quantization_config"},
		{"sliding window", "qwen3", object{"use_sliding_window": true, "sliding_window": 4096}, convert.ErrUnsupported, "use_sliding_window"},
		{"llama's sliding window", "llama", object{"sliding_window": 4096}, convert.ErrUnsupported, "sliding_window"},
		{"layer types", "qwen3", object{"layer_types": []string{"full_attention", "sliding_attention"}}, convert.ErrUnsupported, "sliding_attention"},
		{"softcap", "llama", object{"final_logit_softcapping": 30.0}, convert.ErrUnsupported, "final_logit_softcapping"},
		{"rope scaling", "llama", object{"rope_scaling": object{"rope_type": "llama3", "factor": 8.0}}, convert.ErrUnsupported, "rope_scaling"},
		{"rope scaling, old style", "llama", object{"rope_scaling": object{"type": "linear", "factor": 2.0}}, convert.ErrUnsupported, "rope_scaling"},
		{"rope factor alone", "llama", object{"rope_scaling": object{"factor": 2.0}}, convert.ErrUnsupported, "factor"},
		{"yarn, new style", "qwen3", object{"rope_parameters": object{"rope_type": "yarn", "rope_theta": 1e6, "factor": 4.0}}, convert.ErrUnsupported, "rope_parameters"},
		{"rope a layer type", "qwen3", object{"rope_parameters": object{"full_attention": object{"rope_theta": 1e6}}}, convert.ErrUnsupported, "rope_parameters"},
		{"part of a head", "llama", object{"partial_rotary_factor": 0.5}, convert.ErrUnsupported, "partial_rotary_factor"},
		{"text model with sections", "qwen3", object{"rope_scaling": object{"rope_type": "default", "mrope_section": []int{8, 4, 4}}}, convert.ErrUnsupported, "mrope_section"},
		{"no width", "qwen3", object{"hidden_size": nil}, convert.ErrSource, "hidden_size"},
		{"width 0", "qwen3", object{"hidden_size": 0}, convert.ErrSource, "hidden_size"},
		{"width a fraction", "qwen3", object{"hidden_size": 32.5}, convert.ErrSource, "hidden_size"},
		{"width negative", "qwen3", object{"hidden_size": -32}, convert.ErrSource, "hidden_size"},
		{"width absurd", "qwen3", object{"hidden_size": int64(1) << 40}, convert.ErrSource, "hidden_size"},
		{"layers absurd", "qwen3", object{"num_hidden_layers": 1 << 30}, convert.ErrSource, "absurd"},
		{"vocabulary a string", "qwen3", object{"vocab_size": "16"}, convert.ErrSource, "vocab_size"},
		{"no context", "qwen3", object{"max_position_embeddings": nil}, convert.ErrSource, "max_position_embeddings"},
		{"heads do not divide", "llama", object{"num_attention_heads": 3, "head_dim": nil}, convert.ErrSource, "3 heads"},
		{"theta a string", "llama", object{"rope_theta": "10000"}, convert.ErrSource, "rope_theta"},
		{"theta 0", "llama", object{"rope_theta": 0}, convert.ErrSource, "rope_theta"},
		{"end past the vocabulary", "qwen3", object{"eos_token_id": 16}, convert.ErrSource, "eos_id"},
		{"end a string", "qwen3", object{"eos_token_id": "2"}, convert.ErrSource, "eos_token_id"},
		{"shape", "qwen3", object{"intermediate_size": 96}, convert.ErrSource, "gate_proj"},
		{"more layers", "qwen3", object{"num_hidden_layers": 3}, convert.ErrSource, `"model.layers.2.input_layernorm.weight"`},
		{"fewer layers", "qwen3", object{"num_hidden_layers": 1}, convert.ErrUnsupported, `"model.layers.1.`},
		{"no q norm in qwen3", "llama", object{"model_type": "qwen3", "architectures": nil}, convert.ErrSource, "q_norm"},
		{"q norm in llama", "qwen3", object{"model_type": "llama", "architectures": nil}, convert.ErrUnsupported, "_norm"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := miniature
			m.qnorm = c.arch == "qwen3"
			src := m.hfDir(t, c.arch, "F32", func(config map[string]any, _ map[string][]float32) {
				for k, v := range c.edit {
					if config[k] = v; v == nil {
						delete(config, k)
					}
				}
			})
			mustFail(t, src, convert.Options{Mode: "q8"}, c.kind, c.wants)
		})
	}
}

// Spellings that mean the plain thing are accepted.
func TestAcceptsConfig(t *testing.T) {
	type object = map[string]any
	for name, edit := range map[string]object{
		"newer style":       {"dtype": "float32", "rope_theta": nil, "rope_parameters": object{"rope_theta": 10000.0, "rope_type": "default"}},
		"null scaling":      {"rope_scaling": nil, "sliding_window": nil},
		"window off":        {"use_sliding_window": false, "sliding_window": 4096, "max_window_layers": 2},
		"full attention":    {"layer_types": []string{"full_attention", "full_attention"}},
		"end ids in a list": {"eos_token_id": []int{2, 1}},
		"no class":          {"architectures": nil},
		"implied head":      {"rope_scaling": object{"rope_type": "default"}},
	} {
		t.Run(name, func(t *testing.T) {
			src := miniature.hfDir(t, "qwen3", "F32", func(config map[string]any, _ map[string][]float32) {
				maps.Copy(config, edit)
				if edit["rope_parameters"] != nil {
					delete(config, "rope_theta")
				}
			})
			_, r := run(t, src, convert.Options{Mode: "q8"})
			if r.Arch.RopeTheta != 10000 {
				t.Errorf("rope_theta %v", r.Arch.RopeTheta)
			}
			want := uint32(2)
			if name == "end ids in a list" {
				want = 0 // the header has room for one: docs/FORMAT.md section 8.2
			}
			if r.Arch.EosID != want {
				t.Errorf("eos_id %d, want %d", r.Arch.EosID, want)
			}
		})
	}
}

// Missing, left over and unusable tensors are named with the element.
func TestRefusesTensors(t *testing.T) {
	nan := float32(math.NaN())
	const up, down = "model.layers.1.mlp.up_proj.weight", "model.layers.0.mlp.down_proj.weight"
	for _, c := range []struct {
		name string
		mode string
		edit func(v map[string][]float32)
		kind error
		want []string
	}{
		{"no embedding", "q8", func(v map[string][]float32) { delete(v, "model.embed_tokens.weight") }, convert.ErrSource, []string{`"model.embed_tokens.weight"`, "missing"}},
		{"no final norm", "q8", func(v map[string][]float32) { delete(v, "model.norm.weight") }, convert.ErrSource, []string{`"model.norm.weight"`}},
		{"no projection", "q8", func(v map[string][]float32) { delete(v, up) }, convert.ErrSource, []string{up}},
		{"no head, not tied", "q8", func(v map[string][]float32) { delete(v, "lm_head.weight") }, convert.ErrSource, []string{"lm_head.weight"}},
		{"bias", "q8", func(v map[string][]float32) { v["model.layers.0.self_attn.q_proj.bias"] = make([]float32, 64) }, convert.ErrUnsupported, []string{"q_proj.bias", "biases"}},
		{"unknown", "q8", func(v map[string][]float32) { v["model.layers.0.self_attn.sinks"] = make([]float32, 2) }, convert.ErrUnsupported, []string{"sinks"}},
		{"NaN", "q8", func(v map[string][]float32) { v[down][70] = nan }, convert.ErrSource, []string{down, "element 70 (row 1, column 6)", "NaN"}},
		{"infinity", "q4", func(v map[string][]float32) { v[up][0] = float32(math.Inf(-1)) }, convert.ErrSource, []string{up, "element 0 ", "-Inf"}},
		{"NaN in a norm", "q4", func(v map[string][]float32) { v["model.norm.weight"][3] = nan }, convert.ErrSource, []string{`"model.norm.weight": element 3`, "NaN"}},
		{"NaN in the embedding", "q4", func(v map[string][]float32) { v["model.embed_tokens.weight"][511] = nan }, convert.ErrSource, []string{"embed_tokens", "element 511 (row 15, column 31)"}},
		{"too large for a Q4 scale", "q4", func(v map[string][]float32) { v[up][9] = 600000 }, convert.ErrSource, []string{up, "element 9 ", "600000", "too large"}},
		{"too large for a Q8 scale", "q8", func(v map[string][]float32) { v[up][9] = 8.4e6 }, convert.ErrSource, []string{up, "too large"}},
		{"too large for F16", "q8", func(v map[string][]float32) { v["model.embed_tokens.weight"][7] = -65536 }, convert.ErrSource, []string{"embed_tokens", "element 7 ", "too large"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			src := miniature.hfDir(t, "qwen3", "F32", func(_ map[string]any, v map[string][]float32) { c.edit(v) })
			for _, want := range c.want {
				mustFail(t, src, convert.Options{Mode: c.mode, Threads: 3, Chunk: 8}, c.kind, want)
			}
		})
	}
	// What one encoding cannot hold, another can.
	src := miniature.hfDir(t, "qwen3", "F32", func(_ map[string]any, v map[string][]float32) { v[up][9] = 600000 })
	run(t, src, convert.Options{Mode: "q8"})
	src = miniature.hfDir(t, "qwen3", "F32", func(_ map[string]any, v map[string][]float32) {
		v["model.norm.weight"][0] = math.MaxFloat32
	})
	run(t, src, convert.Options{Mode: "q4"})
	// In llama's GGUF the element is counted as the file has it.
	m := miniature
	m.qnorm = false
	file := m.ggufFile(t, "llama", "F32", func(_ *ggufWriter, v map[string][]float32) {
		v["model.layers.0.self_attn.q_proj.weight"][32*5+4] = nan
	})
	mustFail(t, file, convert.Options{Mode: "q8"}, convert.ErrSource, `"blk.0.attn_q.weight": element 164 (row 5, column 4)`)
}

func TestRefusesGGUF(t *testing.T) {
	set := func(key string, v any) func(*ggufWriter, map[string][]float32) {
		return func(g *ggufWriter, _ map[string][]float32) { g.set(key, v) }
	}
	for _, c := range []struct {
		name, arch string
		edit       func(*ggufWriter, map[string][]float32)
		kind       error
		want       string
	}{
		{"other architecture", "gemma3", nil, convert.ErrUnsupported, `"gemma3"`},
		{"qwen2 has biases", "qwen2", nil, convert.ErrUnsupported, `"qwen2"`},
		{"no experts", "qwen3moe", nil, convert.ErrSource, "no mixture"},
		{"no experts with vision", "qwen3vlmoe", nil, convert.ErrSource, "no mixture"},
		{"projector", "clip", nil, convert.ErrUnsupported, "vision projector"},
		{"mixtral", "llama", set("llama.expert_count", uint32(8)), convert.ErrUnsupported, "expert_count"},
		{"adapter", "llama", set("general.type", "adapter"), convert.ErrUnsupported, "general.type"},
		{"split", "llama", set("split.count", uint32(2)), convert.ErrUnsupported, "split.count"},
		{"window", "llama", set("llama.attention.sliding_window", uint32(4096)), convert.ErrUnsupported, "sliding_window"},
		{"rope scaling", "qwen3", set("qwen3.rope.scaling.type", "yarn"), convert.ErrUnsupported, "rope.scaling.type"},
		{"rope factor", "llama", set("llama.rope.scaling.factor", float32(2)), convert.ErrUnsupported, "rope.scaling.factor"},
		{"rope factors", "llama", func(g *ggufWriter, _ map[string][]float32) {
			g.add("rope_freqs.weight", "F32", []int{16}, make([]byte, 64))
		}, convert.ErrUnsupported, "rope_freqs.weight"},
		{"part of a head", "llama", set("llama.rope.dimension_count", uint32(16)), convert.ErrUnsupported, "rope.dimension_count"},
		{"logit scale", "llama", set("llama.logit_scale", float32(0.5)), convert.ErrUnsupported, "logit_scale"},
		{"not causal", "llama", set("llama.attention.causal", false), convert.ErrUnsupported, "causal"},
		{"bias", "llama", func(g *ggufWriter, _ map[string][]float32) {
			g.add("blk.0.attn_q.bias", "F32", []int{64}, make([]byte, 256))
		}, convert.ErrUnsupported, "blk.0.attn_q.bias"},
		{"vocabulary", "llama", set("llama.vocab_size", uint32(32)), convert.ErrUnsupported, "vocab_size"},
		{"window a string", "llama", set("llama.attention.sliding_window", "4096"), convert.ErrSource, "sliding_window"},
		{"missing", "qwen3", func(_ *ggufWriter, v map[string][]float32) { delete(v, "model.layers.1.mlp.up_proj.weight") }, convert.ErrSource, `"blk.1.ffn_up.weight"`},
		{"tokenizer of words", "qwen3", set("tokenizer.ggml.add_bos_token", "yes"), convert.ErrSource, "add_bos_token"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := miniature
			m.qnorm = c.arch == "qwen3"
			mustFail(t, m.ggufFile(t, c.arch, "F32", c.edit), convert.Options{Mode: "q8"}, c.kind, c.want)
		})
	}
}

// A tokenizer that the engine could not use is refused, unless none is wanted.
func TestRefusesTokenizer(t *testing.T) {
	src := miniature.hfDir(t, "qwen3", "F32", nil)
	path := filepath.Join(src, "tokenizer.json")
	writeFile(t, path, []byte(`{"model":{"type":"Unigram"}}`))
	mustFail(t, src, convert.Options{}, convert.ErrUnsupported, path)
	run(t, src, convert.Options{Bare: true})
}

// Sources cut anywhere are errors: nothing panics and nothing is left.
func TestTruncatedSources(t *testing.T) {
	whole := miniature.ggufFile(t, "qwen3", "BF16", nil)
	b := readFile(t, whole)
	cut := filepath.Join(t.TempDir(), "cut.gguf")
	dst := filepath.Join(t.TempDir(), "out.vqf")
	for n := 0; n < len(b); n += 1 + n/50 {
		writeFile(t, cut, b[:n])
		if _, err := convert.Run(context.Background(), cut, dst, convert.Options{}, nil); err == nil {
			t.Fatalf("a file cut at %d of %d bytes converted", n, len(b))
		}
	}
	dir := miniature.hfDir(t, "qwen3", "BF16", nil)
	weights := filepath.Join(dir, "model.safetensors")
	b = readFile(t, weights)
	for n := 0; n < len(b); n += 1 + n/50 {
		writeFile(t, weights, b[:n])
		if _, err := convert.Run(context.Background(), dir, dst, convert.Options{}, nil); !errors.Is(err, convert.ErrSource) && err == nil {
			t.Fatalf("weights cut at %d of %d bytes converted", n, len(b))
		}
	}
	writeFile(t, weights, b)
	config := filepath.Join(dir, "config.json")
	c := readFile(t, config)
	for n := range c {
		writeFile(t, config, c[:n])
		if _, err := convert.Run(context.Background(), dir, dst, convert.Options{}, nil); !errors.Is(err, convert.ErrSource) {
			t.Fatalf("config.json cut at %d of %d bytes: %v", n, len(c), err)
		}
	}
	empty(t, filepath.Dir(dst))
}

func TestRefusesPaths(t *testing.T) {
	dir := t.TempDir()
	mustFail(t, dir, convert.Options{}, convert.ErrSource, "config.json")
	file := filepath.Join(dir, "x.safetensors")
	writeFile(t, file, []byte("0123456789"))
	mustFail(t, file, convert.Options{}, convert.ErrUnsupported, dir)
	file = filepath.Join(dir, "x.bin")
	writeFile(t, file, []byte("PK"))
	mustFail(t, file, convert.Options{}, convert.ErrSource, "too short")
	writeFile(t, file, []byte("PK\x03\x04"))
	mustFail(t, file, convert.Options{}, convert.ErrUnsupported, "neither")
	src := miniature.hfDir(t, "qwen3", "F32", nil)
	if err := os.Remove(filepath.Join(src, "model.safetensors")); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(src, "pytorch_model.bin"), nil)
	_, err := convert.Run(context.Background(), src, filepath.Join(dir, "out.vqf"), convert.Options{}, nil)
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "model.safetensors") {
		t.Errorf("no weights: got %v", err)
	}
}
