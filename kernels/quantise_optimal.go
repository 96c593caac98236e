// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"encoding/binary"
	"fmt"
	"math"
)

// QuantizeQ4Optimal stores src, rows of cols values, as row-major Q4_0 blocks
// whose scale and codes have the smallest weighted squared error that the
// format can express: for each block the sum over its columns j of
// weights[j]*(x[j] - scale*code[j])^2, with the scale as a half holds it. No
// block is worse than [QuantizeQ4]'s, and where none is better it is that one.
//
// weights are cols values, finite and not negative; nil means that all columns
// weigh the same. A block whose weights are all 0 is treated so. Every step is
// one rounded float64 operation, so that the bytes are those of any machine.
func QuantizeQ4Optimal(dst []byte, src []float32, cols int, weights []float32) {
	optimal("QuantizeQ4Optimal", dst, src, cols, weights, Q4BlockBytes)
}

// QuantizeQ4IOptimal is QuantizeQ4Optimal in the blocks of [QuantizeQ4I].
func QuantizeQ4IOptimal(dst []byte, src []float32, cols int, weights []float32) {
	optimal("QuantizeQ4IOptimal", dst, src, cols, weights, Q8BlockBytes)
}

func optimal(op string, dst []byte, src []float32, cols int, weights []float32, size int) {
	checkBlocks(op, dst, src, size)
	checkColumns(op, len(src), cols)
	if weights != nil && len(weights) != cols {
		panic(fmt.Sprintf("kernels: %s: %d weights of %d columns", op, len(weights), cols))
	}
	var s scaleSearch
	nb := cols / BlockLen
	for b := range len(src) / BlockLen {
		s.load(src[b*BlockLen:][:BlockLen])
		if weights == nil {
			s.even()
		} else {
			s.weigh(weights[b%nb*BlockLen:][:BlockLen])
		}
		s.best()
		s.nearest(float64(F16ToF32(s.scale)))
		putQ4(dst[b*size:][:size], s.scale, &s.codes)
	}
}

func checkColumns(op string, n, cols int) {
	if cols < BlockLen || cols%BlockLen != 0 || n%cols != 0 {
		panic(fmt.Sprintf("kernels: %s: %d values in rows of %d, want whole rows of whole blocks", op, n, cols))
	}
}

// putQ4 stores a block of scale d and codes -8..7, biased nibbles or bytes by
// the length of out.
func putQ4(out []byte, d uint16, codes *[BlockLen]int8) {
	binary.LittleEndian.PutUint16(out, d)
	if len(out) == Q8BlockBytes {
		for i, c := range codes {
			out[2+i] = byte(c)
		}
		return
	}
	for j := range 16 {
		out[2+j] = byte(codes[j]+8) | byte(codes[j+16]+8)<<4
	}
}

// scaleSearch finds the scale of one block.
//
// For given codes c the error is a parabola in the scale d: X - 2dA + d²B with
// X = Σwx², A = Σwxc, B = Σwc². Its best half is the one nearest to A/B. For a
// given scale the best codes are the nearest ones. So the optimum is among the
// code vectors that are nearest for some scale, and those change only where a
// value passes the middle between two codes: |x| goes from magnitude k to k+1
// at s = 1/|d| = (k+1/2)/|x|. Walking these at most 256 events in order visits
// every candidate, and A and B change by one value each time. Positive and
// negative scales differ only in which values may have magnitude 8, so that
// they are walked together.
//
// Scales that must lose are left out: for large s the largest value alone is
// off by more than the error to beat, for small s the values that are rounded
// to 0 are.
type scaleSearch struct {
	x     [BlockLen]float64
	w     [BlockLen]float64
	codes [BlockLen]int8 // of nearest

	abs   [BlockLen]float64    // |x|
	wx    [BlockLen]float64    // w|x|
	keys  [8 * BlockLen]uint64 // events: bits of s as float32, k, index of the value
	order [8 * BlockLen]uint64 // the same, ascending
	start [buckets + 1]int     // of each bucket in order

	gain  float64 // X less the error of scale
	scale uint16  // best so far, bits of a half
}

const buckets = 64 // of events, by s

func (s *scaleSearch) load(x []float32) {
	for i, v := range x {
		s.x[i] = float64(v)
	}
}

func (s *scaleSearch) even() {
	for i := range s.w {
		s.w[i] = 1
	}
}

// weigh takes the weights, of whose size only ratios matter.
func (s *scaleSearch) weigh(w []float32) {
	var top float32
	for i, v := range w {
		s.w[i] = float64(v)
		top = max(top, v)
	}
	if top == 0 {
		s.even()
	}
}

// best leaves the best scale in s.scale. The first candidate is the plain
// scale, and others have to be better than that.
func (s *scaleSearch) best() {
	var x float64 // X
	top := 0
	for i, v := range s.x {
		a := math.Abs(v)
		s.abs[i] = a
		s.wx[i] = s.w[i] * a
		x += float64(s.wx[i] * a)
		if a > s.abs[top] {
			top = i
		}
	}
	d := float32(s.x[top]) / -8
	if d == 0 {
		d = 1
	}
	s.scale = finiteHalf(d)
	v := float64(F16ToF32(s.scale))
	s.nearest(v)
	var a, b float64
	for i, c := range s.codes {
		c := float64(c)
		a += float64(float64(s.w[i]*s.x[i]) * c)
		b += float64(s.w[i] * float64(c*c))
	}
	s.gain = gainOf(v, a, b)
	if s.gain >= x {
		return // nothing is lost, or there is nothing
	}
	s.try(math.Abs(a), b, v < 0)
	s.walk(top, x)
}

// gainOf is 2dA - d²B.
func gainOf(d, a, b float64) float64 {
	return float64(2*d*a) - float64(float64(d*d)*b)
}

// try takes codes with A = a >= 0, B = b for a scale of either sign.
func (s *scaleSearch) try(a, b float64, negative bool) {
	// A²/B is what an unrounded scale would gain.
	if b == 0 || float64(a*a) <= float64(s.gain*b) {
		return
	}
	h := finiteHalf(float32(a / b))
	if g := gainOf(float64(F16ToF32(h)), a, b); g > s.gain {
		if negative {
			h |= 0x8000
		}
		s.gain, s.scale = g, h
	}
}

// walk tries every code vector that may be better than what there is; x is X
// and top the index of the largest value.
func (s *scaleSearch) walk(top int, x float64) {
	lo, hi := s.span(top, x-s.gain)
	var ap, bp, an, bn float64 // A and B with a positive and a negative scale
	n := 0
	clear(s.start[:])
	width := buckets / (hi - lo)
	for i, a := range s.abs {
		if s.wx[i] == 0 {
			continue
		}
		k := int(min(float64(a*lo)+0.5, 8))
		p := float64(min(k, 7))
		q := float64(k)
		if s.x[i] < 0 {
			p, q = q, p
		}
		ap += float64(s.wx[i] * p)
		an += float64(s.wx[i] * q)
		bp += float64(s.w[i] * float64(p*p))
		bn += float64(s.w[i] * float64(q*q))
		for step := 1 / a; k < 8; k++ {
			at := (float64(k) + 0.5) * step
			if at > hi {
				break
			}
			key := math.Float32bits(float32(at))
			s.keys[n] = uint64(key)<<16 | uint64(k)<<8 | uint64(i)
			s.start[bucketOf(key, lo, width)+1]++
			n++
		}
	}
	s.try(ap, bp, false)
	s.try(an, bn, true)
	for _, e := range s.sorted(n, lo, width) {
		i, k := int(e&31), int(e>>8&15)
		wx, wk := s.wx[i], float64(s.w[i]*float64(2*k+1))
		last := k == 7
		if negative := s.x[i] < 0; !last || negative {
			ap += wx
			bp += wk
			s.try(ap, bp, false)
		}
		if !last || s.x[i] > 0 {
			an += wx
			bn += wk
			s.try(an, bn, true)
		}
	}
}

// span bounds s = 1/|d| for errors of at most limit.
func (s *scaleSearch) span(top int, limit float64) (lo, hi float64) {
	limit *= 1 + 1e-9 // more than rounding makes of it
	heavy, least := top, s.abs[top]
	for i, wx := range s.wx {
		if wx == 0 {
			continue
		}
		if float64(wx*s.abs[i]) > float64(s.wx[heavy]*s.abs[heavy]) {
			heavy = i
		}
		least = min(least, s.abs[i])
	}
	hi = min(8/least, 1<<25) // past the last event; smaller scales are 0 as halves
	for _, i := range [2]int{top, heavy} {
		if w := s.w[i]; w > 0 {
			if r := math.Sqrt(limit / w); r < s.abs[i] {
				hi = min(hi, 8/(s.abs[i]-r))
			}
		}
	}
	lo = min(8/s.abs[top], hi)
	for range 10 {
		lo *= 0.85
		var lost float64
		for i, a := range s.abs {
			if a*lo < 0.5 {
				lost += float64(s.wx[i] * a)
			}
		}
		if lost > limit {
			break
		}
	}
	return lo, hi
}

func bucketOf(key uint32, lo, width float64) int {
	at := float64(math.Float32frombits(key))
	return max(0, min(buckets-1, int((at-lo)*width)))
}

// sorted puts the first n keys in order.
func (s *scaleSearch) sorted(n int, lo, width float64) []uint64 {
	for i := range buckets {
		s.start[i+1] += s.start[i]
	}
	for _, k := range s.keys[:n] {
		b := bucketOf(uint32(k>>16), lo, width)
		s.order[s.start[b]] = k
		s.start[b]++
	}
	order := s.order[:n]
	for i := 1; i < n; i++ {
		k := order[i]
		j := i
		for ; j > 0 && order[j-1] > k; j-- {
			order[j] = order[j-1]
		}
		order[j] = k
	}
	return order
}

// nearest sets codes to the best ones for scale d.
func (s *scaleSearch) nearest(d float64) {
	if d == 0 {
		clear(s.codes[:])
		return
	}
	id := 1 / d
	for i, x := range s.x {
		s.codes[i] = int8(max(-8, min(7, math.Floor(float64(x*id)+0.5))))
	}
}

// finiteHalf rounds to the nearest half that is a number.
func finiteHalf(f float32) uint16 {
	h := F32ToF16(f)
	if h&0x7FFF == 0x7C00 {
		h--
	}
	return h
}
