// SPDX-License-Identifier: Apache-2.0

package gguf

import (
	"encoding/binary"
	"math"
)

// Super-blocks of 256 values. The integer parts are small enough to be exact
// in float32, so only the products and sums written out below round.

// decodeQ2K: 16 bytes of scale (low nibble) and minimum (high nibble) for 16
// values each, 64 bytes of 2-bit codes, then d and dmin.
func decodeQ2K(dst []float32, src []byte) {
	for len(dst) >= 256 {
		scales, codes := src[:16], src[16:80]
		d, dmin := half(src[80:]), half(src[82:])
		y := dst[:256]
		s := 0
		for half := 0; half < 2; half++ { // 128 values from 32 bytes
			q := codes[32*half : 32*half+32]
			for shift := 0; shift < 8; shift += 2 {
				for part := 0; part < 2; part++ {
					dl := d * float32(scales[s]&15)
					ml := dmin * float32(scales[s]>>4)
					s++
					for j, b := range q[16*part : 16*part+16] {
						y[j] = float32(dl*float32(b>>shift&3)) - ml
					}
					y = y[16:]
				}
			}
		}
		dst, src = dst[256:], src[84:]
	}
}

// decodeQ3K: 32 bytes of high bits (set: nothing is taken off, clear: 4 is),
// 64 bytes of 2-bit codes, 12 bytes holding sixteen 6-bit scales, then d.
func decodeQ3K(dst []float32, src []byte) {
	for len(dst) >= 256 {
		high, codes, d := src[:32], src[32:96], half(src[108:])
		scales := scalesQ3(src[96:108])
		y := dst[:256]
		s, bit := 0, byte(1)
		for half := 0; half < 2; half++ {
			q := codes[32*half : 32*half+32]
			for shift := 0; shift < 8; shift += 2 {
				for part := 0; part < 2; part++ {
					dl := d * float32(int(scales[s])-32)
					s++
					h := high[16*part : 16*part+16]
					for j, b := range q[16*part : 16*part+16] {
						c := int(b >> shift & 3)
						if h[j]&bit == 0 {
							c -= 4
						}
						y[j] = dl * float32(c)
					}
					y = y[16:]
				}
				bit <<= 1
			}
		}
		dst, src = dst[256:], src[110:]
	}
}

// scalesQ3 unpacks sixteen 6-bit scales: low nibbles in bytes 0-7, the two
// upper bits of scale i in bits 2·(i/4) of byte 8 + i%4.
func scalesQ3(b []byte) (s [16]byte) {
	for i := range s {
		low := b[i%8] & 15
		if i >= 8 {
			low = b[i-8] >> 4
		}
		s[i] = low | b[8+i%4]>>(2*(i/4))&3<<4
	}
	return s
}

// scaleMin unpacks the j-th 6-bit scale and minimum of the 12 bytes that Q4_K
// and Q5K share.
func scaleMin(j int, b []byte) (scale, minimum byte) {
	if j < 4 {
		return b[j] & 63, b[j+4] & 63
	}
	return b[j+4]&15 | b[j-4]>>6<<4, b[j+4]>>4 | b[j]>>6<<4
}

// decodeQ4K: d, dmin, 12 bytes of scales and minima, 128 bytes of nibbles;
// 32 bytes give 32 values by their low and the next 32 by their high nibbles.
func decodeQ4K(dst []float32, src []byte) {
	for len(dst) >= 256 {
		d, dmin, scales, codes := half(src), half(src[2:]), src[4:16], src[16:144]
		for g := 0; g < 4; g++ {
			s1, m1 := scaleMin(2*g, scales)
			s2, m2 := scaleMin(2*g+1, scales)
			d1, min1 := d*float32(s1), dmin*float32(m1)
			d2, min2 := d*float32(s2), dmin*float32(m2)
			y := dst[64*g : 64*g+64]
			for j, b := range codes[32*g : 32*g+32] {
				y[j] = float32(d1*float32(b&15)) - min1
				y[j+32] = float32(d2*float32(b>>4)) - min2
			}
		}
		dst, src = dst[256:], src[144:]
	}
}

// decodeQ5K is Q4K with 32 bytes of fifth bits before the nibbles: bit
// 2·g of byte j for the low, 2·g+1 for the high nibbles of group g.
func decodeQ5K(dst []float32, src []byte) {
	for len(dst) >= 256 {
		d, dmin, scales, high, codes := half(src), half(src[2:]), src[4:16], src[16:48], src[48:176]
		for g := 0; g < 4; g++ {
			s1, m1 := scaleMin(2*g, scales)
			s2, m2 := scaleMin(2*g+1, scales)
			d1, min1 := d*float32(s1), dmin*float32(m1)
			d2, min2 := d*float32(s2), dmin*float32(m2)
			y := dst[64*g : 64*g+64]
			for j, b := range codes[32*g : 32*g+32] {
				lo := b&15 | high[j]>>(2*g)&1<<4
				hi := b>>4 | high[j]>>(2*g+1)&1<<4
				y[j] = float32(d1*float32(lo)) - min1
				y[j+32] = float32(d2*float32(hi)) - min2
			}
		}
		dst, src = dst[256:], src[176:]
	}
}

// decodeQ6K: 128 bytes of low nibbles, 64 bytes of upper bit pairs, 16 signed
// scales, then d. Codes are 6 bits less 32.
func decodeQ6K(dst []float32, src []byte) {
	for len(dst) >= 256 {
		d := half(src[208:])
		for g := 0; g < 2; g++ { // 128 values each
			low, high, scales := src[64*g:64*g+64], src[128+32*g:160+32*g], src[192+8*g:200+8*g]
			y := dst[128*g : 128*g+128]
			for j := 0; j < 32; j++ {
				h, s := high[j], j/16
				q1 := int(low[j]&15|h&3<<4) - 32
				q2 := int(low[j+32]&15|h>>2&3<<4) - 32
				q3 := int(low[j]>>4|h>>4&3<<4) - 32
				q4 := int(low[j+32]>>4|h>>6<<4) - 32
				y[j] = float32(d*float32(int8(scales[s]))) * float32(q1)
				y[j+32] = float32(d*float32(int8(scales[s+2]))) * float32(q2)
				y[j+64] = float32(d*float32(int8(scales[s+4]))) * float32(q3)
				y[j+96] = float32(d*float32(int8(scales[s+6]))) * float32(q4)
			}
		}
		dst, src = dst[256:], src[210:]
	}
}

// decodeQ8K: a float32 scale, 256 signed bytes, and 16 sums that only dot
// products use: 292 bytes.
func decodeQ8K(dst []float32, src []byte) {
	for len(dst) >= 256 {
		d := math.Float32frombits(binary.LittleEndian.Uint32(src))
		y := dst[:256]
		for j, b := range src[4:260] {
			y[j] = d * float32(int8(b))
		}
		dst, src = dst[256:], src[292:]
	}
}
