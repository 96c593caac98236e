// SPDX-License-Identifier: Apache-2.0

package vision

import (
	"errors"
	"math"
	"slices"
	"testing"
)

var published = Config{Patch: 16, Merge: 2, Temporal: 2, Image: defaultImage, Video: defaultVideo}

// Sizes as the reference's functions give them (transformers 4.57.1).
func TestSizes(t *testing.T) {
	for _, c := range [][4]int{
		{1920, 1080, 1920, 1088}, {4, 4, 256, 256}, {4, 800, 32, 3648}, {5, 1000, 32, 3648}, {512, 512, 512, 512},
		{16, 16, 256, 256}, {48, 48, 256, 256}, {80, 112, 224, 320}, {4032, 3024, 4032, 3008}, {8000, 4000, 5792, 2880},
		{30, 400, 96, 960}, {100, 100, 256, 256}, {255, 255, 256, 256}, {4096, 4096, 4096, 4096}, {4097, 4097, 4096, 4096},
	} {
		w, h, err := published.Resized(c[0], c[1])
		if err != nil || w != c[2] || h != c[3] {
			t.Errorf("%d x %d: %d x %d, %v, want %d x %d", c[0], c[1], w, h, err, c[2], c[3])
		}
	}
	for _, c := range [][5]int{
		{2, 64, 64, 64, 64}, {5, 64, 64, 64, 64}, {4, 1920, 1080, 1920, 1088}, {768, 1920, 1080, 224, 128}, {3, 32, 32, 32, 32},
		{7, 640, 360, 640, 352}, {100, 48, 80, 64, 64}, {2, 32, 6400, 32, 6400},
	} {
		w, h, err := published.ResizedFrames(c[0], c[1], c[2])
		if err != nil || w != c[3] || h != c[4] {
			t.Errorf("%d of %d x %d: %d x %d, %v, want %d x %d", c[0], c[1], c[2], w, h, err, c[3], c[4])
		}
	}
}

func TestSizesRefused(t *testing.T) {
	for _, c := range [][2]int{{1, 1}, {20000, 3}, {3, 100}, {4, 801}, {0, 0}, {-4, 8}, {math.MaxInt, math.MaxInt}} {
		if _, _, err := published.Resized(c[0], c[1]); !errors.Is(err, ErrSize) {
			t.Errorf("%d x %d: error %v, want ErrSize", c[0], c[1], err)
		}
	}
	for _, c := range [][3]int{{1, 64, 64}, {2, 31, 64}, {2, 64, 16}, {2, 32, 6401}, {0, 64, 64}} {
		if _, _, err := published.ResizedFrames(c[0], c[1], c[2]); !errors.Is(err, ErrSize) {
			t.Errorf("%d of %d x %d: error %v, want ErrSize", c[0], c[1], c[2], err)
		}
	}
	huge := published
	huge.Image = Pixels{1 << 40, 1 << 40}
	if _, _, err := huge.Resized(64, 64); !errors.Is(err, ErrSize) {
		t.Errorf("budget of 2^40 pixels: error %v, want ErrSize", err)
	}
}

func TestFramesRefused(t *testing.T) {
	frame := func(w, h int) *Image { return &Image{w, h, make([]uint8, 3*w*h)} }
	for _, list := range [][]*Image{nil, {frame(64, 64)}, {frame(64, 64), frame(64, 96)}, {frame(16, 16), frame(16, 16)}} {
		if _, err := framesOf(&tiny, list); !errors.Is(err, ErrSize) {
			t.Errorf("%d frames: error %v, want ErrSize", len(list), err)
		}
	}
}

// Frames as numpy chooses them in the reference.
func TestSampleFrames(t *testing.T) {
	for _, c := range []struct {
		n     int
		rate  float64
		count int
		begin []int
		sum   int
	}{
		{1, 2, 1, []int{0}, 0},
		{3, 30, 3, []int{0, 1, 2}, 3},
		{10, 30, 4, []int{0, 3, 6, 9}, 18},
		{90, 30, 6, []int{0, 18, 36, 53, 71, 89}, 267},
		{91, 24, 7, []int{0, 15, 30, 45, 60, 75, 90}, 315},
		{100, 1, 100, []int{0, 1, 2, 3}, 4950},
		{60, 23.976, 5, []int{0, 15, 30, 44, 59}, 148},
		{50000, 25, 768, []int{0, 65, 130, 196, 261, 326, 391}, 19199616},
	} {
		got, err := SampleFrames(c.n, c.rate)
		sum := 0
		for _, i := range got {
			sum += i
		}
		if err != nil || len(got) != c.count || !slices.Equal(got[:len(c.begin)], c.begin) || sum != c.sum {
			t.Errorf("%d at %g: %d frames from %v, sum %d, %v; want %d from %v, sum %d", c.n, c.rate, len(got), got[:min(len(got), 8)], sum, err, c.count, c.begin, c.sum)
		}
	}
	for _, rate := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		if _, err := SampleFrames(5, rate); !errors.Is(err, ErrSize) {
			t.Errorf("rate %g: error %v, want ErrSize", rate, err)
		}
	}
}
