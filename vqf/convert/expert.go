// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"windhover/vqf"
)

// stack is one of the ways in which a container holds the experts' matrices of
// a layer: a tensor an expert (each), or one whose first dimension is the
// expert. Where gate and up lie under each other in every expert, share says
// which of the two it is.
type stack struct {
	name  string // with the layer, and with each the expert
	each  bool
	share int
	of    int // matrices in an expert; 0: this one alone
}

var hfExperts = map[string][]stack{
	"gate": {{name: "model.layers.%d.mlp.experts.%d.gate_proj.weight", each: true}, {name: "model.layers.%d.mlp.experts.gate_up_proj", of: 2}},
	"up":   {{name: "model.layers.%d.mlp.experts.%d.up_proj.weight", each: true}, {name: "model.layers.%d.mlp.experts.gate_up_proj", share: 1, of: 2}},
	"down": {{name: "model.layers.%d.mlp.experts.%d.down_proj.weight", each: true}, {name: "model.layers.%d.mlp.experts.down_proj"}},
}

var ggufExperts = map[string][]stack{
	"gate": {{name: "blk.%d.ffn_gate_exps.weight"}, {name: "blk.%d.ffn_gate_up_exps.weight", of: 2}},
	"up":   {{name: "blk.%d.ffn_up_exps.weight"}, {name: "blk.%d.ffn_gate_up_exps.weight", share: 1, of: 2}},
	"down": {{name: "blk.%d.ffn_down_exps.weight"}},
}

// tensorName is the tensor that holds an expert.
func (k *stack) tensorName(layer, expert int) string {
	if k.each {
		return fmt.Sprintf(k.name, layer, expert)
	}
	return fmt.Sprintf(k.name, layer)
}

// expertMatrix stacks the experts' matrices of a layer as docs/FORMAT.md
// section 12 says: gate and up under each other, down side by side.
func (s *source) expertMatrix(r string, layer int, shape vqf.Shape) (matrix, error) {
	ways := s.experts[r]
	way := &ways[0]
	for i := range ways {
		if s.byName[ways[i].tensorName(layer, 0)] != nil {
			way = &ways[i]
			break
		}
	}
	n, rows, cols := int(s.arch.NExperts), int(s.arch.MoEFFN), int(s.arch.Dim)
	if r == "down" {
		rows, cols = cols, rows
	}
	x := matrix{name: way.tensorName(layer, 0), rows: shape.Rows, cols: shape.Cols, height: rows, width: cols}
	want := []uint64{uint64(rows), uint64(cols)}
	if !way.each {
		want = []uint64{uint64(n), uint64(max(way.of, 1)) * uint64(rows), uint64(cols)}
	}
	for e := range n {
		t := s.byName[way.tensorName(layer, e)]
		if t == nil {
			return x, s.missing(way.tensorName(layer, e))
		}
		if err := t.check(want); err != nil {
			return x, err
		}
		first := 0
		if !way.each {
			first = (e*max(way.of, 1) + way.share) * rows
		}
		x.slabs = append(x.slabs, slab{t, first})
	}
	return x, nil
}

// mixture fills the header's fields of a mixture of experts. What an expert is
// wide must be a whole number of blocks, so that none crosses experts.
func mixture(a *vqf.Arch, path string, experts, width, used uint32) error {
	switch {
	case experts == 0 || width == 0 || used == 0 || used > experts:
		return faulty("%s: %d experts of width %d, of which %d compute: no mixture", path, experts, width, used)
	case width%vqf.BlockLen != 0:
		return unsupported("%s: experts of width %d, which is no multiple of %d: quantised blocks would cross experts", path, width, vqf.BlockLen)
	case uint64(experts)*uint64(width) > math.MaxInt32:
		return faulty("%s: %d experts of width %d: absurd", path, experts, width)
	}
	a.NExperts, a.MoEFFN, a.TopK, a.FFNDim = experts, width, used, experts*width
	return nil
}

// hasExperts says whether a family is a mixture of experts.
func hasExperts(family string) bool { return strings.HasSuffix(family, "moe") }

// mixture reads what config.json says about experts, and refuses what neither
// format nor engine has: every layer has experts, their weights for a token
// are normalised, and none is shared.
func (c *config) mixture(a *vqf.Arch) error {
	if on, _ := c.flag("norm_topk_prob"); !on && c.err == nil {
		return unsupported("%s: norm_topk_prob is not true: the format has no place for routers whose weights do not add up to 1", c.path)
	}
	if step := c.uint("decoder_sparse_step", 1); step != 1 {
		return unsupported("%s: decoder_sparse_step is %d: every layer must have experts", c.path, step)
	}
	if raw := c.get("mlp_only_layers"); raw != nil && strings.Join(strings.Fields(string(raw)), "") != "[]" {
		return unsupported("%s: mlp_only_layers is %.80s: every layer must have experts", c.path, raw)
	}
	for _, key := range []string{"num_shared_experts", "n_shared_experts", "shared_expert_intermediate_size"} {
		if n := c.uint(key, 0); n > 0 {
			return unsupported("%s: %s is %d: the format has no place for shared experts", c.path, key, n)
		}
	}
	if f := c.float("routed_scaling_factor", 1); f != 1 {
		return unsupported("%s: routed_scaling_factor is %v: no such scaling is computed", c.path, f)
	}
	if f := c.text1("scoring_func"); f != "" && f != "softmax" {
		return unsupported("%s: scoring_func is %q: only softmax is computed", c.path, f)
	}
	n, width, used := c.need("num_experts"), c.need("moe_intermediate_size"), c.need("num_experts_per_tok")
	if c.err != nil {
		return c.err
	}
	return mixture(a, c.path, n, width, used)
}

// mixture is the same for the keys of a GGUF file.
func (k *ggufKeys) mixture(a *vqf.Arch, path string) error {
	own := func(key string) string { return k.prefix + "." + key }
	if norm, err := k.f.Bool(own("expert_weights_norm")); err == nil && !norm {
		return unsupported("%s: %s is false: the format has no place for routers whose weights do not add up to 1", path, own("expert_weights_norm"))
	}
	for _, key := range []string{"leading_dense_block_count", "expert_shared_count", "expert_shared_feed_forward_length"} {
		if n := k.uint(key, 0); n > 0 {
			return unsupported("%s: %s is %d: every layer must have experts, and none shared", path, own(key), n)
		}
	}
	if n := k.uint("expert_group_count", 0); n > 1 {
		return unsupported("%s: %s is %d: experts are not chosen by groups", path, own("expert_group_count"), n)
	}
	if f := k.float("expert_weights_scale", 1); f != 1 && f != 0 {
		return unsupported("%s: %s is %v: no such scaling is computed", path, own("expert_weights_scale"), f)
	}
	if f := k.uint("expert_gating_func", 1); f > 1 { // 0: not said, 1: softmax
		return unsupported("%s: %s is %d: only softmax (1) is computed", path, own("expert_gating_func"), f)
	}
	n, width, used := k.uint("expert_count", 0), k.uint("expert_feed_forward_length", 0), k.uint("expert_used_count", 0)
	if k.err != nil {
		return k.err
	}
	return mixture(a, path, n, width, used)
}

// expertRoles are the matrices that a mixture of experts has in stacks.
var expertRoles = []string{"gate", "up", "down"}

// stacked says whether a role is a stack of experts in this source.
func (s *source) stacked(r string) bool { return s.arch.MoE() && slices.Contains(expertRoles, r) }
