// SPDX-License-Identifier: Apache-2.0

//go:build ignore

// Seed-model writes a model of a published shape with made-up weights, for
// measuring without the model itself. A Hugging Face directory in BF16 is what
// conversions are measured with:
//
//	go run scripts/seed-model.go -shape qwen3-vl-2b -o /var/tmp/seed-2b
//
// A GGUF file, every matrix and the embedding in one type, is what llama.cpp's
// llama-bench runs beside `windhover bench --shape`:
//
//	go run scripts/seed-model.go -gguf q8_0 -shape qwen3-0.6b -o /var/tmp/0.6b-q8_0.gguf
//	llama-bench -m /var/tmp/0.6b-q8_0.gguf -p 512 -n 64 -t 1
//
// The values depend on the seed and on nothing else. Every byte is written, so
// that no hole of a sparse file makes reading cheaper than it is. They have the
// deviation of trained weights, those in BF16 their bell's shape too; the norms
// are near 1. There is no vocabulary in the GGUF file, only its size.
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
	"windhover/kernels"
)

// A shape is the text part of a published model.
type shape struct {
	dim, layers, heads, kv, hd, ff, vocab int
	tied                                  bool
	llama                                 bool // the llama architecture, without norms of q and k; else qwen3
}

func (s shape) architecture() string {
	if s.llama {
		return "llama"
	}
	return "qwen3"
}

func (s shape) ropeTheta() float64 {
	if s.llama {
		return 1e5
	}
	return 5e6
}

const context, eps = 40960, 1e-6

var shapes = map[string]shape{
	"smollm2-135m": {576, 30, 9, 3, 64, 1536, 49152, true, true},
	"qwen3-0.6b":   {1024, 28, 16, 8, 128, 3072, 151936, true, false},
	"qwen3-1.7b":   {2048, 28, 16, 8, 128, 6144, 151936, true, false},
	"qwen3-vl-2b":  {2048, 28, 16, 8, 128, 6144, 151936, true, false},
	"qwen3-4b":     {2560, 36, 32, 8, 128, 9728, 151936, true, false},
	"qwen3-8b":     {4096, 36, 32, 8, 128, 12288, 151936, false, false},
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
		if !s.llama {
			add("self_attn.q_norm", s.hd)
			add("self_attn.k_norm", s.hd)
		}
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
	out := flag.String("o", "", "directory to make, or file with -gguf")
	seed := flag.Uint64("seed", 1, "of the values")
	gguf := flag.String("gguf", "", "write a GGUF file of this type, q8_0 or q4_0")
	flag.Parse()
	s, ok := shapes[*name]
	typ, known := blockTypes[*gguf]
	if !ok || *out == "" || flag.NArg() > 0 || *gguf != "" && !known {
		flag.Usage()
		os.Exit(2)
	}
	make := func() error { return write(*out, s, *seed) }
	if known {
		make = func() error { return writeGGUF(*out, *name, s, typ, *seed) }
	}
	if err := make(); err != nil {
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
		"architectures": []string{map[bool]string{false: "Qwen3ForCausalLM", true: "LlamaForCausalLM"}[s.llama]}, "model_type": s.architecture(), "hidden_size": s.dim, "num_hidden_layers": s.layers,
		"num_attention_heads": s.heads, "num_key_value_heads": s.kv, "head_dim": s.hd, "intermediate_size": s.ff,
		"vocab_size": s.vocab, "max_position_embeddings": context, "rope_theta": s.ropeTheta(), "rms_norm_eps": eps,
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
		base, scale := float32(0), float32(deviation)
		if len(t.shape) == 1 {
			base, scale = 1, 0.1
		}
		fill(w, rand.NewPCG(seed, uint64(i)), t.values(), base, scale)
	}
	return finish(f, w)
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

// A blockType is a GGUF type of 32 weights: a scale in F16 and their codes.
type blockType struct {
	id, file uint32 // of a tensor and of a file
	codes    int    // bytes
	spread   float64
}

var blockTypes = map[string]blockType{
	"q8_0": {8, 7, 32, 73.9}, // codes from -128 to 127
	"q4_0": {2, 2, 16, 4.61}, // codes from -8 to 7
}

const blockLen, alignment, typeF32 = 32, 32, 0

func (t tensor) matrix() bool { return len(t.shape) == 2 }

func (t tensor) bytes(b blockType) int {
	if t.matrix() {
		return t.values() / blockLen * (2 + b.codes)
	}
	return 4 * t.values()
}

// ggufName is what the file calls a tensor.
func ggufName(name string) string {
	return strings.NewReplacer("model.embed_tokens", "token_embd", "model.layers.", "blk.", "model.norm", "output_norm", "lm_head", "output",
		"input_layernorm", "attn_norm", "post_attention_layernorm", "ffn_norm", "self_attn.", "attn_", "q_proj", "q", "k_proj", "k", "v_proj", "v",
		"o_proj", "output", "mlp.gate_proj", "ffn_gate", "mlp.up_proj", "ffn_up", "mlp.down_proj", "ffn_down").Replace(name)
}

func writeGGUF(path, name string, s shape, typ blockType, seed uint64) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	w, list := bufio.NewWriterSize(f, 1<<20), s.tensors()
	header := ggufHeader(name, s, typ, list)
	_, _ = w.Write(header) // Flush tells, here and below
	for i, t := range list {
		r, n := rand.NewPCG(seed, uint64(i)), t.bytes(typ)
		if t.matrix() {
			fillBlocks(w, r, t.values()/blockLen, typ)
		} else {
			for range t.values() {
				_, _ = w.Write(binary.LittleEndian.AppendUint32(nil, math.Float32bits(1+float32(int32(r.Uint64()>>32))*(0.1/(1<<31)))))
			}
		}
		_, _ = w.Write(make([]byte, -n&(alignment-1)))
	}
	return finish(f, w)
}

// ggufHeader is all before the data: version 3, keys, and the list of tensors.
func ggufHeader(name string, s shape, typ blockType, list []tensor) []byte {
	le := binary.LittleEndian
	text := func(b []byte, s string) []byte { return append(le.AppendUint64(b, uint64(len(s))), s...) }
	var keys []byte
	count := uint64(0)
	put := func(key string, value any) {
		count++
		keys = text(keys, key)
		switch v := value.(type) {
		case int:
			keys = le.AppendUint32(le.AppendUint32(keys, 4), uint32(v))
		case float64:
			keys = le.AppendUint32(le.AppendUint32(keys, 6), math.Float32bits(float32(v)))
		case string:
			keys = text(le.AppendUint32(keys, 8), v)
		}
	}
	arch := s.architecture()
	put("general.architecture", arch)
	put("general.name", name+" with made-up weights")
	put("general.file_type", int(typ.file))
	put("general.quantization_version", 2)
	put("general.alignment", alignment)
	put(arch+".block_count", s.layers)
	put(arch+".context_length", context)
	put(arch+".embedding_length", s.dim)
	put(arch+".feed_forward_length", s.ff)
	put(arch+".attention.head_count", s.heads)
	put(arch+".attention.head_count_kv", s.kv)
	put(arch+".attention.key_length", s.hd)
	put(arch+".attention.value_length", s.hd)
	put(arch+".attention.layer_norm_rms_epsilon", eps)
	put(arch+".rope.freq_base", s.ropeTheta())
	put(arch+".rope.dimension_count", s.hd)
	put(arch+".vocab_size", s.vocab)
	put("tokenizer.ggml.model", "none")

	b := append([]byte("GGUF"), le.AppendUint32(nil, 3)...)
	b = le.AppendUint64(le.AppendUint64(b, uint64(len(list))), count)
	b = append(b, keys...)
	at := 0
	for _, t := range list {
		b = le.AppendUint32(text(b, ggufName(t.name)), uint32(len(t.shape)))
		for _, d := range slices.Backward(t.shape) { // the innermost first
			b = le.AppendUint64(b, uint64(d))
		}
		id := uint32(typeF32)
		if t.matrix() {
			id = typ.id
		}
		b = le.AppendUint64(le.AppendUint32(b, id), uint64(at))
		at += (t.bytes(typ) + alignment - 1) &^ (alignment - 1)
	}
	return append(b, make([]byte, -len(b)&(alignment-1))...)
}

// fillBlocks writes n blocks of any codes, with the scale that gives them the
// deviation.
func fillBlocks(w *bufio.Writer, r *rand.PCG, n int, typ blockType) {
	block := make([]byte, 2+typ.codes)
	binary.LittleEndian.PutUint16(block, kernels.F32ToF16(float32(deviation/typ.spread)))
	for range n {
		for i := 2; i < len(block); i += 8 {
			binary.LittleEndian.PutUint64(block[i:], r.Uint64())
		}
		_, _ = w.Write(block) // Flush tells
	}
}
