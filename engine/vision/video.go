// SPDX-License-Identifier: Apache-2.0

package vision

import (
	"fmt"
	"math"
	"strconv"
)

// A video is a list of frames and a rate. The text model is told the time of
// each of the tower's frames in words, before its places.

// What the reference makes of a video: so many frames a second, and at least
// and at most so many in all.
const (
	sampleRate = 2
	minFrames  = 4
	maxFrames  = 768
)

// SampleFrames chooses frames of a video of n frames at rate frames a second,
// evenly from the first to the last: two a second, but at least 4 and at most
// 768, and no more than there are. The error is [ErrSize].
func SampleFrames(n int, rate float64) ([]int, error) {
	if n < 1 || !(rate > 0) || math.IsInf(rate, 0) {
		return nil, fmt.Errorf("vision: video of %d frames at %g a second: %w", n, rate, ErrSize)
	}
	count := min(float64(n)/rate*sampleRate, maxFrames)
	k := min(max(int(count), minFrames), n)
	list := make([]int, k)
	if k == 1 {
		return list, nil
	}
	step := float64(n-1) / float64(k-1)
	for i := range list {
		list[i] = int(math.RoundToEven(float64(float64(i) * step)))
	}
	list[k-1] = n - 1
	return list, nil
}

// Times are the seconds of the tower's frames: for each the middle between the
// first and the last of its frames of the video. indices are the numbers of the
// frames in the video, of rate frames a second; the last one counts again where
// the last of the tower's frames is not full.
func (c *Config) Times(indices []int, rate float64) []float64 {
	at := func(i int) float64 { return float64(indices[min(i, len(indices)-1)]) / rate }
	var times []float64
	for i := 0; i < len(indices); i += c.Temporal {
		times = append(times, (at(i)+at(i+c.Temporal-1))/2)
	}
	return times
}

// TimeText is what a prompt has before the places of a frame.
func TimeText(seconds float64) string {
	return "<" + strconv.FormatFloat(seconds, 'f', 1, 64) + " seconds>"
}
