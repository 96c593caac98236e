// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"fmt"
	"slices"
	"strings"

	"windhover/vqf"
)

// naming is how a container calls the tensors of docs/FORMAT.md section 5.1. A
// name with %d is one of each layer; the first of several that exists is taken.
type naming map[string][]string

// Names without "model." are those of a model that was stored without a head, as
// Qwen3-Embedding is.
var hfNames = naming{
	"token_embed": {"model.language_model.embed_tokens.weight", bodyEmbedding, "model.embed_tokens.weight"},
	"final_norm":  {"model.language_model.norm.weight", "norm.weight", "model.norm.weight"},
	"attn_norm":   hfLayer("input_layernorm"),
	"ffn_norm":    hfLayer("post_attention_layernorm"),
	"q_norm":      hfLayer("self_attn.q_norm"),
	"k_norm":      hfLayer("self_attn.k_norm"),
	"q":           hfLayer("self_attn.q_proj"),
	"k":           hfLayer("self_attn.k_proj"),
	"v":           hfLayer("self_attn.v_proj"),
	"o":           hfLayer("self_attn.o_proj"),
	"gate":        hfLayer("mlp.gate_proj"),
	"up":          hfLayer("mlp.up_proj"),
	"down":        hfLayer("mlp.down_proj"),
	"lm":          {"lm_head.weight"},
	"moe_router":  hfLayer("mlp.gate"),
}

const bodyEmbedding = "embed_tokens.weight"

func hfLayer(name string) []string {
	name = "layers.%d." + name + ".weight"
	return []string{"model.language_model." + name, name, "model." + name}
}

var ggufNames = naming{
	"token_embed": {"token_embd.weight"},
	"final_norm":  {"output_norm.weight"},
	"attn_norm":   {"blk.%d.attn_norm.weight"},
	"ffn_norm":    {"blk.%d.ffn_norm.weight"},
	"q_norm":      {"blk.%d.attn_q_norm.weight"},
	"k_norm":      {"blk.%d.attn_k_norm.weight"},
	"q":           {"blk.%d.attn_q.weight"},
	"k":           {"blk.%d.attn_k.weight"},
	"v":           {"blk.%d.attn_v.weight"},
	"o":           {"blk.%d.attn_output.weight"},
	"gate":        {"blk.%d.ffn_gate.weight"},
	"up":          {"blk.%d.ffn_up.weight"},
	"down":        {"blk.%d.ffn_down.weight"},
	"lm":          {"output.weight"},
	"moe_router":  {"blk.%d.ffn_gate_inp.weight"},
}

// roles are the text tensors of the catalogue without their q8_ or q4_ prefix.
var roles = []string{"token_embed", "final_norm", "attn_norm", "ffn_norm", "q_norm", "k_norm", "moe_router", "q", "k", "v", "o", "gate", "up", "down", "lm"}

// role strips the prefix of a quantised text tensor's name.
func role(name string) string {
	if s, ok := strings.CutPrefix(name, "q8_"); ok {
		return s
	}
	s, _ := strings.CutPrefix(name, "q4_")
	return s
}

// model is a source whose every tensor has been found and checked.
type model struct {
	*source
	parts  map[string][]matrix // by role: a layer each, or one
	tied   bool
	params int64 // of the text model
}

// bind finds every tensor that the architecture needs, checks its shape and
// type, and refuses a source that holds more: a tensor that is left over would
// have taken part in the computation.
func (s *source) bind() (*model, error) {
	m := &model{source: s, parts: map[string][]matrix{}}
	used := map[string]bool{}
	for _, r := range roles {
		if (r == "q_norm" || r == "k_norm") && s.arch.HasQNorm == 0 || r == "moe_router" && !s.arch.MoE() {
			continue
		}
		n, err := m.bindRole(r, m.textMatrix, used)
		if err != nil {
			return nil, err
		}
		if !(r == "lm" && m.tied) {
			m.params += n
		}
	}
	if s.vision != nil {
		s.vision.pictures.Params = 0
		for _, r := range visionRoles {
			n, err := m.bindRole(r, s.visionMatrix, used)
			if err != nil {
				return nil, err
			}
			s.vision.pictures.Params += n
		}
	}
	return m, s.leftover(used)
}

// bindRole finds all parts of a role and returns the number of their weights.
func (m *model) bindRole(r string, find func(r string, part int, shape vqf.Shape) (matrix, error), used map[string]bool) (params int64, err error) {
	shape, ok := m.arch.Shape(r)
	if !ok {
		shape, ok = m.arch.Shape("q8_" + r)
	}
	if !ok {
		return 0, faulty("%s: the configuration gives tensor %q an absurd size", m.path, r)
	}
	for part := range shape.Parts {
		x, err := find(r, part, shape)
		if err != nil {
			return 0, err
		}
		for i := range x.slabs {
			used[x.slabs[i].name] = true
		}
		m.parts[r] = append(m.parts[r], x)
		params += int64(len(x.slabs)) * int64(x.height) * int64(x.width)
	}
	return params, nil
}

// textMatrix finds one matrix of the text model.
func (m *model) textMatrix(r string, part int, shape vqf.Shape) (matrix, error) {
	if m.stacked(r) {
		return m.expertMatrix(r, part, shape)
	}
	t := m.find(r, part)
	if t == nil && r == "lm" && (!m.ownHead || m.headless) {
		m.tied = true
		t = m.find("token_embed", 0)
		if m.ownHead {
			m.notes = append(m.notes, "the output matrix is missing, which embeddings do without: the embedding stands in its place")
		}
	}
	if t == nil {
		return matrix{}, m.missing(m.wanted(r, part))
	}
	want := []uint64{uint64(shape.Rows), uint64(shape.Cols)}
	if strings.HasSuffix(r, "norm") {
		want = want[1:]
	}
	if err := t.check(want); err != nil {
		return matrix{}, err
	}
	x := whole(t, shape.Rows, shape.Cols)
	if m.permuted {
		x.heads = map[string]int{"q": int(m.arch.NHeads), "k": int(m.arch.NKVHeads)}[r]
	}
	return x, nil
}

// find returns the source tensor of a role, nil when there is none.
func (s *source) find(r string, part int) *tensor {
	for _, name := range s.names[r] {
		if t, ok := s.byName[expand(name, part)]; ok {
			return t
		}
	}
	return nil
}

func (s *source) missing(name string) error {
	return faulty("tensor %q is missing from %s", name, s.path)
}

// wanted is the name by which a missing tensor is reported: the plain one,
// except where the text model is part of a larger one, or stored without a head.
func (s *source) wanted(r string, part int) string {
	list := s.names[r]
	at := len(list) - 1
	switch {
	case sees(s.architecture):
		at = 0
	case at > 0 && s.byName[bodyEmbedding] != nil:
		at--
	}
	return expand(list[at], part)
}

func expand(name string, part int) string {
	if strings.Contains(name, "%d") {
		return fmt.Sprintf(name, part)
	}
	return name
}

// check holds a tensor against the shape that it must have.
func (t *tensor) check(want []uint64) error {
	if !slices.Equal(t.shape, want) {
		return faulty("tensor %q has shape %v, the configuration says %v", t.name, t.shape, want)
	}
	if !t.readable {
		return unsupported("tensor %q has type %s: F32, F16 and BF16 are read", t.name, t.typ)
	}
	return nil
}

// leftover refuses the first tensor that nothing asked for.
func (s *source) leftover(used map[string]bool) error {
	for _, t := range s.tensors {
		switch {
		case used[t.name] || s.ignored(t.name):
		case strings.HasSuffix(t.name, ".bias"):
			return unsupported("tensor %q: the format has no place for the biases of projections, models with them are refused", t.name)
		case t.name == "rope_freqs.weight":
			return unsupported("tensor %q: rotary embeddings are not scaled", t.name)
		case strings.Contains(t.name, "exps.") || strings.Contains(t.name, ".experts."):
			return unsupported("tensor %q: no %s model of this shape has such experts", t.name, s.architecture)
		default:
			return unsupported("tensor %q: no %s model of this shape has it, and leaving it out would change the model", t.name, s.architecture)
		}
	}
	return nil
}
