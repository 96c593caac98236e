// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// miniTower is the vision tower of a mini.
type miniTower struct {
	depth, hidden, heads, ff, patch, temporal, merge, out, positions int
	deepstack                                                        []int
}

func (v *miniTower) config() map[string]any {
	return map[string]any{
		"depth": v.depth, "hidden_size": v.hidden, "num_heads": v.heads, "intermediate_size": v.ff, "patch_size": v.patch, "in_channels": 3,
		"temporal_patch_size": v.temporal, "spatial_merge_size": v.merge, "out_hidden_size": v.out, "num_position_embeddings": v.positions,
		"deepstack_visual_indexes": v.deepstack, "hidden_act": "gelu_pytorch_tanh",
	}
}

// weights lists the tower's tensors by their Hugging Face names.
func (v *miniTower) weights() []weight {
	var list []weight
	add := func(name string, layer, rows, cols int) {
		list = append(list, weight{name: "model.visual." + name, t: 40 + len(list), layer: layer, rows: rows, cols: cols})
	}
	mi := v.hidden * v.merge * v.merge
	for b := range v.depth {
		head := fmt.Sprintf("blocks.%d.", b)
		add(head+"attn.qkv.weight", b, 3*v.hidden, v.hidden)
		add(head+"attn.qkv.bias", b, 0, 3*v.hidden)
		add(head+"attn.proj.weight", b, v.hidden, v.hidden)
		add(head+"attn.proj.bias", b, 0, v.hidden)
		add(head+"mlp.linear_fc1.weight", b, v.ff, v.hidden)
		add(head+"mlp.linear_fc1.bias", b, 0, v.ff)
		add(head+"mlp.linear_fc2.weight", b, v.hidden, v.ff)
		add(head+"mlp.linear_fc2.bias", b, 0, v.hidden)
		for _, n := range []string{"norm1", "norm2"} {
			add(head+n+".weight", b, 0, v.hidden)
			add(head+n+".bias", b, 0, v.hidden)
		}
	}
	merger := func(head string, norm int) {
		add(head+"norm.weight", 0, 0, norm)
		add(head+"norm.bias", 0, 0, norm)
		add(head+"linear_fc1.weight", 0, mi, mi)
		add(head+"linear_fc1.bias", 0, 0, mi)
		add(head+"linear_fc2.weight", 0, v.out, mi)
		add(head+"linear_fc2.bias", 0, 0, v.out)
	}
	merger("merger.", v.hidden)
	for m := range v.deepstack {
		merger(fmt.Sprintf("deepstack_merger_list.%d.", m), mi)
	}
	add("pos_embed.weight", 0, v.positions, v.hidden)
	add("patch_embed.proj.bias", 0, 0, v.hidden)
	add("patch_embed.proj.weight", 0, v.hidden, 3*v.temporal*v.patch*v.patch)
	list[len(list)-1].dims = []int{v.hidden, 3, v.temporal, v.patch, v.patch}
	return list
}

// mmprojName maps a Hugging Face name to that of a projector file.
func (v *miniTower) mmprojName(name string) string {
	name = strings.TrimPrefix(name, "model.visual.")
	if tail, ok := strings.CutPrefix(name, "deepstack_merger_list."); ok {
		var m int
		if _, err := fmt.Sscanf(tail, "%d.", &m); err != nil {
			panic(err)
		}
		name = fmt.Sprintf("v.deepstack.%d%s", v.deepstack[m], tail[strings.Index(tail, "."):])
		return strings.Replace(name, ".linear_", ".", 1)
	}
	return strings.NewReplacer("blocks.", "v.blk.", "attn.qkv", "attn_qkv", "attn.proj", "attn_out", "mlp.linear_fc1", "ffn_up", "mlp.linear_fc2", "ffn_down",
		"norm1", "ln1", "norm2", "ln2", "merger.norm", "v.post_ln", "merger.linear_fc1", "mm.0", "merger.linear_fc2", "mm.2",
		"pos_embed", "v.position_embd", "patch_embed.proj", "v.patch_embd").Replace(name)
}

// frame is one frame of a patch embedding.
func (v *miniTower) frame(all []float32, f int) []float32 {
	var out []float32
	n := v.patch * v.patch
	for i := 0; i < len(all); i += v.temporal * n {
		out = append(out, all[i+f*n:i+(f+1)*n]...)
	}
	return out
}

// mmprojFile writes the projector file of values by their Hugging Face names:
// matrices as typ, biases and norms as F32.
func (v *miniTower) mmprojFile(t testing.TB, typ string, values map[string][]float32, edit func(g *ggufWriter, values map[string][]float32)) string {
	t.Helper()
	g := new(ggufWriter)
	g.set("general.architecture", "clip")
	g.set("general.type", "mmproj")
	g.set("clip.has_vision_encoder", true)
	g.set("clip.projector_type", "qwen3vl_merger")
	g.set("clip.use_gelu", true)
	for key, n := range map[string]int{"projection_dim": v.out, "patch_size": v.patch, "embedding_length": v.hidden, "feed_forward_length": v.ff,
		"block_count": v.depth, "attention.head_count": v.heads, "spatial_merge_size": v.merge} {
		g.set("clip.vision."+key, uint32(n))
	}
	g.set("clip.vision.attention.layer_norm_epsilon", float32(1e-6))
	g.set("clip.vision.image_mean", []float32{0.5, 0.5, 0.5})
	g.set("clip.vision.image_std", []float32{0.5, 0.5, 0.5})
	flags := make([]bool, v.depth)
	for _, b := range v.deepstack {
		flags[b] = true
	}
	g.set("clip.vision.is_deepstack_layers", flags)
	if values == nil {
		values = map[string][]float32{}
		for _, w := range v.weights() {
			values[w.name] = w.values()
		}
	}
	if edit != nil {
		edit(g, values)
	}
	for _, w := range v.weights() {
		x, ok := values[w.name]
		if !ok {
			continue
		}
		name, as := v.mmprojName(w.name), typ
		if w.rows == 0 || strings.HasSuffix(name, "position_embd.weight") {
			as = "F32"
		}
		if name != "v.patch_embd.weight" {
			g.add(name, as, w.shape(), encode(as, x))
			continue
		}
		for f := range v.temporal {
			if f > 0 {
				name = fmt.Sprintf("v.patch_embd.weight.%d", f)
			}
			g.add(name, as, []int{v.hidden, 3, v.patch, v.patch}, encode(as, v.frame(x, f)))
		}
	}
	path := filepath.Join(t.TempDir(), "mmproj.gguf")
	writeFile(t, path, g.bytes())
	return path
}
