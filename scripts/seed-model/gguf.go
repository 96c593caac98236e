// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"

	"windhover/kernels"
)

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
