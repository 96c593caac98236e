// SPDX-License-Identifier: Apache-2.0

package vision

import (
	"encoding/json"
	"fmt"

	"windhover/vqf"
)

// Config is what a model does with pictures.
type Config struct {
	Patch    int // pixels a side of a patch
	Merge    int // patches a side of a place, what the text model sees as a token
	Temporal int // frames of a patch
	Image    Pixels
	Video    Pixels
	// Attended is how many pixels a picture has whose attention, which grows with
	// their square, costs as much as is to be spent; the frames of a video together
	// get as much. 0 is no limit. [Tower.Attends] tells.
	Attended int64
}

// Pixels is a budget, after resizing: width times height of a picture, and
// times the number of frames of a video.
type Pixels struct{ Min, Max int64 }

// What Qwen3-VL is published with, for files that do not say.
var (
	defaultImage = Pixels{65536, 16777216}
	defaultVideo = Pixels{4096, 25165824}
)

// maxSide bounds what a header may give for a patch and a place.
const maxSide = 1 << 10

// ConfigOf reads a file's header, and its metadata where it has some. The error
// is a header that this package does not compute with.
func ConfigOf(f *vqf.File) (Config, error) {
	a := f.Arch()
	c := Config{Patch: int(a.VisPatch), Merge: int(a.VisMerge), Temporal: int(a.VisTemporal), Image: defaultImage, Video: defaultVideo}
	for _, v := range []uint32{a.VisPatch, a.VisMerge, a.VisTemporal} {
		if v < 1 || v > maxSide {
			return c, fmt.Errorf("vision: %s: patches of %d pixels and %d frames, %d a side merged: %w", f.Path(), a.VisPatch, a.VisTemporal, a.VisMerge, vqf.ErrUnsupported)
		}
	}
	var meta struct {
		Vision struct {
			Min uint64 `json:"min_pixels"`
			Max uint64 `json:"max_pixels"`
		} `json:"vision"`
	}
	if data := f.Meta(); data != nil {
		if err := json.Unmarshal(data, &meta); err != nil {
			return c, fmt.Errorf("vision: %s: t_meta: %v", f.Path(), err)
		}
	}
	v := meta.Vision
	if v.Min > 0 {
		c.Image.Min = int64(min(v.Min, 1<<40))
	}
	if v.Max > 0 {
		c.Image.Max = int64(min(v.Max, 1<<40))
	}
	c.Image.Max = max(c.Image.Max, c.Image.Min)
	return c, nil
}

// factor is what the sides of a resized picture are multiples of.
func (c *Config) factor() int { return c.Patch * c.Merge }
