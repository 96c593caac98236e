// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
)

// A shape is the text part of a published model.
type shape struct {
	dim, layers, heads, kv, hd, ff, vocab int
	tied                                  bool
	llama                                 bool // the llama architecture, without norms of q and k; else qwen3

	experts, top, expertFF int  // of a mixture; ff is all experts together
	vision                 bool // the tower of Qwen3-VL, in a VQF file
	embeds                 bool // a model of embeddings, stored as Qwen3-Embedding is
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
	"smollm2-135m": {dim: 576, layers: 30, heads: 9, kv: 3, hd: 64, ff: 1536, vocab: 49152, tied: true, llama: true},
	"qwen3-0.6b":   {dim: 1024, layers: 28, heads: 16, kv: 8, hd: 128, ff: 3072, vocab: 151936, tied: true},
	"qwen3-1.7b":   {dim: 2048, layers: 28, heads: 16, kv: 8, hd: 128, ff: 6144, vocab: 151936, tied: true},
	"qwen3-vl-2b":  {dim: 2048, layers: 28, heads: 16, kv: 8, hd: 128, ff: 6144, vocab: 151936, tied: true, vision: true},
	"qwen3-4b":     {dim: 2560, layers: 36, heads: 32, kv: 8, hd: 128, ff: 9728, vocab: 151936, tied: true},
	"qwen3-8b":     {dim: 4096, layers: 36, heads: 32, kv: 8, hd: 128, ff: 12288, vocab: 151936},
	// Its vectors mean nothing, and take no time: for trying what is done with them.
	"tiny-embedding":       {dim: 128, layers: 4, heads: 4, kv: 2, hd: 32, ff: 384, vocab: 512, tied: true, embeds: true},
	"qwen3-embedding-0.6b": {dim: 1024, layers: 28, heads: 16, kv: 8, hd: 128, ff: 3072, vocab: 151669, tied: true, embeds: true},
	"qwen3-30b-a3b":        {dim: 2048, layers: 48, heads: 32, kv: 4, hd: 128, ff: 128 * 768, vocab: 151936, experts: 128, top: 8, expertFF: 768},
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

func names() []string {
	var list []string
	for n := range shapes {
		list = append(list, n)
	}
	slices.Sort(list)
	return list
}
