// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"fmt"
	"slices"
	"strings"

	"windhover/vqf"
)

// visionRoles are the tensors of the vision tower in the order of
// docs/FORMAT.md section 11.2. The first four are quantised.
var visionRoles = []string{
	"v_q8_qkv", "v_q8_proj", "v_q8_fc1", "v_q8_fc2",
	"v_patch_embed", "v_patch_bias", "v_pos_embed", "v_qkv_bias", "v_proj_bias", "v_norm1_w", "v_norm1_b", "v_norm2_w", "v_norm2_b",
	"v_fc1_bias", "v_fc2_bias", "v_merger_nw", "v_merger_nb", "v_merger_f1w", "v_merger_f1b", "v_merger_f2w", "v_merger_f2b",
	"v_ds_nw", "v_ds_nb", "v_ds_f1w", "v_ds_f1b", "v_ds_f2w", "v_ds_f2b",
}

var visionQuantised = visionRoles[:4]

// visionVectors are the ones that a source has with one dimension.
var visionVectors = []string{"v_patch_bias", "v_qkv_bias", "v_proj_bias", "v_norm1_w", "v_norm1_b", "v_norm2_w", "v_norm2_b", "v_fc1_bias", "v_fc2_bias",
	"v_merger_nw", "v_merger_nb", "v_merger_f1b", "v_merger_f2b", "v_ds_nw", "v_ds_nb", "v_ds_f1b", "v_ds_f2b"}

var hfVision = naming{
	"v_q8_qkv":      hfTower("blocks.%d.attn.qkv.weight"),
	"v_q8_proj":     hfTower("blocks.%d.attn.proj.weight"),
	"v_q8_fc1":      hfTower("blocks.%d.mlp.linear_fc1.weight"),
	"v_q8_fc2":      hfTower("blocks.%d.mlp.linear_fc2.weight"),
	"v_patch_embed": hfTower("patch_embed.proj.weight"),
	"v_patch_bias":  hfTower("patch_embed.proj.bias"),
	"v_pos_embed":   hfTower("pos_embed.weight", "position_embedding.weight"),
	"v_qkv_bias":    hfTower("blocks.%d.attn.qkv.bias"),
	"v_proj_bias":   hfTower("blocks.%d.attn.proj.bias"),
	"v_norm1_w":     hfTower("blocks.%d.norm1.weight"),
	"v_norm1_b":     hfTower("blocks.%d.norm1.bias"),
	"v_norm2_w":     hfTower("blocks.%d.norm2.weight"),
	"v_norm2_b":     hfTower("blocks.%d.norm2.bias"),
	"v_fc1_bias":    hfTower("blocks.%d.mlp.linear_fc1.bias"),
	"v_fc2_bias":    hfTower("blocks.%d.mlp.linear_fc2.bias"),
	"v_merger_nw":   hfTower("merger.norm.weight"),
	"v_merger_nb":   hfTower("merger.norm.bias"),
	"v_merger_f1w":  hfTower("merger.linear_fc1.weight"),
	"v_merger_f1b":  hfTower("merger.linear_fc1.bias"),
	"v_merger_f2w":  hfTower("merger.linear_fc2.weight"),
	"v_merger_f2b":  hfTower("merger.linear_fc2.bias"),
	"v_ds_nw":       hfTower("deepstack_merger_list.%d.norm.weight"),
	"v_ds_nb":       hfTower("deepstack_merger_list.%d.norm.bias"),
	"v_ds_f1w":      hfTower("deepstack_merger_list.%d.linear_fc1.weight"),
	"v_ds_f1b":      hfTower("deepstack_merger_list.%d.linear_fc1.bias"),
	"v_ds_f2w":      hfTower("deepstack_merger_list.%d.linear_fc2.weight"),
	"v_ds_f2b":      hfTower("deepstack_merger_list.%d.linear_fc2.bias"),
}

// hfTowerPrefix begins the names of a Hugging Face directory's vision tensors.
const hfTowerPrefix = "model.visual."

func hfTower(names ...string) []string {
	out := slices.Clone(names)
	for i := range out {
		out[i] = hfTowerPrefix + out[i]
	}
	return out
}

// In a projector file a deepstack merger has the number of its block, and the
// patch embedding is a tensor a frame, the first without a number.
var ggufVision = naming{
	"v_q8_qkv":      {"v.blk.%d.attn_qkv.weight"},
	"v_q8_proj":     {"v.blk.%d.attn_out.weight"},
	"v_q8_fc1":      {"v.blk.%d.ffn_up.weight"},
	"v_q8_fc2":      {"v.blk.%d.ffn_down.weight"},
	"v_patch_embed": {"v.patch_embd.weight"},
	"v_patch_bias":  {"v.patch_embd.bias"},
	"v_pos_embed":   {"v.position_embd.weight"},
	"v_qkv_bias":    {"v.blk.%d.attn_qkv.bias"},
	"v_proj_bias":   {"v.blk.%d.attn_out.bias"},
	"v_norm1_w":     {"v.blk.%d.ln1.weight"},
	"v_norm1_b":     {"v.blk.%d.ln1.bias"},
	"v_norm2_w":     {"v.blk.%d.ln2.weight"},
	"v_norm2_b":     {"v.blk.%d.ln2.bias"},
	"v_fc1_bias":    {"v.blk.%d.ffn_up.bias"},
	"v_fc2_bias":    {"v.blk.%d.ffn_down.bias"},
	"v_merger_nw":   {"v.post_ln.weight"},
	"v_merger_nb":   {"v.post_ln.bias"},
	"v_merger_f1w":  {"mm.0.weight"},
	"v_merger_f1b":  {"mm.0.bias"},
	"v_merger_f2w":  {"mm.2.weight"},
	"v_merger_f2b":  {"mm.2.bias"},
	"v_ds_nw":       {"v.deepstack.%d.norm.weight"},
	"v_ds_nb":       {"v.deepstack.%d.norm.bias"},
	"v_ds_f1w":      {"v.deepstack.%d.fc1.weight"},
	"v_ds_f1b":      {"v.deepstack.%d.fc1.bias"},
	"v_ds_f2w":      {"v.deepstack.%d.fc2.weight"},
	"v_ds_f2b":      {"v.deepstack.%d.fc2.bias"},
}

// pictures is what a model's image processor does, for the metadata.
type pictures struct {
	Params    int64     `json:"params"` // of the vision tower
	Mean      []float32 `json:"image_mean,omitempty"`
	Std       []float32 `json:"image_std,omitempty"`
	MinPixels uint64    `json:"min_pixels,omitempty"` // of a picture after resizing
	MaxPixels uint64    `json:"max_pixels,omitempty"`
}

// tower is where a source has its vision tensors.
type tower struct {
	names    naming
	frames   bool // the patch embedding is a tensor a frame
	byBlock  bool // deepstack mergers have the number of their block
	pictures pictures
}

// visionMatrix finds one matrix of the vision tower.
func (s *source) visionMatrix(r string, part int, shape vqf.Shape) (matrix, error) {
	a, n := &s.arch, part
	if s.vision.byBlock && strings.HasPrefix(r, "v_ds_") {
		n = int(a.VisDSIdx[part])
	}
	var t *tensor
	names := s.vision.names[r]
	for _, name := range names {
		if t = s.byName[expand(name, n)]; t != nil {
			break
		}
	}
	if t == nil {
		return matrix{}, s.missing(expand(names[0], n))
	}
	want := []uint64{uint64(shape.Rows), uint64(shape.Cols)}
	patch := []uint64{uint64(a.VisHidden), 3, uint64(a.VisTemporal), uint64(a.VisPatch), uint64(a.VisPatch)}
	switch {
	case r == "v_patch_embed" && s.vision.frames:
		return s.frames(t, slices.Delete(patch, 2, 3))
	case r == "v_patch_embed":
		want = patch
	case r == "v_q8_fc2":
		want[1] = uint64(a.VisFFN)
	case slices.Contains(visionVectors, r):
		want = want[1:]
	}
	if err := t.check(want); err != nil {
		return matrix{}, err
	}
	x := whole(t, shape.Rows, shape.Cols)
	if r == "v_q8_fc2" {
		x.width = int(a.VisFFN) // the rest of a row is zero
	}
	return x, nil
}

// frames puts a patch embedding together of one tensor a frame, of the given
// shape: for each output and channel, the frames' pixels one after the other.
func (s *source) frames(t *tensor, want []uint64) (matrix, error) {
	a := &s.arch
	pixels := int(a.VisPatch) * int(a.VisPatch)
	x := matrix{name: t.name, rows: 3 * int(a.VisHidden), cols: int(a.VisTemporal) * pixels, height: 3 * int(a.VisHidden), width: pixels}
	for i := range a.VisTemporal {
		name := t.name
		if i > 0 {
			name = fmt.Sprintf("%s.%d", t.name, i)
		}
		f := s.byName[name]
		if f == nil {
			return x, s.missing(name)
		}
		if err := f.check(want); err != nil {
			return x, err
		}
		x.slabs = append(x.slabs, slab{f, 0})
	}
	return x, nil
}

// checkTower refuses what the format says otherwise about every tower.
func (s *source) checkTower(eps float32) error {
	a, p := &s.arch, &s.vision.pictures
	if a.NormEps != eps {
		return unsupported("%s: the vision tower normalises with epsilon %g, the text model with %g: the format has one place for both", s.path, eps, a.NormEps)
	}
	for i := 1; i < int(a.VisDSCount); i++ {
		if a.VisDSIdx[i] <= a.VisDSIdx[i-1] {
			return unsupported("%s: deepstack blocks %d: only ascending ones are supported", s.path, a.VisDSIdx[:a.VisDSCount])
		}
	}
	for _, list := range [][]float32{p.Mean, p.Std} {
		for _, v := range list {
			if v != 0.5 || len(list) != 3 {
				return unsupported("%s: image mean %v, deviation %v: the format's pixels are p/127.5 - 1, which is 0.5 for each of 3 channels", s.path, p.Mean, p.Std)
			}
		}
	}
	if p.MaxPixels > 0 && p.MinPixels > p.MaxPixels {
		return faulty("%s: pictures of %d to %d pixels", s.path, p.MinPixels, p.MaxPixels)
	}
	return nil
}
