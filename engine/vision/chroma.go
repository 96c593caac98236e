// SPDX-License-Identifier: Apache-2.0

package vision

import (
	"image"
	"image/color"
)

// chroma reads rows of a picture in luma and chroma. Chroma that has half the
// rows or columns is interpolated, three parts of the nearer and one of the
// farther sample, as the libraries do that pictures are usually read with;
// image.YCbCr would repeat samples, which shifts colours by as much as the eye
// and the model see at edges.
type chroma struct {
	m      *image.YCbCr
	video  bool
	halfX  bool
	halfY  bool
	cb, cr []int32 // a row of chroma, in sixteenths
}

func newChroma(m *image.YCbCr, video bool) *chroma {
	c := &chroma{m: m, video: video}
	switch m.SubsampleRatio {
	case image.YCbCrSubsampleRatio422:
		c.halfX = true
	case image.YCbCrSubsampleRatio440:
		c.halfY = true
	case image.YCbCrSubsampleRatio420:
		c.halfX, c.halfY = true, true
	}
	n := m.Rect.Dx()
	c.cb, c.cr = make([]int32, n), make([]int32, n)
	return c
}

// row reads row y.
func (c *chroma) row(row []uint8, y int) {
	m := c.m
	left := m.Rect.Min.X
	c.line(c.cb, m.Cb, y)
	c.line(c.cr, m.Cr, y)
	for i, l := range m.Y[m.YOffset(left, y):][:len(row)/3] {
		cb, cr := uint8(c.cb[i]>>4), uint8(c.cr[i]>>4)
		out := row[3*i:][:3]
		if c.video {
			out[0], out[1], out[2] = videoRGB(l, cb, cr)
		} else {
			out[0], out[1], out[2] = color.YCbCrToRGB(l, cb, cr)
		}
	}
}

// line fills dst with the chroma of row y in sixteenths, the rounding added.
func (c *chroma) line(dst []int32, plane []uint8, y int) {
	m := c.m
	top := m.Rect.Min
	at := m.COffset(top.X, y)
	if !c.halfX && !c.halfY {
		for i := range dst {
			dst[i] = int32(plane[m.COffset(top.X+i, y)]) << 4
		}
		return
	}
	far := at
	if c.halfY {
		// Of two rows of luma the first lies nearer to the row of chroma above.
		other := y + 1
		if (y-top.Y)%2 == 0 {
			other = y - 1
		}
		if other >= top.Y && other < m.Rect.Max.Y {
			far = m.COffset(top.X, other)
		}
	}
	n := len(dst)
	if c.halfX {
		n = (n + 1) / 2
	}
	// Sums of the rows, in quarters.
	sum := func(i int) int32 { return 3*int32(plane[at+i]) + int32(plane[far+i]) }
	if !c.halfX {
		for i := range dst {
			dst[i] = sum(i)*4 + 8
		}
		return
	}
	left, right := int32(8), int32(7) // halves are rounded up and down in turn
	if !c.halfY {
		left, right = right, left
	}
	for i := range dst {
		k := i / 2
		near := sum(k)
		if i%2 == 0 {
			dst[i] = 3*near + sum(max(k-1, 0)) + left
		} else {
			dst[i] = 3*near + sum(min(k+1, n-1)) + right
		}
	}
}

// videoRGB converts as WebP defines it: BT.601 with 16 for black and 235 for
// white, in 14 bits of fraction with the products cut to 8.
func videoRGB(y, cb, cr uint8) (r, g, b uint8) {
	l, u, v := int32(y)*19077>>8, int32(cb), int32(cr)
	return clip6(l + v*26149>>8 - 14234), clip6(l - u*6419>>8 - v*13320>>8 + 8708), clip6(l + u*33050>>8 - 17685)
}

// clip6 drops 6 bits of fraction.
func clip6(v int32) uint8 { return uint8(min(max(v>>6, 0), 255)) }
