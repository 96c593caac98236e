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
// A VQF file, as a conversion to that mode would have it, is what is measured where
// the model itself, or its conversion, would not fit the disk:
//
//	go run scripts/seed-model.go -vqf q4 -shape qwen3-30b-a3b -o /var/tmp/30b-a3b.vqf
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
	"windhover/vqf"
)

// A shape is the text part of a published model.
type shape struct {
	dim, layers, heads, kv, hd, ff, vocab int
	tied                                  bool
	llama                                 bool // the llama architecture, without norms of q and k; else qwen3

	experts, top, expertFF int  // of a mixture; ff is all experts together
	vision                 bool // the tower of Qwen3-VL, in a VQF file
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
	"smollm2-135m":  {dim: 576, layers: 30, heads: 9, kv: 3, hd: 64, ff: 1536, vocab: 49152, tied: true, llama: true},
	"qwen3-0.6b":    {dim: 1024, layers: 28, heads: 16, kv: 8, hd: 128, ff: 3072, vocab: 151936, tied: true},
	"qwen3-1.7b":    {dim: 2048, layers: 28, heads: 16, kv: 8, hd: 128, ff: 6144, vocab: 151936, tied: true},
	"qwen3-vl-2b":   {dim: 2048, layers: 28, heads: 16, kv: 8, hd: 128, ff: 6144, vocab: 151936, tied: true, vision: true},
	"qwen3-4b":      {dim: 2560, layers: 36, heads: 32, kv: 8, hd: 128, ff: 9728, vocab: 151936, tied: true},
	"qwen3-8b":      {dim: 4096, layers: 36, heads: 32, kv: 8, hd: 128, ff: 12288, vocab: 151936},
	"qwen3-30b-a3b": {dim: 2048, layers: 48, heads: 32, kv: 4, hd: 128, ff: 128 * 768, vocab: 151936, experts: 128, top: 8, expertFF: 768},
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
	mode := flag.String("vqf", "", "write a VQF file of this mode, q4, q8 or dual")
	flag.Parse()
	s, ok := shapes[*name]
	typ, known := blockTypes[*gguf]
	if !ok || *out == "" || flag.NArg() > 0 || *gguf != "" && (!known || *mode != "") {
		flag.Usage()
		os.Exit(2)
	}
	if s.experts > 0 && *mode == "" {
		fmt.Fprintln(os.Stderr, "seed-model: a mixture of experts is written as VQF only: add -vqf q4")
		os.Exit(2)
	}
	make := func() error { return write(*out, s, *seed) }
	switch {
	case known:
		make = func() error { return writeGGUF(*out, *name, s, typ, *seed) }
	case *mode != "":
		make = func() error { return writeVQF(*out, s, vqf.Mode(*mode), *seed) }
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

// arch is the header of a VQF file.
func (s shape) arch() vqf.Arch {
	u := func(n int) uint32 { return uint32(n) }
	a := vqf.Arch{
		Dim: u(s.dim), NLayers: u(s.layers), NHeads: u(s.heads), NKVHeads: u(s.kv), HeadDim: u(s.hd), HeadDimFull: u(s.hd), FFNDim: u(s.ff),
		VocabSize: u(s.vocab), MaxSeqLen: context, RopeTheta: float32(s.ropeTheta()), NormEps: eps, BosID: vqf.NoToken, EosID: testmodel.TokenEnd,
		HasQNorm: 1, NExperts: u(s.experts), MoEFFN: u(s.expertFF), TopK: u(s.top),
	}
	if s.llama {
		a.HasQNorm = 0
	}
	if s.vision {
		a.HasMRope, a.MRopeNSec, a.MRopeSections = 1, 3, [4]int32{24, 20, 20}
		a.HasVision, a.VisDepth, a.VisHidden, a.VisHeads, a.VisFFN = 1, 24, 1024, 16, 4096
		a.VisPatch, a.VisTemporal, a.VisMerge, a.VisOutDim, a.VisInChan, a.VisMaxPos = 16, 2, 2, u(s.dim), 3, 2304
		a.VisDSCount, a.VisDSIdx = 3, [4]int32{5, 11, 17}
		a.VisionStartID, a.VisionEndID, a.ImageTokenID, a.VideoTokenID = 151652, 151653, 151655, 151656
	}
	return a
}

// writeVQF writes the layouts that a conversion chooses.
func writeVQF(path string, s shape, mode vqf.Mode, seed uint64) error {
	spec := vqf.Spec{Arch: s.arch(), Mode: mode, Vision: s.vision}
	spec.Q8, spec.Q4 = vqf.DefaultLayouts(spec.Arch, mode, vqf.Layout8x8)
	tok := testmodel.TokenizerJSON()
	spec.Extra = []vqf.Extra{{Name: vqf.NameTokenizer, Size: int64(len(tok))}}
	plan, err := vqf.NewPlan(spec)
	if err != nil {
		return err
	}
	w, err := vqf.Create(path, plan)
	if err != nil {
		return err
	}
	defer w.Abort()
	buf := make([]byte, 0, 4<<20)
	for i, t := range plan.Tensors {
		if t.Name == vqf.NameTokenizer {
			if err := w.WriteTensor(t.Name, tok); err != nil {
				return err
			}
			continue
		}
		put := valuesOf(t, spec, rand.NewPCG(seed, uint64(i)))
		for left := int(t.Bytes); left > 0; left -= len(buf) {
			for buf = buf[:0]; len(buf) < min(left, cap(buf)-4096); {
				buf = put(buf)
			}
			if _, err := w.Write(buf); err != nil {
				return err
			}
		}
	}
	_, err = w.Commit()
	return err
}

// valuesOf appends a few values of a tensor at each call: a row group of blocks,
// or a number.
func valuesOf(t vqf.Tensor, spec vqf.Spec, r *rand.PCG) func([]byte) []byte {
	le := binary.LittleEndian
	uniform := func(deviation float64) float32 {
		return float32(float64(int32(r.Uint64()>>32)) * (deviation * math.Sqrt(3) / (1 << 31)))
	}
	tower := strings.HasPrefix(t.Name, "v_")
	switch t.Type {
	case vqf.Q8_0, vqf.Q4_0:
		rows, typ := [...]int{1, 4, 8}[spec.Q8], blockTypes["q8_0"]
		if tower {
			rows = 1
		}
		if t.Type == vqf.Q4_0 {
			rows, typ = [...]int{1, 4}[spec.Q4], blockTypes["q4_0"]
		}
		scale := kernels.F32ToF16(float32(deviation / typ.spread))
		return func(b []byte) []byte {
			for range rows {
				b = le.AppendUint16(b, scale)
			}
			for range rows * typ.codes / 8 {
				x := r.Uint64()
				if t.Type == vqf.Q8_0 { // no code is -128
					x |= (x &^ (x&0x7f7f7f7f7f7f7f7f + 0x7f7f7f7f7f7f7f7f)) & 0x8080808080808080 >> 7
				}
				b = le.AppendUint64(b, x)
			}
			return b
		}
	case vqf.F16:
		return func(b []byte) []byte { return le.AppendUint16(b, kernels.F32ToF16Trunc(uniform(deviation))) }
	}
	base, size := float32(0), deviation
	norm := strings.HasSuffix(t.Name, "norm") || strings.HasSuffix(t.Name, "_nw") || strings.HasPrefix(t.Name, "v_norm") && strings.HasSuffix(t.Name, "_w")
	if norm {
		base, size = 1, 0.05
	}
	return func(b []byte) []byte { return le.AppendUint32(b, math.Float32bits(base+uniform(size))) }
}
