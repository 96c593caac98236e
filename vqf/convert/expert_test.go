// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"

	"windhover/kernels"
	"windhover/vqf"
	"windhover/vqf/convert"
	"windhover/vqf/gguf"
)

var mixture = mini{dim: 64, layers: 2, heads: 4, kv: 2, hd: 32, ff: 32, vocab: 48, qnorm: true, experts: 5, used: 2}

// A tensor an expert, all experts in one tensor, and GGUF's stacks hold the
// same weights, and give the same tensors.
func TestExpertsLossless(t *testing.T) {
	fused := mixture
	fused.fused = true
	each, stacked := mixture.hfDir(t, "qwen3_moe", "BF16", nil), fused.hfDir(t, "qwen3_moe", "BF16", nil)
	for _, mode := range allModes {
		want, r := run(t, each, convert.Options{Mode: mode, Bare: true})
		got, s := run(t, stacked, convert.Options{Mode: mode, Bare: true})
		if !bytes.Equal(readFile(t, want), readFile(t, got)) {
			t.Errorf("%s: experts in one tensor give other bytes", mode)
		}
		for _, typ := range []string{"F32", "F16", "BF16"} {
			got, q := run(t, mixture.ggufFile(t, "qwen3moe", typ, nil), convert.Options{Mode: mode})
			sameTensors(t, want, got)
			if r.Params != s.Params || r.Params != q.Params || r.Params != 2*48*64+64+2*(2*64+2*32+2*128*64+2*64*64+5*64+5*3*32*64) {
				t.Errorf("%s: %d, %d and %d parameters", typ, r.Params, s.Params, q.Params)
			}
		}
	}
}

func TestExpertsHeader(t *testing.T) {
	src := mixture.hfDir(t, "qwen3_moe", "F32", nil)
	dst, r := run(t, src, convert.Options{Mode: "q4"})
	f, err := vqf.Open(dst, vqf.OpenOptions{FullCheck: true})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	a := f.Arch()
	equal(t, "arch", []uint32{a.NExperts, a.MoEFFN, a.TopK, a.SharedExperts, a.FFNDim}, []uint32{5, 32, 2, 0, 160})
	equal(t, "flags", f.Flags(), vqf.FlagQ8x8|vqf.FlagQ4x4|vqf.FlagEmbF16|vqf.FlagMoE)
	if h := f.Header(); h.Version != 3 || h.Fields != 45 {
		t.Errorf("version %d, %d fields", h.Version, h.Fields)
	}
	if text := r.String(); !strings.Contains(text, "experts    5 of width 32, 2 compute for a token\n") || !strings.Contains(text, "text only") {
		t.Errorf("the report does not tell of the experts:\n%s", text)
	}
	mustFail(t, src, convert.Options{Header: "41"}, convert.ErrSource, "no place for experts")
}

// experts returns the weights of a layer's experts for a role.
func (m mini) expertValues(proj string, layer int) [][]float32 {
	var out [][]float32
	for _, w := range m.weights() {
		if w.layer == layer && strings.Contains(w.name, ".experts.") && strings.Contains(w.name, proj) {
			out = append(out, w.values())
		}
	}
	return out
}

// Each expert's bytes are those of converting it alone: gate and up are one run
// of bytes in each layer, down a run in each group of rows.
func TestExpertsAlone(t *testing.T) {
	src := mixture.hfDir(t, "qwen3_moe", "F32", nil)
	for _, c := range []struct {
		mode, word, prefix string
		layout             kernels.Layout
		block              int
		quantise           func(dst []byte, src []float32)
	}{
		{"q8", "8x8", "q8_", kernels.Q8x8, kernels.Q8BlockBytes, kernels.QuantizeQ8},
		{"q8", "4x4", "q8_", kernels.Q8x4, kernels.Q8BlockBytes, kernels.QuantizeQ8},
		{"q8", "row", "q8_", kernels.Q8Row, kernels.Q8BlockBytes, kernels.QuantizeQ8},
		{"q4", "", "q4_", kernels.Q4x4, kernels.Q4BlockBytes, kernels.QuantizeQ4},
		{"q4i", "", "q8_", kernels.Q8Row, kernels.Q8BlockBytes, kernels.QuantizeQ4I},
	} {
		dst, _ := run(t, src, convert.Options{Mode: c.mode, Q8Layout: c.word})
		_, got := tensorBytes(t, dst)
		alone := func(v []float32, rows, cols int) []byte {
			blocks := make([]byte, len(v)/kernels.BlockLen*c.block)
			c.quantise(blocks, v)
			out := make([]byte, len(blocks))
			kernels.Repack(out, blocks, rows, cols, c.layout)
			return out
		}
		for l := range mixture.layers {
			for _, role := range []string{"gate", "up", "down"} {
				b := got[c.prefix+role]
				size := len(b) / mixture.layers
				for e, v := range mixture.expertValues(role+"_proj", l) {
					if role != "down" {
						want := alone(v, mixture.ff, mixture.dim)
						if !bytes.Equal(b[l*size+e*len(want):][:len(want)], want) {
							t.Errorf("%s %s %s: layer %d expert %d differs", c.mode, c.word, role, l, e)
						}
						continue
					}
					want := alone(v, mixture.dim, mixture.ff)
					run := c.layout.Rows() * mixture.ff / kernels.BlockLen * c.block
					for g := range mixture.dim / c.layout.Rows() {
						if !bytes.Equal(b[l*size+(g*mixture.experts+e)*run:][:run], want[g*run:][:run]) {
							t.Fatalf("%s %s down: layer %d expert %d row group %d differs", c.mode, c.word, l, e, g)
						}
					}
				}
			}
		}
	}
}

// The router is F32, as the source has it.
func TestExpertsRouter(t *testing.T) {
	dst, _ := run(t, mixture.hfDir(t, "qwen3_moe", "BF16", nil), convert.Options{Mode: "q4"})
	_, got := tensorBytes(t, dst)
	var want []byte
	for _, w := range mixture.weights() {
		if strings.Contains(w.name, ".mlp.gate.") {
			want = append(want, encode("F32", w.values())...)
		}
	}
	if !bytes.Equal(got["moe_router"], want) {
		t.Error("moe_router is not the source's")
	}
}

// Bytes depend neither on threads nor on pieces, however the experts lie.
func TestExpertsDeterministic(t *testing.T) {
	m := mini{dim: 96, layers: 2, heads: 4, kv: 2, hd: 32, ff: 64, vocab: 64, qnorm: true, tied: true, experts: 7, used: 3}
	fused := m
	fused.fused = true
	for _, mode := range []string{"dual", "g256"} {
		var want []byte
		for _, src := range []string{m.hfDir(t, "qwen3_moe", "F32", nil), fused.hfDir(t, "qwen3_moe", "F32", nil)} {
			for _, w := range []struct{ threads, chunk int }{{1, 0}, {1, 1}, {2, 1}, {3, 24}, {2, 40}, {1, 1 << 30}, {7, 1 << 30}} {
				dst, _ := run(t, src, convert.Options{Mode: mode, Bare: true, Threads: w.threads, Chunk: w.chunk})
				got := readFile(t, dst)
				if want == nil {
					want = got
				}
				if !bytes.Equal(got, want) {
					t.Errorf("%s: %d threads, pieces of %d rows give other bytes", mode, w.threads, w.chunk)
				}
			}
		}
	}
}

func TestRefusesExperts(t *testing.T) {
	type object = map[string]any
	for _, c := range []struct {
		name string
		edit object
		kind error
		want string
	}{
		{"weights that do not add up", object{"norm_topk_prob": false}, convert.ErrUnsupported, "norm_topk_prob"},
		{"nothing said about weights", object{"norm_topk_prob": nil}, convert.ErrUnsupported, "norm_topk_prob"},
		{"every other layer", object{"decoder_sparse_step": 2}, convert.ErrUnsupported, "decoder_sparse_step"},
		{"a dense layer", object{"mlp_only_layers": []int{1}}, convert.ErrUnsupported, "mlp_only_layers"},
		{"shared experts", object{"num_shared_experts": 1}, convert.ErrUnsupported, "num_shared_experts"},
		{"a shared expert", object{"shared_expert_intermediate_size": 32}, convert.ErrUnsupported, "shared_expert_intermediate_size"},
		{"scaled", object{"routed_scaling_factor": 2.5}, convert.ErrUnsupported, "routed_scaling_factor"},
		{"sigmoid", object{"scoring_func": "sigmoid"}, convert.ErrUnsupported, "scoring_func"},
		{"more compute than there are", object{"num_experts_per_tok": 6}, convert.ErrSource, "no mixture"},
		{"no number", object{"num_experts": nil}, convert.ErrSource, "num_experts"},
		{"fewer experts", object{"num_experts": 4}, convert.ErrSource, "mlp.gate.weight"},
		{"more experts", object{"num_experts": 6}, convert.ErrSource, "mlp.gate.weight"},
		{"other width", object{"moe_intermediate_size": 64}, convert.ErrSource, "experts.0.gate_proj.weight"},
		{"blocks across experts", object{"moe_intermediate_size": 48}, convert.ErrUnsupported, "cross experts"},
		{"absurd", object{"num_experts": 1 << 30, "moe_intermediate_size": 1 << 30}, convert.ErrSource, "absurd"},
	} {
		t.Run(c.name, func(t *testing.T) {
			src := mixture.hfDir(t, "qwen3_moe", "F32", func(config map[string]any, _ map[string][]float32) {
				for k, v := range c.edit {
					if config[k] = v; v == nil {
						delete(config, k)
					}
				}
			})
			mustFail(t, src, convert.Options{Mode: "q8"}, c.kind, c.want)
		})
	}
	for _, c := range []struct {
		key  string
		v    any
		kind error
	}{
		{"expert_weights_norm", false, convert.ErrUnsupported},
		{"leading_dense_block_count", uint32(1), convert.ErrUnsupported},
		{"expert_shared_count", uint32(1), convert.ErrUnsupported},
		{"expert_group_count", uint32(8), convert.ErrUnsupported},
		{"expert_weights_scale", float32(2.5), convert.ErrUnsupported},
		{"expert_gating_func", uint32(2), convert.ErrUnsupported},
		{"expert_gating_func", "softmax", convert.ErrSource},
	} {
		t.Run(fmt.Sprintf("GGUF %s %v", c.key, c.v), func(t *testing.T) {
			src := mixture.ggufFile(t, "qwen3moe", "F32", func(g *ggufWriter, _ map[string][]float32) { g.set("qwen3moe."+c.key, c.v) })
			mustFail(t, src, convert.Options{Mode: "q8"}, c.kind, c.key)
		})
	}
	// What says the plain thing is taken.
	run(t, mixture.ggufFile(t, "qwen3moe", "F32", func(g *ggufWriter, _ map[string][]float32) {
		g.set("qwen3moe.expert_weights_norm", true)
		g.set("qwen3moe.expert_gating_func", uint32(1))
		g.set("qwen3moe.expert_group_count", uint32(1))
		g.set("qwen3moe.expert_weights_scale", float32(1))
		g.set("qwen3moe.expert_shared_count", uint32(0))
	}), convert.Options{Mode: "q8"})
}

// Tensors are named where something is wrong with them, and elements as the
// source counts them.
func TestRefusesExpertTensors(t *testing.T) {
	const down, up = "model.layers.1.mlp.experts.3.down_proj.weight", "model.layers.0.mlp.experts.4.up_proj.weight"
	fused := mixture
	fused.fused = true
	for _, c := range []struct {
		name string
		m    mini
		edit func(v map[string][]float32)
		kind error
		want []string
	}{
		{"no expert", mixture, func(v map[string][]float32) { delete(v, up) }, convert.ErrSource, []string{up, "missing"}},
		{"no router", mixture, func(v map[string][]float32) { delete(v, "model.layers.1.mlp.gate.weight") }, convert.ErrSource, []string{`"model.layers.1.mlp.gate.weight"`}},
		{"one too many", mixture, func(v map[string][]float32) { v["model.layers.0.mlp.experts.5.up_proj.weight"] = make([]float32, 2048) }, convert.ErrUnsupported, []string{"experts.5.up_proj"}},
		{"a shared one", mixture, func(v map[string][]float32) {
			v["model.layers.0.mlp.shared_expert.up_proj.weight"] = make([]float32, 2048)
		}, convert.ErrUnsupported, []string{"shared_expert"}},
		{"NaN", mixture, func(v map[string][]float32) { v[down][32*9+5] = float32(math.NaN()) }, convert.ErrSource, []string{down, "element 293 (row 9, column 5)", "NaN"}},
		{"NaN in a stack", fused, func(v map[string][]float32) { v[down][32*9+5] = float32(math.NaN()) }, convert.ErrSource, []string{"experts.down_proj", fmt.Sprintf("element %d (row %d, column 5)", (3*64+9)*32+5, 3*64+9)}},
		{"NaN in up", fused, func(v map[string][]float32) { v[up][64*9+5] = float32(math.NaN()) }, convert.ErrSource, []string{"experts.gate_up_proj", fmt.Sprintf("row %d, column 5)", 4*64+32+9)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			src := c.m.hfDir(t, "qwen3_moe", "F32", func(_ map[string]any, v map[string][]float32) { c.edit(v) })
			for _, want := range c.want {
				mustFail(t, src, convert.Options{Mode: "q8", Threads: 2}, c.kind, want)
			}
		})
	}
	src := mixture.ggufFile(t, "qwen3moe", "F32", func(_ *ggufWriter, v map[string][]float32) { delete(v, down) })
	mustFail(t, src, convert.Options{Mode: "q8"}, convert.ErrSource, `"blk.1.ffn_down_exps.weight" is missing`)
}

// The golden mixture from its directory and from llama.cpp's file: Q8_0 keeps
// its blocks, only the embedding table was rounded.
func TestSharedExperts(t *testing.T) {
	hf, r := run(t, shared(t, "models/qwen3moe-tiny"), convert.Options{Mode: "q8", Q8Layout: "row"})
	path := shared(t, "gguf/qwen3moe-tiny/qwen3moe-tiny-Q8_0.gguf")
	g, s := run(t, path, convert.Options{Mode: "q8", Q8Layout: "row"})
	sameTensors(t, hf, g, "token_embed")
	if r.Params != s.Params {
		t.Errorf("%d and %d parameters", r.Params, s.Params)
	}
	a, b := r.Arch, s.Arch
	b.HasMRope, b.MRopeNSec, b.MRopeSections = 0, 0, [4]int32{} // as the tables differ
	equal(t, "arch", b, a)
	raw := readFile(t, path)
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, got := tensorBytes(t, g)
	for _, role := range []string{"gate", "up"} {
		var want []byte
		for l := range r.Arch.NLayers {
			w, ok := f.Tensor(fmt.Sprintf("blk.%d.ffn_%s_exps.weight", l, role))
			if !ok || w.Type != gguf.Q8_0 {
				t.Fatalf("layer %d has no Q8_0 %s", l, role)
			}
			want = append(want, raw[w.Offset:w.Offset+w.Bytes]...)
		}
		if !bytes.Equal(got["q8_"+role], want) {
			t.Errorf("%s: blocks are not the file's", role)
		}
	}
}
