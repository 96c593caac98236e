// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"windhover/internal/testmodel"
	"windhover/kernels"
	"windhover/vqf"
)

// hfModel reads a Hugging Face directory for the golden tests: as little as
// these directories need, and independent of the converter.
type hfModel struct {
	arch    vqf.Arch
	tensors map[string][]float32
	tok     []byte
}

func readHF(t testing.TB, dir string) *hfModel {
	t.Helper()
	m := &hfModel{tensors: map[string][]float32{}, tok: readFile(t, filepath.Join(dir, "tokenizer.json"))}
	var c struct {
		Dim     uint32  `json:"hidden_size"`
		Layers  uint32  `json:"num_hidden_layers"`
		Heads   uint32  `json:"num_attention_heads"`
		KVHeads uint32  `json:"num_key_value_heads"`
		HeadDim uint32  `json:"head_dim"`
		FFN     uint32  `json:"intermediate_size"`
		Vocab   uint32  `json:"vocab_size"`
		Theta   float32 `json:"rope_theta"`
		Eps     float32 `json:"rms_norm_eps"`
		Experts uint32  `json:"num_experts"`
		TopK    uint32  `json:"num_experts_per_tok"`
		MoEFFN  uint32  `json:"moe_intermediate_size"`
		RopeNew struct {
			Theta float32 `json:"rope_theta"`
		} `json:"rope_parameters"`
		Text json.RawMessage `json:"text_config"`
	}
	data := readFile(t, filepath.Join(dir, "config.json"))
	unmarshal(t, data, &c)
	if c.Text != nil {
		unmarshal(t, c.Text, &c)
	}
	if c.Theta == 0 {
		c.Theta = c.RopeNew.Theta
	}
	if c.HeadDim == 0 {
		c.HeadDim = c.Dim / c.Heads
	}
	shards, err := filepath.Glob(filepath.Join(dir, "*.safetensors"))
	if err != nil || len(shards) == 0 {
		t.Fatalf("%s: no safetensors (%v)", dir, err)
	}
	for _, s := range shards {
		m.readShard(t, readFile(t, s))
	}
	m.arch = vqf.Arch{
		Dim: c.Dim, NLayers: c.Layers, NHeads: c.Heads, NKVHeads: c.KVHeads, HeadDim: c.HeadDim, HeadDimFull: c.HeadDim,
		FFNDim: c.FFN, VocabSize: c.Vocab, MaxSeqLen: 512, RopeTheta: c.Theta, NormEps: c.Eps,
		BosID: vqf.NoToken, EosID: vqf.NoToken,
	}
	if c.Experts > 0 {
		m.arch.NExperts, m.arch.TopK, m.arch.MoEFFN, m.arch.FFNDim = c.Experts, c.TopK, c.MoEFFN, c.Experts*c.MoEFFN
	}
	if _, ok := m.find("layers.0.self_attn.q_norm.weight"); ok {
		m.arch.HasQNorm = 1
	}
	return m
}

func (m *hfModel) readShard(t testing.TB, data []byte) {
	t.Helper()
	n := binary.LittleEndian.Uint64(data)
	var index map[string]struct {
		Type    string `json:"dtype"`
		Offsets [2]int `json:"data_offsets"`
	}
	header := bytes.ReplaceAll(data[8:8+n], []byte(`"__metadata__"`), []byte(`"m"`))
	var raw map[string]json.RawMessage
	unmarshal(t, header, &raw)
	delete(raw, "m")
	index = make(map[string]struct {
		Type    string `json:"dtype"`
		Offsets [2]int `json:"data_offsets"`
	})
	for name, r := range raw {
		e := index[name]
		unmarshal(t, r, &e)
		body := data[8+int(n)+e.Offsets[0] : 8+int(n)+e.Offsets[1]]
		var x []float32
		switch e.Type {
		case "F32":
			for i := 0; i < len(body); i += 4 {
				x = append(x, math.Float32frombits(binary.LittleEndian.Uint32(body[i:])))
			}
		case "F16":
			for i := 0; i < len(body); i += 2 {
				x = append(x, kernels.F16ToF32(binary.LittleEndian.Uint16(body[i:])))
			}
		case "BF16":
			for i := 0; i < len(body); i += 2 {
				x = append(x, math.Float32frombits(uint32(binary.LittleEndian.Uint16(body[i:]))<<16))
			}
		default:
			t.Fatalf("tensor %s: type %s", name, e.Type)
		}
		m.tensors[name] = x
	}
}

func (m *hfModel) find(suffix string) ([]float32, bool) {
	for _, prefix := range []string{"model.language_model.", "model."} {
		if x, ok := m.tensors[prefix+suffix]; ok {
			return x, true
		}
	}
	return nil, false
}

// source names the tensors as a VQF file does.
func (m *hfModel) source(name string, layer int) ([]float32, error) {
	names := map[string]string{
		"token_embed": "embed_tokens.weight", "final_norm": "norm.weight",
		"attn_norm": "input_layernorm.weight", "ffn_norm": "post_attention_layernorm.weight",
		"q_norm": "self_attn.q_norm.weight", "k_norm": "self_attn.k_norm.weight",
		"q": "self_attn.q_proj.weight", "k": "self_attn.k_proj.weight",
		"v": "self_attn.v_proj.weight", "o": "self_attn.o_proj.weight",
		"gate": "mlp.gate_proj.weight", "up": "mlp.up_proj.weight", "down": "mlp.down_proj.weight",
		"moe_router": "mlp.gate.weight",
	}
	if n := int(m.arch.NExperts); n > 0 && (name == "gate" || name == "up" || name == "down") {
		return m.stack(name, layer, n)
	}
	if name == "lm" {
		if x, ok := m.tensors["lm_head.weight"]; ok {
			return x, nil
		}
		name = "token_embed"
	}
	hf := names[name]
	if name != "token_embed" && name != "final_norm" {
		hf = fmt.Sprintf("layers.%d.%s", layer, hf)
	}
	x, ok := m.find(hf)
	if !ok {
		return nil, fmt.Errorf("no tensor %s", hf)
	}
	return x, nil
}

// stack is the matrix of all experts: gate and up below each other, down side by
// side.
func (m *hfModel) stack(name string, layer, experts int) ([]float32, error) {
	var all []float32
	width := int(m.arch.MoEFFN)
	for e := range experts {
		x, ok := m.find(fmt.Sprintf("layers.%d.mlp.experts.%d.%s_proj.weight", layer, e, name))
		if !ok {
			return nil, fmt.Errorf("no %s of expert %d", name, e)
		}
		if name != "down" {
			all = append(all, x...)
			continue
		}
		if all == nil {
			all = make([]float32, experts*len(x))
		}
		for r := range len(x) / width {
			copy(all[(r*experts+e)*width:][:width], x[r*width:])
		}
	}
	return all, nil
}

// write makes a VQF file of the model. The layouts are what the geometry
// allows.
func (m *hfModel) write(t testing.TB, mode vqf.Mode, want vqf.Layout) string {
	t.Helper()
	q8, q4 := vqf.DefaultLayouts(m.arch, mode, want)
	if want == vqf.LayoutRow {
		q4 = vqf.LayoutRow
	}
	path := filepath.Join(t.TempDir(), "model.vqf")
	spec := testmodel.Spec{VQF: vqf.Spec{Arch: m.arch, Mode: mode, Q8: q8, Q4: q4}, Tokenizer: m.tok}
	if err := testmodel.Build(path, spec, m.source); err != nil {
		t.Fatal(err)
	}
	return path
}

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func unmarshal(t testing.TB, data []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatal(err)
	}
}

// readNPY reads a float32 array in C order.
func readNPY(t testing.TB, path string) []float32 {
	t.Helper()
	data := readFile(t, path)
	if len(data) < 10 || string(data[:6]) != "\x93NUMPY" || data[6] != 1 {
		t.Fatalf("%s: not a version 1 npy file", path)
	}
	at := 10 + int(binary.LittleEndian.Uint16(data[8:]))
	header := string(data[10:at])
	if !bytes.Contains([]byte(header), []byte("'<f4'")) || !bytes.Contains([]byte(header), []byte("False")) {
		t.Fatalf("%s: header %q, want little-endian float32 in C order", path, header)
	}
	x := make([]float32, (len(data)-at)/4)
	for i := range x {
		x[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[at+4*i:]))
	}
	return x
}

// golden is golden.json of a model.
type golden struct {
	Same    string `json:"same_goldens_as"`
	Vocab   int    `json:"vocab_size"`
	Prompts []struct {
		Name string  `json:"name"`
		IDs  []int32 `json:"ids"`
		Rows [2]int  `json:"rows"`
	} `json:"prompts"`
	Variants map[string]struct {
		Logits struct {
			File string `json:"file"`
		} `json:"logits"`
		Greedy map[string]struct {
			IDs     []int32   `json:"ids"`
			Margins []float64 `json:"margins"`
		} `json:"greedy"`
	} `json:"variants"`
	Long struct {
		IDs    []int32   `json:"ids"`
		Argmax []int32   `json:"argmax_f32"`
		Margin []float64 `json:"margin_f32"`
		Last4  struct {
			File string `json:"file"`
		} `json:"last4_q8_0"`
	} `json:"long"`
	Hidden struct {
		Prompt string `json:"prompt"`
		Q8     struct {
			File string `json:"file"`
		} `json:"q8_0"`
	} `json:"hidden"`
	Router map[string]json.RawMessage `json:"router"` // of a variant, and which rows are safe
}

func readGolden(t testing.TB, dir string) *golden {
	t.Helper()
	g := new(golden)
	unmarshal(t, readFile(t, filepath.Join(dir, "golden", "golden.json")), g)
	return g
}

// shared returns the directory of the goldens that are too large to be kept
// here, "" where there is none.
func shared(parts ...string) string {
	path := filepath.Join(append([]string{"..", "..", "shared", "golden"}, parts...)...)
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}
