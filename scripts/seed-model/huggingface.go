// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"windhover/internal/testmodel"
)

func write(dir string, s shape, seed uint64) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	config := map[string]any{
		"architectures": []string{map[bool]string{false: "Qwen3ForCausalLM", true: "LlamaForCausalLM"}[s.llama]}, "model_type": s.architecture(), "hidden_size": s.dim, "num_hidden_layers": s.layers,
		"num_attention_heads": s.heads, "num_key_value_heads": s.kv, "head_dim": s.hd, "intermediate_size": s.ff,
		"vocab_size": s.vocab, "max_position_embeddings": context, "rope_theta": s.ropeTheta(), "rms_norm_eps": eps,
		"tie_word_embeddings": s.tied, "hidden_act": "silu",
	}
	b, err := json.MarshalIndent(config, "", " ")
	if err != nil {
		return err
	}
	files := map[string][]byte{"config.json": b, "tokenizer.json": s.tokenizer()}
	if s.embeds {
		files["modules.json"], files["1_Pooling/config.json"] = []byte(modules), []byte(pooling)
		if err := os.MkdirAll(filepath.Join(dir, "1_Pooling"), 0o755); err != nil {
			return err
		}
	}
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(name)), b, 0o644); err != nil {
			return err
		}
	}
	return weights(filepath.Join(dir, "model.safetensors"), s, seed)
}

func weights(path string, s shape, seed uint64) error {
	header, at := map[string]any{}, 0
	list := s.tensors()
	for _, t := range list {
		n := 2 * t.values()
		header[s.stored(t.name)] = map[string]any{"dtype": "BF16", "shape": t.shape, "data_offsets": []int{at, at + n}}
		at += n
	}
	h, err := json.Marshal(header)
	if err != nil {
		return err
	}
	for len(h)%8 != 0 {
		h = append(h, ' ')
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	_, _ = w.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(h)))) // Flush tells
	_, _ = w.Write(h)
	for i, t := range list {
		base, scale := float32(0), float32(deviation)
		if len(t.shape) == 1 {
			base, scale = 1, 0.1
		}
		fill(w, rand.NewPCG(seed, uint64(i)), t.values(), base, scale)
	}
	return finish(f, w)
}

// What Qwen3-Embedding says of its embeddings.
const (
	modules = `[{"idx":0,"name":"0","path":"","type":"sentence_transformers.models.Transformer"},
 {"idx":1,"name":"1","path":"1_Pooling","type":"sentence_transformers.models.Pooling"},
 {"idx":2,"name":"2","path":"2_Normalize","type":"sentence_transformers.models.Normalize"}]
`
	pooling = `{"pooling_mode_lasttoken":true,"include_prompt":true}
`
)

// stored is what a tensor is called in a directory: a model of embeddings has no head
// that "model." would tell it from.
func (s shape) stored(name string) string {
	if s.embeds {
		return strings.TrimPrefix(name, "model.")
	}
	return name
}

func (s shape) tokenizer() []byte {
	if s.embeds {
		return testmodel.EmbeddingTokenizerJSON()
	}
	return testmodel.TokenizerJSON()
}

const deviation = 0.02 // of the weights

func finish(f *os.File, w *bufio.Writer) error {
	if err := w.Flush(); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return f.Close()
}

// fill writes n values around base: the sum of four bytes has a bell's shape, and
// a deviation of 147.8.
func fill(w *bufio.Writer, r *rand.PCG, n int, base, scale float32) {
	var b [8]byte
	for n > 0 {
		hi, lo := r.Uint64(), r.Uint64()
		for k, v := range [4]uint32{uint32(hi), uint32(hi >> 32), uint32(lo), uint32(lo >> 32)} {
			sum := v&255 + v>>8&255 + v>>16&255 + v>>24
			x := math.Float32bits(base + float32((float32(sum)-510)*(scale/147.8)))
			binary.LittleEndian.PutUint16(b[2*k:], uint16((x+0x8000)>>16))
		}
		m := min(n, 4)
		_, _ = w.Write(b[:2*m]) // Flush tells
		n -= m
	}
}
