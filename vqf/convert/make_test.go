// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"bytes"
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

// ggufName maps a Hugging Face name to GGUF's.
func ggufName(name string) string {
	switch name {
	case "model.embed_tokens.weight":
		return "token_embd.weight"
	case "model.norm.weight":
		return "output_norm.weight"
	case "lm_head.weight":
		return "output.weight"
	}
	return strings.NewReplacer("model.layers.", "blk.", "input_layernorm", "attn_norm", "post_attention_layernorm", "ffn_norm",
		"self_attn.q_norm", "attn_q_norm", "self_attn.k_norm", "attn_k_norm", "self_attn.q_proj", "attn_q", "self_attn.k_proj", "attn_k",
		"self_attn.v_proj", "attn_v", "self_attn.o_proj", "attn_output", "mlp.gate_proj", "ffn_gate", "mlp.up_proj", "ffn_up",
		"mlp.down_proj", "ffn_down", "mlp.gate.", "ffn_gate_inp.", "mlp.experts.gate_proj", "ffn_gate_exps", "mlp.experts.up_proj", "ffn_up_exps",
		"mlp.experts.down_proj", "ffn_down_exps").Replace(name)
}

// stackExperts puts the experts' tensors of a layer into one, as GGUF has them.
func stackExperts(list []weight, values map[string][]float32, experts int) []weight {
	var out []weight
	for _, w := range list {
		at := strings.Index(w.name, ".experts.")
		if at < 0 {
			out = append(out, w)
			continue
		}
		head, tail := w.name[:at+len(".experts.")], w.name[at+len(".experts."):]
		number, proj, _ := strings.Cut(tail, ".")
		if number != "0" {
			continue
		}
		all := weight{name: head + proj, dims: []int{experts, w.rows, w.cols}, rows: w.rows, cols: w.cols}
		for e := range experts {
			v, ok := values[fmt.Sprintf("%s%d.%s", head, e, proj)]
			if !ok {
				delete(values, all.name)
				break
			}
			values[all.name] = append(values[all.name], v...)
		}
		out = append(out, all)
	}
	return out
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

// pairRows puts rows as GGUF has them for the llama family: row 2j+s of a head
// is the source's row s·half+j.
func pairRows(v []float32, rows, cols, heads int) []float32 {
	out := make([]float32, 0, len(v))
	dim := rows / heads
	for r := range rows {
		in := r % dim
		from := r - in + in%2*(dim/2) + in/2
		out = append(out, v[from*cols:(from+1)*cols]...)
	}
	return out
}

// ggufWriter builds a GGUF file.
type ggufWriter struct {
	kv, infos, data bytes.Buffer
	keys, tensors   uint64
}

func putText(b *bytes.Buffer, s string) {
	b.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(s))))
	b.WriteString(s)
}

func u32(v uint32) []byte { return binary.LittleEndian.AppendUint32(nil, v) }
func u64(v uint64) []byte { return binary.LittleEndian.AppendUint64(nil, v) }

// set adds a key: string, uint32, float32, bool, or a list of any but uint32,
// or of int32.
func (g *ggufWriter) set(key string, value any) {
	g.keys++
	putText(&g.kv, key)
	switch v := value.(type) {
	case string:
		g.kv.Write(u32(8))
		putText(&g.kv, v)
	case uint32:
		g.kv.Write(u32(4))
		g.kv.Write(u32(v))
	case float32:
		g.kv.Write(u32(6))
		g.kv.Write(u32(math.Float32bits(v)))
	case bool:
		g.kv.Write(u32(7))
		g.kv.WriteByte(map[bool]byte{true: 1}[v])
	case []string:
		g.kv.Write(u32(9))
		g.kv.Write(u32(8))
		g.kv.Write(u64(uint64(len(v))))
		for _, s := range v {
			putText(&g.kv, s)
		}
	case []float32:
		g.kv.Write(u32(9))
		g.kv.Write(u32(6))
		g.kv.Write(u64(uint64(len(v))))
		for _, x := range v {
			g.kv.Write(u32(math.Float32bits(x)))
		}
	case []bool:
		g.kv.Write(u32(9))
		g.kv.Write(u32(7))
		g.kv.Write(u64(uint64(len(v))))
		for _, x := range v {
			g.kv.WriteByte(map[bool]byte{true: 1}[x])
		}
	case []int32:
		g.kv.Write(u32(9))
		g.kv.Write(u32(5))
		g.kv.Write(u64(uint64(len(v))))
		for _, n := range v {
			g.kv.Write(u32(uint32(n)))
		}
	default:
		panic(fmt.Sprintf("no GGUF type for %T", v))
	}
}

var ggufTypes = map[string]uint32{"F32": 0, "F16": 1, "BF16": 30, "Q4_0": 2, "Q8_0": 8}

func (g *ggufWriter) add(name, typ string, shape []int, b []byte) {
	g.tensors++
	putText(&g.infos, name)
	g.infos.Write(u32(uint32(len(shape))))
	for i := len(shape) - 1; i >= 0; i-- {
		g.infos.Write(u64(uint64(shape[i])))
	}
	g.infos.Write(u32(ggufTypes[typ]))
	g.infos.Write(u64(uint64(g.data.Len())))
	g.data.Write(b)
	g.data.Write(make([]byte, (32-g.data.Len()%32)%32))
}

func (g *ggufWriter) bytes() []byte {
	b := append([]byte("GGUF"), u32(3)...)
	b = append(append(b, u64(g.tensors)...), u64(g.keys)...)
	b = append(append(b, g.kv.Bytes()...), g.infos.Bytes()...)
	b = append(b, make([]byte, (32-len(b)%32)%32)...)
	return append(b, g.data.Bytes()...)
}

// pictureTokens are the control tokens 3 to 6 of a vocabulary with pictures.
var pictureTokens = []string{"<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"}

// miniTokens are a vocabulary of single bytes with two control tokens.
func miniTokens(n int) (tokens []string, types []int32) {
	for i := range n {
		switch i {
		case 1:
			tokens, types = append(tokens, "<|endoftext|>"), append(types, 3)
		case 2:
			tokens, types = append(tokens, "<|im_end|>"), append(types, 3)
		default:
			tokens, types = append(tokens, string(rune('A'+i))), append(types, 1)
		}
	}
	return tokens, types
}

// ggufFile writes a GGUF file: matrices as typ, norms as F32, q and k in pairs
// for llama. edit may change values before they are stored, and set keys.
func (m mini) ggufFile(t testing.TB, arch, typ string, edit func(g *ggufWriter, values map[string][]float32)) string {
	t.Helper()
	g := new(ggufWriter)
	g.set("general.architecture", arch)
	for key, v := range map[string]uint32{
		"block_count": uint32(m.layers), "context_length": 1024, "embedding_length": uint32(m.dim), "feed_forward_length": uint32(m.ff),
		"attention.head_count": uint32(m.heads), "attention.head_count_kv": uint32(m.kv), "attention.key_length": uint32(m.hd), "attention.value_length": uint32(m.hd),
	} {
		g.set(arch+"."+key, v)
	}
	if m.experts > 0 {
		g.set(arch+".expert_count", uint32(m.experts))
		g.set(arch+".expert_used_count", uint32(m.used))
		g.set(arch+".expert_feed_forward_length", uint32(m.ff))
	}
	if strings.HasPrefix(arch, "qwen3vl") {
		g.set(arch+".rope.dimension_sections", []int32{6, 5, 5, 0})
		if m.tower != nil {
			g.set(arch+".n_deepstack_layers", uint32(len(m.tower.deepstack)))
		}
	}
	g.set(arch+".rope.freq_base", float32(10000))
	g.set(arch+".attention.layer_norm_rms_epsilon", float32(1e-6))
	tokens, types := miniTokens(m.vocab)
	if m.tower != nil {
		for i, token := range pictureTokens {
			tokens[3+i], types[3+i] = token, 3
		}
	}
	if m.mute {
		g.set("tokenizer.ggml.model", "none")
		g.set(arch+".vocab_size", uint32(m.vocab))
	} else {
		g.set("tokenizer.ggml.model", "gpt2")
		g.set("tokenizer.ggml.pre", "qwen2")
		g.set("tokenizer.ggml.tokens", tokens)
		g.set("tokenizer.ggml.token_type", types)
		g.set("tokenizer.ggml.merges", []string{})
		g.set("tokenizer.ggml.bos_token_id", uint32(1))
		if m.embeds { // what ends a text has taken the place of what ends a turn
			g.set("tokenizer.ggml.eos_token_id", uint32(1))
			g.set("tokenizer.ggml.eot_token_id", uint32(2))
			g.set("tokenizer.ggml.padding_token_id", uint32(1))
			g.set("tokenizer.ggml.add_eos_token", true)
		} else {
			g.set("tokenizer.ggml.eos_token_id", uint32(2))
		}
	}
	list := m.weights()
	values := map[string][]float32{}
	for _, w := range list {
		v := w.values()
		if arch == "llama" && w.t == 6 {
			v = pairRows(v, w.rows, w.cols, m.heads)
		}
		if arch == "llama" && w.t == 7 {
			v = pairRows(v, w.rows, w.cols, m.kv)
		}
		values[w.name] = v
	}
	if edit != nil {
		edit(g, values)
	}
	for _, w := range stackExperts(list, values, m.experts) {
		v, ok := values[w.name]
		if !ok || strings.HasPrefix(w.name, "model.visual.") {
			continue
		}
		as := typ
		if w.rows == 0 || strings.Contains(w.name, "mlp.gate.") {
			as = "F32"
		}
		g.add(ggufName(w.name), as, w.shape(), encode(as, v))
	}
	path := filepath.Join(t.TempDir(), "mini.gguf")
	writeFile(t, path, g.bytes())
	return path
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
