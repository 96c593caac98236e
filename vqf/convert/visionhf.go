// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"encoding/json"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"windhover/vqf"
)

// vision takes what the header says about the source's vision tower, although
// its tensors are not converted (docs/FORMAT.md section 11.5).
func (c *config) vision(a *vqf.Arch) error {
	members, err := c.object("vision_config")
	if err != nil {
		return err
	}
	v := &config{path: c.path, top: members}
	for key, p := range map[string]*uint32{
		"depth": &a.VisDepth, "hidden_size": &a.VisHidden, "num_heads": &a.VisHeads, "intermediate_size": &a.VisFFN,
		"patch_size": &a.VisPatch, "temporal_patch_size": &a.VisTemporal, "spatial_merge_size": &a.VisMerge,
		"out_hidden_size": &a.VisOutDim, "in_channels": &a.VisInChan, "num_position_embeddings": &a.VisMaxPos,
	} {
		*p = v.uint(key, 0)
	}
	if raw := v.get("deepstack_visual_indexes"); raw != nil {
		var list []int32
		if json.Unmarshal(raw, &list) != nil || len(list) > len(a.VisDSIdx) {
			return faulty("%s: deepstack_visual_indexes is %.40s, want up to %d numbers", c.path, raw, len(a.VisDSIdx))
		}
		a.VisDSCount = uint32(copy(a.VisDSIdx[:], list))
	}
	if a.VisDepth > 0 {
		a.HasVision = 1
	}
	for key, p := range map[string]*uint32{
		"vision_start_token_id": &a.VisionStartID, "vision_end_token_id": &a.VisionEndID,
		"image_token_id": &a.ImageTokenID, "video_token_id": &a.VideoTokenID,
	} {
		*p = c.uint(key, 0)
	}
	if v.err != nil {
		return v.err
	}
	return c.err
}

// towerEps is what every published implementation of the tower normalises
// with; no config.json says it.
const towerEps = 1e-6

// findTower looks whether a directory has the vision tower that it tells of,
// and prepares its conversion. One without stays a text model.
func (s *source) findTower(dir string, c *config, set *settings) error {
	if !sees(s.architecture) {
		return nil
	}
	if set.TextOnly {
		s.notes = append(s.notes, "the vision tower is left out, as asked for")
		return nil
	}
	if !slices.ContainsFunc(s.tensors, func(t *tensor) bool { return strings.HasPrefix(t.name, hfTowerPrefix) }) {
		s.notes = append(s.notes, "the directory has no vision tensors: the tower that its config.json tells of is not converted")
		return nil
	}
	members, err := c.object("vision_config")
	if err != nil {
		return err
	}
	v := &config{path: c.path, top: members}
	if act := v.text1("hidden_act"); v.err == nil && act != "" && act != "gelu_pytorch_tanh" {
		return unsupported("%s: the vision tower's hidden_act is %q: only gelu_pytorch_tanh is computed", c.path, act)
	}
	for _, key := range []string{"vision_start_token_id", "vision_end_token_id", "image_token_id", "video_token_id"} {
		if c.get(key) == nil && v.err == nil {
			return faulty("%s: %s is missing", c.path, key)
		}
	}
	if v.err != nil {
		return v.err
	}
	s.vision = &tower{names: hfVision}
	if err := s.hfPictures(dir); err != nil {
		return err
	}
	return s.checkTower(towerEps)
}

// processor is what matters of an image processor's configuration.
type processor struct {
	Size struct {
		Shortest uint64 `json:"shortest_edge"` // despite the name, pixels of the whole picture
		Longest  uint64 `json:"longest_edge"`
	} `json:"size"`
	MinPixels uint64    `json:"min_pixels"`
	MaxPixels uint64    `json:"max_pixels"`
	Patch     uint32    `json:"patch_size"`
	Temporal  uint32    `json:"temporal_patch_size"`
	Merge     uint32    `json:"merge_size"`
	Mean      []float32 `json:"image_mean"`
	Std       []float32 `json:"image_std"`
	Rescale   *bool     `json:"do_rescale"`
	Normalize *bool     `json:"do_normalize"`
	Factor    *float64  `json:"rescale_factor"`
}

// hfPictures reads preprocessor_config.json, or the part of the newer
// processor_config.json; neither need be there.
func (s *source) hfPictures(dir string) error {
	const name, newer = "preprocessor_config.json", "processor_config.json"
	var p *processor
	if err := s.readJSON(dir, name, &p); err != nil {
		return err
	}
	path := filepath.Join(dir, name)
	if p == nil {
		var outer struct {
			Image *processor `json:"image_processor"`
		}
		if err := s.readJSON(dir, newer, &outer); err != nil {
			return err
		}
		p, path = outer.Image, filepath.Join(dir, newer)
	}
	if p == nil {
		return nil
	}
	for _, f := range []struct {
		key       string
		got, want uint32
	}{{"patch_size", p.Patch, s.arch.VisPatch}, {"temporal_patch_size", p.Temporal, s.arch.VisTemporal}, {"merge_size", p.Merge, s.arch.VisMerge}} {
		if f.got != 0 && f.got != f.want {
			return faulty("%s: %s is %d, config.json says %d", path, f.key, f.got, f.want)
		}
	}
	for key, on := range map[string]*bool{"do_rescale": p.Rescale, "do_normalize": p.Normalize} {
		if on != nil && !*on {
			return unsupported("%s: %s is false: the format's pixels are p/127.5 - 1", path, key)
		}
	}
	if p.Factor != nil && math.Abs(*p.Factor*255-1) > 1e-6 {
		return unsupported("%s: rescale_factor is %v: the format's pixels are p/127.5 - 1", path, *p.Factor)
	}
	out := &s.vision.pictures
	out.Mean, out.Std = p.Mean, p.Std
	out.MinPixels, out.MaxPixels = p.MinPixels, p.MaxPixels
	if out.MinPixels == 0 {
		out.MinPixels = p.Size.Shortest
	}
	if out.MaxPixels == 0 {
		out.MaxPixels = p.Size.Longest
	}
	return nil
}
