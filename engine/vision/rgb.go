// SPDX-License-Identifier: Apache-2.0

package vision

import (
	"image"
	"image/color"
)

// toRGB makes opaque pixels of a decoded picture: what is outside of it but in
// frame is white, what is transparent is laid over white. 16-bit values lose
// their low byte. It turns the result by an EXIF orientation.
func toRGB(m image.Image, frame image.Rectangle, video bool, orientation int) *Image {
	out, p := newTurned(frame.Dx(), frame.Dy(), orientation)
	b := m.Bounds()
	if b != frame {
		for i := range out.Pix {
			out.Pix[i] = 255
		}
	}
	read := rowReader(m, video)
	row := make([]uint8, 3*b.Dx())
	for y := b.Min.Y; y < b.Max.Y; y++ {
		read(row, y)
		p.put(row, b.Min.X-frame.Min.X, y-frame.Min.Y)
	}
	return out
}

// place says where the pixels of a picture go when it is turned: pixel x, y to
// at + x*dx + y*dy.
type place struct {
	pix        []uint8
	at, dx, dy int
}

// newTurned makes a picture of w x h pixels to be filled through place.
func newTurned(w, h, orientation int) (*Image, place) {
	m := &Image{Width: w, Height: h, Pix: make([]uint8, 3*w*h)}
	p := place{pix: m.Pix, dx: 3, dy: 3 * w}
	if orientation > 4 { // rows become columns
		m.Width, m.Height = h, w
		p.dx, p.dy = 3*h, 3
	}
	mirrorX, mirrorY := false, false // of the source
	switch orientation {
	case 2, 8:
		mirrorX = true
	case 3, 7:
		mirrorX, mirrorY = true, true
	case 4, 6:
		mirrorY = true
	}
	if mirrorX {
		p.at, p.dx = p.at+(w-1)*p.dx, -p.dx
	}
	if mirrorY {
		p.at, p.dy = p.at+(h-1)*p.dy, -p.dy
	}
	return m, p
}

// put stores a row of pixels that begins at x, y.
func (p place) put(row []uint8, x, y int) {
	at := p.at + x*p.dx + y*p.dy
	if p.dx == 3 {
		copy(p.pix[at:], row)
		return
	}
	for i := 0; i < len(row); i += 3 {
		copy(p.pix[at:at+3], row[i:i+3])
		at += p.dx
	}
}

// overWhite lays a value with coverage a over white.
func overWhite(v, a uint8) uint8 {
	t := uint32(v)*uint32(a) + 255*(255-uint32(a)) + 128
	return uint8((t>>8 + t) >> 8)
}

// rowReader returns a function that reads the pixels of row y. video says that
// luma and chroma are as in video, in which 16 is black and 235 white.
func rowReader(m image.Image, video bool) func(row []uint8, y int) {
	left := m.Bounds().Min.X
	switch m := m.(type) {
	case *image.Gray:
		return func(row []uint8, y int) { spread(row, m.Pix[m.PixOffset(left, y):], 1) }
	case *image.Gray16:
		return func(row []uint8, y int) { spread(row, m.Pix[m.PixOffset(left, y):], 2) }
	case *image.NRGBA:
		return func(row []uint8, y int) { blend(row, m.Pix[m.PixOffset(left, y):], 1) }
	case *image.NRGBA64:
		return func(row []uint8, y int) { blend(row, m.Pix[m.PixOffset(left, y):], 2) }
	case *image.Paletted:
		table := paletteRGB(m.Palette)
		return func(row []uint8, y int) {
			for i, c := range m.Pix[m.PixOffset(left, y):][:len(row)/3] {
				copy(row[3*i:], table[c][:])
			}
		}
	case *image.YCbCr:
		return newChroma(m, video).row
	case *image.NYCbCrA:
		c := newChroma(&m.YCbCr, video)
		return func(row []uint8, y int) {
			c.row(row, y)
			for i, a := range m.A[m.AOffset(left, y):][:len(row)/3] {
				for j, v := range row[3*i:][:3] {
					row[3*i+j] = overWhite(v, a)
				}
			}
		}
	case *image.CMYK:
		return func(row []uint8, y int) {
			src := m.Pix[m.PixOffset(left, y):]
			for i := 0; i < len(row); i += 3 {
				s := src[i/3*4:][:4]
				row[i], row[i+1], row[i+2] = color.CMYKToRGB(s[0], s[1], s[2], s[3])
			}
		}
	}
	// What is left has its colours multiplied by their coverage (RGBA, RGBA64).
	return func(row []uint8, y int) {
		for i := 0; i < len(row); i += 3 {
			r, g, b, a := m.At(left+i/3, y).RGBA()
			row[i], row[i+1], row[i+2] = uint8((r+0xffff-a)>>8), uint8((g+0xffff-a)>>8), uint8((b+0xffff-a)>>8)
		}
	}
}

// spread makes three of each value, of size bytes with the high one first.
func spread(row, src []uint8, size int) {
	for i := 0; i < len(row); i += 3 {
		v := src[i/3*size]
		row[i], row[i+1], row[i+2] = v, v, v
	}
}

// blend takes colours with coverage, values of size bytes.
func blend(row, src []uint8, size int) {
	for i := 0; i < len(row); i += 3 {
		s := src[i/3*4*size:][:4*size]
		a := s[3*size]
		row[i], row[i+1], row[i+2] = overWhite(s[0], a), overWhite(s[size], a), overWhite(s[2*size], a)
	}
}

// paletteRGB is a palette over white. Entries that it has not are white.
func paletteRGB(p color.Palette) *[256][3]uint8 {
	var table [256][3]uint8
	for i := range table {
		table[i] = [3]uint8{255, 255, 255}
		if i < len(p) {
			c := color.NRGBAModel.Convert(p[i]).(color.NRGBA)
			table[i] = [3]uint8{overWhite(c.R, c.A), overWhite(c.G, c.A), overWhite(c.B, c.A)}
		}
	}
	return &table
}
