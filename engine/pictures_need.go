// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"

	"windhover/engine/vision"
	"windhover/vqf"
)

// Pictures cost memory while they are decoded, while requests hold them and while the
// tower computes them, by their pixels. They may have a part of what the limit leaves
// beside the weights; where that is little they are taken smaller. The rest is the
// context's. What they cost in time is bounded by mostAttention.
const (
	pictureSteps = 9         // each halves the pixels after resizing, every other one those of files
	pictureShare = 4         // the part of the memory is one of so many
	mostFile     = 32 << 20  // pixels of a file in the first step; in the last one 2 million
	keptLimit    = 64 << 20  // bytes of embeddings that are kept, and
	keptPictures = 4         // at most as many as so many of the largest pictures have
	heldLimit    = 128 << 20 // bytes of pictures that requests hold, if there is a use for so many
	heldContexts = 8         // at most those of so many contexts full of videos
	videoShare   = 2         // frames of a video have so many pixels in all: the tower computes two at once
)

// mostAttention bounds what attention costs for a picture, or for the frames of a video
// together, in multiply-adds of all blocks. It grows with the square of the pixels of a
// frame, and would take hours where all else takes minutes. The tower of 2B looks at 1.7
// million pixels at most for it, for one or two minutes on two cores of 2023, where its
// own limit is 16.8 million.
const mostAttention = 2 << 40

// pictureNeed is what pictures may cost. The zero value is that of a model without
// a tower.
type pictureNeed struct {
	image    int64 // pixels of a picture after resizing, at most
	video    int64 // of all frames of a video
	attended int64 // see vision.Config
	limits   vision.Limits
	kept     int64 // bytes of embeddings that are kept
	held     int64 // bytes of resized pictures, of all requests together
	bytes    int64 // decoding, encoding, what is kept and what is held
}

// lower holds a model's budgets to the need.
func (n *pictureNeed) lower(c vision.Config) vision.Config {
	c.Image.Max, c.Video.Max, c.Attended = n.image, n.video, n.attended
	return c
}

// pictureCost is what pictures of a file cost. The zero value is that of a file
// without a tower.
type pictureCost struct {
	tower   *vision.Tower // without weights
	weights int64         // bytes of them
	least   int64         // of these, in memory where each is dropped after its use
	workers int
}

func pictureCostOf(f *vqf.File, opt Options, workers int) (pictureCost, error) {
	if !f.HasVision() {
		return pictureCost{}, nil
	}
	tower, err := vision.Plan(f, vision.Options{Reference: opt.reference()})
	if err != nil {
		return pictureCost{}, fmt.Errorf("engine: %w", err)
	}
	return pictureCost{tower, vision.WeightBytes(f), vision.StepBytes(f), workers}, nil
}

// step is what pictures may cost in a step. None takes more than half of the context.
func (p *pictureCost) step(i, context int) pictureNeed {
	c := p.tower.Config()
	side := int64(c.Patch * c.Merge)
	pixels, attended := min(c.Image.Max>>i, int64(context)/2*side*side), p.tower.Attends(mostAttention)
	n := pictureNeed{image: max(min(pixels, attended), c.Image.Min), video: max(min(c.Video.Max, videoShare*pixels), c.Video.Min), attended: attended}
	// A request may have what fills its context; frames of a video share places.
	const colours = 3
	n.held = min(heldLimit>>i, heldContexts*colours*int64(c.Temporal)*int64(context)*side*side)
	n.held = max(n.held, colours*(n.image+n.video))
	file := int64(mostFile) >> (i / 2)
	n.limits = vision.Limits{Bytes: file, Pixels: file}
	// Two frames of a video are computed at once.
	encode, results := p.tower.Cost(max(n.image, min(n.video/videoShare, attended)), p.workers)
	n.kept = min(keptLimit, keptPictures*results)
	n.bytes = n.limits.Memory() + colours*max(n.image, n.video) + encode + n.kept + n.held
	return n
}

// choose takes the first step that fits its part of what the limit leaves beside the
// weights; the last one if none does. Limit 0 is none.
func (p *pictureCost) choose(limit, weights int64, context int) pictureNeed {
	if p.tower == nil {
		return pictureNeed{}
	}
	n := p.step(0, context)
	for i := 1; i < pictureSteps && limit > 0 && n.bytes > (limit-weights)/pictureShare; i++ {
		n = p.step(i, context)
	}
	return n
}
