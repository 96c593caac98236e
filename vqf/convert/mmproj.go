// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"windhover/vqf"
	"windhover/vqf/gguf"
)

// addProjector opens the file that holds the vision tower of a GGUF model,
// adds its tensors to the source and fills the header's fields as
// docs/FORMAT.md section 8.3 says. text reads the model's own metadata.
func (s *source) addProjector(text *ggufKeys, set *settings) (err error) {
	path := set.Mmproj
	if set.TextOnly {
		return &failure{kind: ErrOption, msg: fmt.Sprintf("mmproj %s and text-only: one or the other", path)}
	}
	if !sees(s.architecture) {
		return unsupported("mmproj %s: a %s model has no vision tower", path, s.architecture)
	}
	f, err := gguf.Open(path)
	if err != nil {
		return ggufFailure("mmproj", err)
	}
	s.closer = closers{s.closer, f} // closed with the source, also after an error
	k := &ggufKeys{f: f}
	if k.prefix = k.text("general.architecture"); k.err == nil && k.prefix != "clip" {
		return faulty("mmproj %s: general.architecture is %.40q: a vision projector says \"clip\"", path, k.prefix)
	}
	if err := k.projector(path); err != nil {
		return err
	}
	if err := s.addGGUF(f); err != nil {
		return err
	}
	if err := s.addFile(path); err != nil {
		return err
	}
	s.format += ", projector " + fmt.Sprintf("GGUF v%d", f.Version())
	s.vision = &tower{names: ggufVision, frames: true, byBlock: true}
	if err := k.towerArch(s, path); err != nil {
		return err
	}
	if n := text.uint("n_deepstack_layers", s.arch.VisDSCount); text.err == nil && n != s.arch.VisDSCount {
		return faulty("mmproj %s has %d deepstack mergers, the model %s takes %d: they do not belong together", path, s.arch.VisDSCount, s.path, n)
	}
	if err := text.visionTokens(s); err != nil {
		return err
	}
	return s.checkTower(k.float("vision.attention.layer_norm_epsilon", towerEps))
}

// closers are a source's files.
type closers []interface{ Close() error }

// Close closes all of them.
func (c closers) Close() error {
	var err error
	for _, f := range c {
		err = errors.Join(err, f.Close())
	}
	return err
}

// projector checks that the file holds the kind of tower that the format has.
func (k *ggufKeys) projector(path string) error {
	kind := k.text("clip.projector_type")
	if kind == "" {
		kind = k.text("clip.vision.projector_type")
	}
	if kind != "qwen3vl_merger" && k.err == nil {
		return unsupported("mmproj %s: projector type %.40q: only qwen3vl_merger is converted", path, kind)
	}
	for key, want := range map[string]bool{"clip.has_vision_encoder": true, "clip.has_audio_encoder": false, "clip.use_gelu": true, "clip.use_silu": false} {
		on, err := k.f.Bool(key)
		if err != nil {
			k.keep(err)
			continue
		}
		if on != want {
			return unsupported("mmproj %s: %s is %v: a qwen3vl tower with GELU and no audio is converted", path, key, on)
		}
	}
	return k.err
}

// towerArch fills the header's fields of the vision tower.
func (k *ggufKeys) towerArch(s *source, path string) error {
	a := &s.arch
	for _, f := range []struct {
		key string
		p   *uint32
	}{
		{"vision.block_count", &a.VisDepth}, {"vision.embedding_length", &a.VisHidden}, {"vision.attention.head_count", &a.VisHeads},
		{"vision.feed_forward_length", &a.VisFFN}, {"vision.patch_size", &a.VisPatch}, {"vision.projection_dim", &a.VisOutDim},
	} {
		if *f.p = k.uint(f.key, 0); *f.p == 0 && k.err == nil {
			return faulty("mmproj %s: clip.%s is missing or 0", path, f.key)
		}
	}
	a.VisMerge = k.uint("vision.spatial_merge_size", 2)
	if k.err != nil {
		return k.err
	}
	if a.VisOutDim != a.Dim {
		return faulty("mmproj %s projects to %d values, the model %s has %d: they do not belong together", path, a.VisOutDim, s.path, a.Dim)
	}
	a.HasVision, a.VisInChan, a.VisTemporal = 1, 3, 1
	for s.byName[fmt.Sprintf("v.patch_embd.weight.%d", a.VisTemporal)] != nil {
		a.VisTemporal++
	}
	if t := s.byName["v.position_embd.weight"]; t != nil && len(t.shape) == 2 && t.shape[0] <= math.MaxInt32 {
		a.VisMaxPos = uint32(t.shape[0])
	}
	if err := k.deepstack(a, path); err != nil {
		return err
	}
	return k.pictures(&s.vision.pictures)
}

// deepstack reads which blocks have a merger of their own.
func (k *ggufKeys) deepstack(a *vqf.Arch, path string) error {
	list, err := k.f.Bools("clip.vision.is_deepstack_layers")
	if err != nil {
		k.keep(err)
		return k.err
	}
	for i, on := range list {
		if !on {
			continue
		}
		if int(a.VisDSCount) == len(a.VisDSIdx) {
			return unsupported("mmproj %s: over %d deepstack mergers: the format has no place for them", path, len(a.VisDSIdx))
		}
		a.VisDSIdx[a.VisDSCount] = int32(i) // arrays are limited far below
		a.VisDSCount++
	}
	return nil
}

// pictures reads what the image processor does, where the file says it.
func (k *ggufKeys) pictures(p *pictures) error {
	for key, list := range map[string]*[]float32{"clip.vision.image_mean": &p.Mean, "clip.vision.image_std": &p.Std} {
		values, err := k.f.Floats(key)
		k.keep(err)
		for _, v := range values {
			*list = append(*list, float32(v))
		}
	}
	p.MinPixels, p.MaxPixels = uint64(k.uint("vision.image_min_pixels", 0)), uint64(k.uint("vision.image_max_pixels", 0))
	return k.err
}

// visionTokens finds the tokens around a picture by what they are called: a
// GGUF file has no keys for them.
func (k *ggufKeys) visionTokens(s *source) error {
	tokens, err := k.f.Texts("tokenizer.ggml.tokens")
	if err != nil {
		return &failure{kind: ErrSource, msg: "metadata", err: err}
	}
	a := &s.arch
	for _, t := range []struct {
		meaning string
		p       *uint32
	}{{"vision_start", &a.VisionStartID}, {"vision_end", &a.VisionEndID}, {"image_pad", &a.ImageTokenID}, {"video_pad", &a.VideoTokenID}} {
		i := slices.Index(tokens, named[t.meaning])
		if i < 0 {
			return faulty("%s: the vocabulary has no token %s, which pictures need", s.path, named[t.meaning])
		}
		*t.p = uint32(i)
	}
	return nil
}
