// SPDX-License-Identifier: Apache-2.0

package vision

import (
	"bytes"
	"fmt"
	"image"
	"image/jpeg"
)

const (
	shrinkSide    = 1024 // of the first try; models look at little more of a picture
	shrinkLeast   = 64   // of the last one
	shrinkQuality = 85
)

// JPEG writes the picture as a JPEG file of at most n bytes, made smaller until it
// fits, and tells its size in pixels. The error is [ErrSize].
func (m *Image) JPEG(n int) (data []byte, w, h int, err error) {
	for side := min(shrinkSide, max(m.Width, m.Height)); ; side = side * 4 / 5 {
		long := max(m.Width, m.Height)
		w, h = max(m.Width*side/long, 1), max(m.Height*side/long, 1)
		s := m
		if w != m.Width || h != m.Height {
			s = m.resized(w, h)
		}
		out := image.NewRGBA(image.Rect(0, 0, w, h))
		for i := range w * h {
			copy(out.Pix[4*i:], s.Pix[3*i:][:3])
			out.Pix[4*i+3] = 255
		}
		var b bytes.Buffer
		if err := jpeg.Encode(&b, out, &jpeg.Options{Quality: shrinkQuality}); err != nil {
			return nil, 0, 0, fmt.Errorf("vision: jpeg: %w", err)
		}
		if b.Len() <= n {
			return b.Bytes(), w, h, nil
		}
		if side <= shrinkLeast {
			return nil, 0, 0, fmt.Errorf("vision: picture of %d x %d pixels has %d bytes as a JPEG of %d x %d, want %d: %w", m.Width, m.Height, b.Len(), w, h, n, ErrSize)
		}
	}
}
