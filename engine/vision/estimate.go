// SPDX-License-Identifier: Apache-2.0

package vision

import (
	"math"
	"strings"

	"windhover/kernels"
	"windhover/vqf"
)

// Plan is a tower by header and directory alone, which tells what it would take and
// computes nothing.
func Plan(f *vqf.File, opt Options) (*Tower, error) { return plan(f, opt) }

// WeightBytes is what the tensors of a file's tower take.
func WeightBytes(f *vqf.File) int64 {
	n := int64(0)
	for _, t := range f.Tensors() {
		if strings.HasPrefix(t.Name, "v_") {
			n += int64(t.Bytes)
		}
	}
	return n
}

// StepBytes is the most that a step of [Encoding] needs of a file's tower, with what
// is small: what is in memory of the weights where the rest is dropped.
func StepBytes(f *vqf.File) int64 {
	a := f.Arch()
	size := func(name string, parts uint32) int64 {
		t, _ := f.Tensor(name)
		return int64(t.Bytes) / int64(max(parts, 1))
	}
	first := size("v_patch_embed", 1) + size("v_pos_embed", 1)
	block := int64(0)
	large := first
	for _, name := range []string{"v_q8_qkv", "v_q8_proj", "v_q8_fc1", "v_q8_fc2"} {
		block += size(name, a.VisDepth)
		large += size(name, 1)
	}
	merger := size("v_merger_f1w", 1) + size("v_merger_f2w", 1)
	deep := size("v_ds_f1w", a.VisDSCount) + size("v_ds_f2w", a.VisDSCount)
	large += merger + size("v_ds_f1w", 1) + size("v_ds_f2w", 1)
	return max(first, block+deep, merger) + WeightBytes(f) - large
}

// Cost is about what [Tower.Encode] takes for a picture of so many pixels after
// resizing; see [Tower.Estimate]. The results, which are in it, are told apart.
func (t *Tower) Cost(pixels int64, workers int) (encode, results int64) {
	// The shape of a picture does not matter but for the last merger's tiles.
	place := int64(t.cfg.factor()) * int64(t.cfg.factor())
	places := int((pixels + place - 1) / place)
	g := Grid{1, t.cfg.Merge, places * t.cfg.Merge}
	return t.Estimate(g, workers), t.results(g)
}

// Attends is the most pixels of a frame, after resizing, whose attention takes no
// more than so many multiply-adds in all blocks.
func (t *Tower) Attends(most int64) int64 {
	patches := int64(math.Sqrt(float64(most) / float64(max(t.depth*attendCost(1, 1, t.s.dim), 1))))
	return patches * int64(t.cfg.Patch) * int64(t.cfg.Patch)
}

// results is what the embedding of a picture takes.
func (t *Tower) results(g Grid) int64 {
	return 4 * int64(g.T) * int64(g.places(t.cfg.Merge)) * int64(t.s.out) * int64(1+t.Levels())
}

// Estimate is about what [Tower.Encode] takes in memory for pictures of that
// grid, results included, with so many workers; the weights, which are pages of
// the file, are not in it. Frames of a video follow each other: they cost what
// their results take.
func (t *Tower) Estimate(g Grid, workers int) int64 {
	s := t.s
	n, dim := int64(g.H)*int64(g.W), int64(s.dim)
	places := int64(g.places(t.cfg.Merge))
	patch := int64(3 * t.cfg.Temporal * t.cfg.Patch * t.cfg.Patch)
	results := t.results(g)
	if t.reference {
		return results + 4*n*(5*dim+int64(s.ffnPad)) + 4*int64(workers)*(n+max(dim, int64(s.ffnPad), patch)+2*int64(t.merged()))
	}
	chunk := min(n, int64(t.chunk))
	groups := (n + kernels.KVGroup - 1) / kernels.KVGroup
	cache := 2 * int64(s.heads) * groups * int64(kernels.KVF16.GroupBytes(s.headDim))
	through := chunk * (4*dim + 4*max(3*dim, int64(s.ffnPad)) + actsBytes*(dim+int64(s.ffnPad)))
	tile := int64(mergeTiles(int(places))) * kernels.FloatColumns
	merging := 4 * tile * int64(2*t.merged()+s.out)
	own := 4*(2*int64(s.ffn)+patch+kernels.FloatColumns*(patch+dim)+int64(t.merged())) +
		kernels.AttnTileBytes(attnRows, s.headDim) + 2*kernels.AttnPartBytes(attnRows, s.headDim)
	return results + 8*n*dim + cache + through + merging + int64(workers)*own
}

// actsBytes is what an int8 activation takes, in both the forms that kernels
// keep, with scales and sums.
const actsBytes = 3
