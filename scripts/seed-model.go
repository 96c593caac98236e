// SPDX-License-Identifier: Apache-2.0

//go:build ignore

// Seed-model writes a Hugging Face directory of a published shape with made-up
// weights in BF16, for measuring conversions without the model itself:
//
//	go run scripts/seed-model.go -shape qwen3-vl-2b -o /var/tmp/seed-2b
//
// The values depend on the seed and on nothing else. Every byte is written, so
// that no hole of a sparse file makes reading cheaper than it is. They are
// bell-shaped with the deviation that trained weights have; the norms are near 1.
package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"windhover/internal/testmodel"
)

// A shape is the text part of a published model.
type shape struct {
	dim, layers, heads, kv, hd, ff, vocab int
	tied                                  bool
}

var shapes = map[string]shape{
	"qwen3-0.6b":  {1024, 28, 16, 8, 128, 3072, 151936, true},
	"qwen3-1.7b":  {2048, 28, 16, 8, 128, 6144, 151936, true},
	"qwen3-vl-2b": {2048, 28, 16, 8, 128, 6144, 151936, true},
	"qwen3-4b":    {2560, 36, 32, 8, 128, 9728, 151936, true},
	"qwen3-8b":    {4096, 36, 32, 8, 128, 12288, 151936, false},
}

type tensor struct {
	name  string
	shape []int
}

func (s shape) tensors() []tensor {
	list := []tensor{{"model.embed_tokens.weight", []int{s.vocab, s.dim}}}
	for l := range s.layers {
		add := func(name string, shape ...int) {
			list = append(list, tensor{fmt.Sprintf("model.layers.%d.%s.weight", l, name), shape})
		}
		add("input_layernorm", s.dim)
		add("self_attn.q_proj", s.heads*s.hd, s.dim)
		add("self_attn.k_proj", s.kv*s.hd, s.dim)
		add("self_attn.v_proj", s.kv*s.hd, s.dim)
		add("self_attn.q_norm", s.hd)
		add("self_attn.k_norm", s.hd)
		add("self_attn.o_proj", s.dim, s.heads*s.hd)
		add("post_attention_layernorm", s.dim)
		add("mlp.gate_proj", s.ff, s.dim)
		add("mlp.up_proj", s.ff, s.dim)
		add("mlp.down_proj", s.dim, s.ff)
	}
	list = append(list, tensor{"model.norm.weight", []int{s.dim}})
	if !s.tied {
		list = append(list, tensor{"lm_head.weight", []int{s.vocab, s.dim}})
	}
	return list
}

func (t tensor) values() int {
	n := 1
	for _, d := range t.shape {
		n *= d
	}
	return n
}

func main() {
	name := flag.String("shape", "qwen3-vl-2b", "one of "+strings.Join(names(), ", "))
	out := flag.String("o", "", "directory to make")
	seed := flag.Uint64("seed", 1, "of the values")
	flag.Parse()
	s, ok := shapes[*name]
	if !ok || *out == "" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := write(*out, s, *seed); err != nil {
		fmt.Fprintln(os.Stderr, "seed-model:", err)
		os.Exit(1)
	}
}

func names() []string {
	var list []string
	for n := range shapes {
		list = append(list, n)
	}
	slices.Sort(list)
	return list
}

func write(dir string, s shape, seed uint64) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	config := map[string]any{
		"architectures": []string{"Qwen3ForCausalLM"}, "model_type": "qwen3", "hidden_size": s.dim, "num_hidden_layers": s.layers,
		"num_attention_heads": s.heads, "num_key_value_heads": s.kv, "head_dim": s.hd, "intermediate_size": s.ff,
		"vocab_size": s.vocab, "max_position_embeddings": 40960, "rope_theta": 5e6, "rms_norm_eps": 1e-6,
		"tie_word_embeddings": s.tied, "hidden_act": "silu",
	}
	b, err := json.MarshalIndent(config, "", " ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), b, 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "tokenizer.json"), testmodel.TokenizerJSON(), 0o644); err != nil {
		return err
	}
	return weights(filepath.Join(dir, "model.safetensors"), s, seed)
}

func weights(path string, s shape, seed uint64) error {
	header, at := map[string]any{}, 0
	list := s.tensors()
	for _, t := range list {
		n := 2 * t.values()
		header[t.name] = map[string]any{"dtype": "BF16", "shape": t.shape, "data_offsets": []int{at, at + n}}
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
		base, scale := float32(0), float32(0.02)
		if len(t.shape) == 1 {
			base, scale = 1, 0.1
		}
		fill(w, rand.NewPCG(seed, uint64(i)), t.values(), base, scale)
	}
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
