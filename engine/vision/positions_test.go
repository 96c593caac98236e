// SPDX-License-Identifier: Apache-2.0

package vision

import (
	"errors"
	"slices"
	"testing"
)

func positions(ids []int32, images, videos []Grid) ([3][]int32, int32, error) {
	var pos [3][]int32
	for i := range pos {
		pos[i] = make([]int32, len(ids))
	}
	delta, err := Positions(&pos, ids, PlaceIDs{Image: 90, Video: 91}, 2, images, videos)
	return pos, delta, err
}

func TestPositions(t *testing.T) {
	for _, c := range []struct {
		name           string
		ids            []int32
		images, videos []Grid
		want           [3][]int32
		delta          int32
	}{
		{name: "text", ids: []int32{1, 2, 3}, want: [3][]int32{{0, 1, 2}, {0, 1, 2}, {0, 1, 2}}},
		{name: "none"},
		{
			name: "picture at the end", ids: []int32{5, 90, 90, 90}, images: []Grid{{1, 2, 6}},
			want: [3][]int32{{0, 1, 1, 1}, {0, 1, 1, 1}, {0, 1, 2, 3}}, delta: 0,
		},
		{
			name: "pictures side by side", ids: []int32{90, 90, 90, 7}, images: []Grid{{1, 4, 2}, {1, 2, 2}},
			want: [3][]int32{{0, 0, 2, 3}, {0, 1, 2, 3}, {0, 0, 2, 3}}, delta: 0,
		},
		{
			name: "video and picture", ids: []int32{91, 4, 90, 91, 4}, images: []Grid{{1, 2, 2}}, videos: []Grid{{2, 2, 2}},
			want: [3][]int32{{0, 1, 2, 3, 4}, {0, 1, 2, 3, 4}, {0, 1, 2, 3, 4}},
		},
	} {
		got, delta, err := positions(c.ids, c.images, c.videos)
		if err != nil || delta != c.delta {
			t.Errorf("%s: delta %d, %v, want %d", c.name, delta, err, c.delta)
		}
		for axis := range got {
			if !slices.Equal(got[axis], c.want[axis]) {
				t.Errorf("%s: axis %d: %v, want %v", c.name, axis, got[axis], c.want[axis])
			}
		}
	}
}

func TestPositionsRefused(t *testing.T) {
	for _, c := range []struct {
		name           string
		ids            []int32
		images, videos []Grid
	}{
		{name: "no picture", ids: []int32{1, 90}},
		{name: "no video", ids: []int32{91}, images: []Grid{{1, 2, 2}}},
		{name: "too few places", ids: []int32{90, 1}, images: []Grid{{1, 4, 2}}},
		{name: "too few at the end", ids: []int32{90}, images: []Grid{{1, 4, 2}}},
		{name: "too many places", ids: []int32{90, 90}, images: []Grid{{1, 2, 2}}},
		{name: "other places", ids: []int32{90, 91}, images: []Grid{{1, 4, 2}}},
		{name: "picture left", ids: []int32{1}, images: []Grid{{1, 2, 2}}},
		{name: "frame left", ids: []int32{91}, videos: []Grid{{2, 2, 2}}},
		{name: "empty grid", ids: []int32{90}, images: []Grid{{1, 0, 2}}},
		{name: "huge grid", ids: []int32{90}, images: []Grid{{1, 1 << 40, 1 << 40}}},
	} {
		if _, _, err := positions(c.ids, c.images, c.videos); !errors.Is(err, ErrPrompt) {
			t.Errorf("%s: error %v, want ErrPrompt", c.name, err)
		}
	}
	var short [3][]int32
	if _, err := Positions(&short, []int32{1}, PlaceIDs{}, 2, nil, nil); !errors.Is(err, ErrPrompt) {
		t.Errorf("no room: error %v, want ErrPrompt", err)
	}
}
