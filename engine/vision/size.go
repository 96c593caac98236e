// SPDX-License-Identifier: Apache-2.0

package vision

import (
	"fmt"
	"math"
)

// The size that a picture is resized to: both sides multiples of the factor,
// near to its own shape, the number of pixels within the budget. The steps are
// the reference's, in float64, with halves rounded to even.

// Resized is the size that a picture of w x h pixels is resized to. The error
// is [ErrSize].
func (c *Config) Resized(w, h int) (int, int, error) {
	if err := checkSize("picture", w, h, math.MaxInt32); err != nil {
		return 0, 0, err
	}
	return fit(1, 1, w, h, c.factor(), c.attended(c.Image, 1, 1))
}

// ResizedFrames is the size that n frames of w x h pixels are resized to. As in
// the reference, a video needs as many frames as a patch has, and sides of at
// least the factor.
func (c *Config) ResizedFrames(n, w, h int) (int, int, error) {
	if err := checkSize("frame", w, h, math.MaxInt32); err != nil {
		return 0, 0, err
	}
	if n < c.Temporal {
		return 0, 0, fmt.Errorf("vision: %d frames, the least is %d: %w", n, c.Temporal, ErrSize)
	}
	if f := c.factor(); w < f || h < f {
		return 0, 0, fmt.Errorf("vision: frames of %d x %d pixels, the least is %d a side: %w", w, h, f, ErrSize)
	}
	even := int(math.RoundToEven(float64(n)/float64(c.Temporal))) * c.Temporal
	return fit(n, even, w, h, c.factor(), c.attended(c.Video, even/c.Temporal, c.Temporal))
}

// attended holds a budget, of the pixels of all pictures together, to what attention
// may cost in so many frames of the tower of so many pictures each. A frame attends to
// itself: of twice as many, each may have half of the square of the pixels.
func (c *Config) attended(budget Pixels, frames, pictures int) Pixels {
	if c.Attended > 0 {
		most := float64(c.Attended) * float64(pictures) * math.Sqrt(float64(max(frames, 1)))
		budget.Max = max(min(budget.Max, int64(most)), budget.Min)
	}
	return budget
}

// fit finds the size for n frames that count as many as even.
func fit(n, even, w, h, factor int, budget Pixels) (int, int, error) {
	f := float64(factor)
	fw, fh, all := float64(w), float64(h), float64(n)*float64(w)*float64(h)
	rw, rh := math.RoundToEven(fw/f)*f, math.RoundToEven(fh/f)*f
	switch total := float64(even) * rw * rh; {
	case total > float64(budget.Max):
		beta := math.Sqrt(all / float64(budget.Max))
		rw, rh = max(f, math.Floor(fw/beta/f)*f), max(f, math.Floor(fh/beta/f)*f)
	case total < float64(budget.Min):
		beta := math.Sqrt(float64(budget.Min) / all)
		rw, rh = math.Ceil(float64(fw*beta)/f)*f, math.Ceil(float64(fh*beta)/f)*f
	}
	if rw*rh > 1<<31 {
		return 0, 0, fmt.Errorf("vision: %d x %d pixels would be resized to %.0f x %.0f: %w", w, h, rw, rh, ErrSize)
	}
	return int(rw), int(rh), nil
}
