// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"windhover/kernels"
)

// mini is the model of docs/FORMAT.md section 17.6: element i of tensor t
// in layer l is ((37·i + 11·t + 5·l) mod 251 − 125) / 128. Every value has few
// enough bits to be exact in F16 and BF16.
type mini struct {
	dim, layers, heads, kv, hd, ff, vocab int
	qnorm, tied                           bool
	mute                                  bool // the GGUF file has no vocabulary, only its size
	experts, used                         int  // of a mixture, whose experts are ff wide
	fused                                 bool // the directory has the experts of a layer in one tensor
	tower                                 *miniTower
	embeds                                bool // it is stored as Qwen3-Embedding is: without a head, and with what is said of embeddings
}

var miniature = mini{dim: 32, layers: 2, heads: 2, kv: 1, hd: 32, ff: 64, vocab: 16, qnorm: true}

// weight is one tensor of a mini by its Hugging Face name.
type weight struct {
	name       string
	t, layer   int
	rows, cols int // rows 0: a vector
	dims       []int
}

func (m mini) weights() []weight {
	list := []weight{
		{name: "model.embed_tokens.weight", t: 0, rows: m.vocab, cols: m.dim},
		{name: "model.norm.weight", t: 1, cols: m.dim},
	}
	for l := range m.layers {
		add := func(name string, t, rows, cols int) {
			list = append(list, weight{fmt.Sprintf("model.layers.%d.%s.weight", l, name), t, l, rows, cols, nil})
		}
		add("input_layernorm", 2, 0, m.dim)
		add("post_attention_layernorm", 3, 0, m.dim)
		if m.qnorm {
			add("self_attn.q_norm", 4, 0, m.hd)
			add("self_attn.k_norm", 5, 0, m.hd)
		}
		add("self_attn.q_proj", 6, m.heads*m.hd, m.dim)
		add("self_attn.k_proj", 7, m.kv*m.hd, m.dim)
		add("self_attn.v_proj", 8, m.kv*m.hd, m.dim)
		add("self_attn.o_proj", 9, m.dim, m.heads*m.hd)
		if m.experts > 0 {
			add("mlp.gate", 14, m.experts, m.dim)
		} else {
			add("mlp.gate_proj", 10, m.ff, m.dim)
			add("mlp.up_proj", 11, m.ff, m.dim)
			add("mlp.down_proj", 12, m.dim, m.ff)
		}
		for e := range m.experts {
			add(fmt.Sprintf("mlp.experts.%d.gate_proj", e), 20+3*e, m.ff, m.dim)
			add(fmt.Sprintf("mlp.experts.%d.up_proj", e), 21+3*e, m.ff, m.dim)
			add(fmt.Sprintf("mlp.experts.%d.down_proj", e), 22+3*e, m.dim, m.ff)
		}
	}
	if !m.tied && !m.embeds {
		list = append(list, weight{name: "lm_head.weight", t: 13, rows: m.vocab, cols: m.dim})
	}
	if m.tower != nil {
		list = append(list, m.tower.weights()...)
	}
	return list
}

func (w weight) values() []float32 {
	v := make([]float32, max(w.rows, 1)*w.cols)
	for i := range v {
		v[i] = float32((37*i+11*w.t+5*w.layer)%251-125) / 128
	}
	return v
}

func (w weight) shape() []int {
	if w.dims != nil {
		return w.dims
	}
	if w.rows == 0 {
		return []int{w.cols}
	}
	return []int{w.rows, w.cols}
}

// encode stores values as F32, F16, BF16, Q8_0 or Q4_0.
func encode(typ string, v []float32) []byte {
	var b []byte
	switch typ {
	case "F32":
		for _, x := range v {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
		}
	case "F16":
		for _, x := range v {
			b = binary.LittleEndian.AppendUint16(b, kernels.F32ToF16(x))
		}
	case "BF16":
		for _, x := range v {
			b = binary.LittleEndian.AppendUint16(b, uint16(math.Float32bits(x)>>16))
		}
	case "Q8_0":
		b = make([]byte, len(v)/32*34)
		kernels.QuantizeQ8(b, v)
	case "Q4_0":
		b = make([]byte, len(v)/32*18)
		kernels.QuantizeQ4(b, v)
	default:
		panic("no type " + typ)
	}
	return b
}

// config is config.json as an editable map.
func (m mini) config(modelType string) map[string]any {
	class := map[string]string{"qwen3": "Qwen3ForCausalLM", "llama": "LlamaForCausalLM", "qwen3_moe": "Qwen3MoeForCausalLM",
		"qwen3_vl": "Qwen3VLForConditionalGeneration"}[modelType]
	c := map[string]any{
		"architectures": []string{class}, "model_type": modelType, "hidden_size": m.dim, "num_hidden_layers": m.layers,
		"num_attention_heads": m.heads, "num_key_value_heads": m.kv, "head_dim": m.hd, "intermediate_size": m.ff,
		"vocab_size": m.vocab, "max_position_embeddings": 1024, "rope_theta": 10000.0, "rms_norm_eps": 1e-6,
		"bos_token_id": 1, "eos_token_id": 2, "tie_word_embeddings": m.tied, "hidden_act": "silu",
	}
	if m.experts > 0 {
		c["intermediate_size"] = 4 * m.ff // of the layers without experts, which there are none of
		c["num_experts"], c["moe_intermediate_size"], c["num_experts_per_tok"] = m.experts, m.ff, m.used
		c["norm_topk_prob"], c["decoder_sparse_step"], c["mlp_only_layers"] = true, 1, []int{}
	}
	if m.tower != nil {
		c["vision_config"] = m.tower.config()
		c["rope_scaling"] = map[string]any{"rope_type": "default", "mrope_interleaved": true, "mrope_section": []int{6, 5, 5}}
		c["vision_start_token_id"], c["vision_end_token_id"], c["image_token_id"], c["video_token_id"] = 3, 4, 5, 6
	}
	return c
}

// hfDir writes a Hugging Face directory; edit may change the config, and the
// tensors by name before they are stored as typ.
func (m mini) hfDir(t testing.TB, modelType, typ string, edit func(config map[string]any, values map[string][]float32)) string {
	t.Helper()
	config := m.config(modelType)
	list := m.weights()
	values := map[string][]float32{}
	for _, w := range list {
		values[w.name] = w.values()
	}
	if edit != nil {
		edit(config, values)
	}
	if m.fused {
		list = fuse(list, values, m.experts)
	}
	dir := t.TempDir()
	writeJSON(t, filepath.Join(dir, "config.json"), config)
	header := map[string]any{}
	var data []byte
	put := func(name string, shape []int) {
		v, ok := values[name]
		if !ok {
			return
		}
		delete(values, name)
		b := encode(typ, v)
		if m.embeds {
			name = strings.TrimPrefix(name, "model.")
		}
		header[name] = map[string]any{"dtype": typ, "shape": shape, "data_offsets": []int{len(data), len(data) + len(b)}}
		data = append(data, b...)
	}
	for _, w := range list {
		put(w.name, w.shape())
	}
	for name, v := range values { // what edit added: at most one, so the order is settled
		put(name, []int{len(v)})
	}
	h, err := json.Marshal(header)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "model.safetensors"), append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(h))), h...), data...))
	if m.embeds {
		m.embedding(t, dir)
	}
	return dir
}

// fuse puts gate and up of all experts of a layer into one tensor, and down
// into another, as newer Hugging Face files may have them.
func fuse(list []weight, values map[string][]float32, experts int) []weight {
	list = stackExperts(list, values, experts)
	var out []weight
	for _, w := range list {
		switch {
		case strings.HasSuffix(w.name, ".experts.gate_proj.weight"):
			head := strings.TrimSuffix(w.name, "gate_proj.weight")
			gate, up := values[w.name], values[head+"up_proj.weight"]
			both := weight{name: head + "gate_up_proj", dims: []int{experts, 2 * w.rows, w.cols}, rows: w.rows, cols: w.cols}
			for e, n := 0, w.rows*w.cols; e < experts; e++ {
				values[both.name] = append(append(values[both.name], gate[e*n:(e+1)*n]...), up[e*n:(e+1)*n]...)
			}
			out = append(out, both)
		case strings.HasSuffix(w.name, ".experts.up_proj.weight"):
		case strings.HasSuffix(w.name, ".experts.down_proj.weight"):
			values[strings.TrimSuffix(w.name, ".weight")] = values[w.name]
			w.name = strings.TrimSuffix(w.name, ".weight")
			out = append(out, w)
		default:
			out = append(out, w)
		}
	}
	for name := range values {
		if strings.Contains(name, ".experts.") && strings.HasSuffix(name, ".weight") {
			delete(values, name)
		}
	}
	return out
}

func writeFile(t testing.TB, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func writeJSON(t testing.TB, path string, v any) {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, path, b)
}

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
