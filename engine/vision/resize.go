// SPDX-License-Identifier: Apache-2.0

package vision

import "math"

// Resizing is bicubic (a = -1/2) with antialiasing: to make a picture smaller
// the filter is as wide as the step. It goes over the rows and then over the
// columns, with 8 bits between. Weights are float64, normalised, and then
// rounded to as many bits of fraction as a 16-bit integer has room for, which
// is what the reference does with pictures of 8 bits.

// filter holds the weights of one direction: output i is the sum of
// count[i] inputs from first[i] on.
type filter struct {
	first, count []int
	weights      []int16 // [outputs][width]
	width        int
	bits         uint
}

// newFilter makes the weights for n outputs of in inputs.
func newFilter(in, n int) *filter {
	scale := float64(in) / float64(n)
	stretch := max(scale, 1)
	support := 2 * stretch
	f := &filter{first: make([]int, n), count: make([]int, n), width: 2*int(math.Ceil(support)) + 1}
	exact := make([]float64, n*f.width)
	most := 0.0
	for i := range n {
		center := float64(scale * (float64(i) + 0.5))
		from := max(int(center-support+0.5), 0)
		count := min(int(center+support+0.5), in) - from
		f.first[i], f.count[i] = from, count
		w := exact[i*f.width:][:count]
		sum := 0.0
		for j := range w {
			w[j] = cubic((float64(from+j) - center + 0.5) / stretch)
			sum += w[j]
		}
		for j := range w {
			w[j] /= sum
			most = max(most, w[j])
		}
	}
	for f.bits < 22 && int(0.5+most*float64(int(1)<<(f.bits+1))) < 1<<15 {
		f.bits++
	}
	f.weights = make([]int16, len(exact))
	one := float64(int(1) << f.bits)
	for i, w := range exact {
		f.weights[i] = int16(float64(w*one) + math.Copysign(0.5, w))
	}
	return f
}

// cubic is the kernel of bicubic interpolation.
func cubic(x float64) float64 {
	const a = -0.5
	x = math.Abs(x)
	switch {
	case x < 1:
		return float64(float64(float64(float64((a+2)*x)-(a+3))*x)*x) + 1
	case x < 2:
		return float64(float64(float64(float64(float64(x-5)*x)+8)*x)-4) * a
	}
	return 0
}

// resized is the picture in another size.
func (m *Image) resized(w, h int) *Image {
	if w != m.Width {
		m = m.resizedRows(w)
	}
	if h != m.Height {
		m = m.resizedColumns(h)
	}
	return m
}

func (m *Image) resizedRows(w int) *Image {
	f := newFilter(m.Width, w)
	out := &Image{Width: w, Height: m.Height, Pix: make([]uint8, 3*w*m.Height)}
	half := int32(1) << f.bits >> 1
	for y := range m.Height {
		src, dst := m.Pix[3*y*m.Width:][:3*m.Width], out.Pix[3*y*w:][:3*w]
		for i := range w {
			r, g, b := half, half, half
			at := src[3*f.first[i]:]
			for j, k := range f.weights[i*f.width:][:f.count[i]] {
				p := at[3*j:][:3]
				r += int32(p[0]) * int32(k)
				g += int32(p[1]) * int32(k)
				b += int32(p[2]) * int32(k)
			}
			d := dst[3*i:][:3]
			d[0], d[1], d[2] = clip(r, f.bits), clip(g, f.bits), clip(b, f.bits)
		}
	}
	return out
}

func (m *Image) resizedColumns(h int) *Image {
	f := newFilter(m.Height, h)
	n := 3 * m.Width
	out := &Image{Width: m.Width, Height: h, Pix: make([]uint8, n*h)}
	half := int32(1) << f.bits >> 1
	sums := make([]int32, n)
	for i := range h {
		for x := range sums {
			sums[x] = half
		}
		for j, k := range f.weights[i*f.width:][:f.count[i]] {
			for x, v := range m.Pix[(f.first[i]+j)*n:][:n] {
				sums[x] += int32(v) * int32(k)
			}
		}
		dst := out.Pix[i*n:][:n]
		for x, s := range sums {
			dst[x] = clip(s, f.bits)
		}
	}
	return out
}

// clip drops bits of fraction.
func clip(v int32, bits uint) uint8 { return uint8(min(max(v>>bits, 0), 255)) }
