// SPDX-License-Identifier: Apache-2.0

package vision

import "fmt"

// PlaceIDs are the tokens that stand for places in a prompt.
type PlaceIDs struct{ Image, Video int32 }

// Positions fills pos, time, row and column of each token of a prompt. Text
// counts up on all three axes alike. The places of a picture, which follow each
// other, share a time, and count rows and columns from it; text goes on behind
// the largest. A video is so many pictures, one for each of the tower's frames,
// with text between: its time is told in words. merge is the side of a place in
// patches; pictures and videos are in the order of the prompt.
//
// Token n behind the prompt has position n + delta on all three axes, n counted
// from the prompt's beginning. The error is [ErrPrompt].
func Positions(pos *[3][]int32, ids []int32, places PlaceIDs, merge int, images, videos []Grid) (delta int32, err error) {
	for axis := range pos {
		if len(pos[axis]) != len(ids) {
			return 0, fmt.Errorf("vision: room for %d positions, %d tokens: %w", len(pos[axis]), len(ids), ErrPrompt)
		}
	}
	var next int32
	frame := 0 // of the video at hand
	for i := 0; i < len(ids); {
		var g Grid
		switch id := ids[i]; {
		case id != places.Image && id != places.Video:
			for axis := range pos {
				pos[axis][i] = next
			}
			next++
			i++
			continue
		case id == places.Image && len(images) == 0, id == places.Video && len(videos) == 0:
			return 0, fmt.Errorf("vision: token %d is a place of a picture that is not there: %w", i, ErrPrompt)
		case id == places.Image:
			g, images = images[0], images[1:]
		default:
			g = videos[0]
			if frame++; frame >= g.T {
				videos, frame = videos[1:], 0
			}
		}
		h, w := g.H/merge, g.W/merge
		if h < 1 || w < 1 || h > len(ids) || w > len(ids) {
			return 0, fmt.Errorf("vision: token %d: picture of %d x %d patches in a prompt of %d tokens: %w", i, g.W, g.H, len(ids), ErrPrompt)
		}
		for k := range h * w {
			if i+k == len(ids) || ids[i+k] != ids[i] {
				return 0, fmt.Errorf("vision: token %d: %d places for a picture of %d x %d: %w", i, k, w, h, ErrPrompt)
			}
			pos[0][i+k], pos[1][i+k], pos[2][i+k] = next, next+int32(k/w), next+int32(k%w)
		}
		i += h * w
		next += int32(max(h, w))
	}
	if left := len(images) + len(videos); left > 0 {
		return 0, fmt.Errorf("vision: %d pictures without a place in the prompt: %w", left, ErrPrompt)
	}
	return next - int32(len(ids)), nil
}
