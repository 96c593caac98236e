// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"
)

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
