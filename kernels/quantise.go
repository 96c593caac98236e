// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"encoding/binary"
	"fmt"
	"math"
)

// QuantizeQ8 stores src as row-major Q8_0 blocks (docs/FORMAT.md section 7.2).
// len(src) is a multiple of 32, len(dst) is len(src)/32*34. Values must be
// finite.
func QuantizeQ8(dst []byte, src []float32) {
	checkBlocks("QuantizeQ8", dst, src, Q8BlockBytes)
	quantizeQ8(dst, src)
}

func quantizeQ8Generic(dst []byte, src []float32) {
	for b := range len(src) / BlockLen {
		x := src[b*BlockLen:][:BlockLen]
		q8Codes(dst[b*Q8BlockBytes:][:Q8BlockBytes], x, q8Scale(x))
	}
}

// QuantizeG256 stores src as row-major Q8_0 blocks with one scale for 256
// consecutive values (docs/FORMAT.md sections 6.9 and 7.3). Values after the
// last whole 256 are not stored: their blocks are zero bytes.
func QuantizeG256(dst []byte, src []float32) {
	n := checkBlocks("QuantizeG256", dst, src, Q8BlockBytes)
	const group = 8
	whole := n / group * group
	for g := 0; g < whole; g += group {
		s := q8Scale(src[g*BlockLen:][:group*BlockLen])
		for b := g; b < g+group; b++ {
			q8Codes(dst[b*Q8BlockBytes:][:Q8BlockBytes], src[b*BlockLen:][:BlockLen], s)
		}
	}
	clear(dst[whole*Q8BlockBytes:])
}

// QuantizeQ4 stores src as row-major Q4_0 blocks (docs/FORMAT.md section 7.4).
// len(src) is a multiple of 32, len(dst) is len(src)/32*18. Values must be
// finite.
func QuantizeQ4(dst []byte, src []float32) {
	checkBlocks("QuantizeQ4", dst, src, Q4BlockBytes)
	quantizeQ4(dst, src)
}

func quantizeQ4Generic(dst []byte, src []float32) {
	for b := range len(src) / BlockLen {
		out := dst[b*Q4BlockBytes:][:Q4BlockBytes]
		x := src[b*BlockLen:][:BlockLen]
		d := q4Scale(x)
		binary.LittleEndian.PutUint16(out, F32ToF16(d))
		id := 1 / d
		for j := range 16 {
			out[2+j] = q4Code(x[j], id) | q4Code(x[j+16], id)<<4
		}
	}
}

// QuantizeQ4I stores src as row-major 34-byte blocks that hold the Q4_0 codes
// less 8, one byte each (docs/FORMAT.md section 7.5).
func QuantizeQ4I(dst []byte, src []float32) {
	n := checkBlocks("QuantizeQ4I", dst, src, Q8BlockBytes)
	for b := range n {
		out := dst[b*Q8BlockBytes:][:Q8BlockBytes]
		x := src[b*BlockLen:][:BlockLen]
		d := q4Scale(x)
		binary.LittleEndian.PutUint16(out, F32ToF16(d))
		id := 1 / d
		for j, v := range x {
			out[2+j] = q4Code(v, id) - 8
		}
	}
}

func checkBlocks(op string, dst []byte, src []float32, size int) int {
	n := len(src) / BlockLen
	if n*BlockLen != len(src) || n*size != len(dst) {
		panic(fmt.Sprintf("kernels: %s: %d values into %d bytes, want whole blocks of %d values and %d bytes",
			op, len(src), len(dst), BlockLen, size))
	}
	return n
}

// maxAbs has the bits of the largest magnitude: they order as the magnitudes do,
// with infinity and then NaN on top.
func maxAbs(x []float32) uint32 {
	var m uint32
	for _, v := range x {
		m = max(m, math.Float32bits(v)&0x7FFFFFFF)
	}
	return m
}

// q8Scale is the unrounded scale of x: steps 1 and 2 of section 7.2.
func q8Scale(x []float32) float32 {
	m := max(maxAbs(x), math.Float32bits(1e-10))
	return max(math.Float32frombits(m)/127, 1e-10)
}

func q8Codes(out []byte, x []float32, s float32) {
	binary.LittleEndian.PutUint16(out, F32ToF16(s))
	r := 1 / s
	for i, v := range x {
		out[2+i] = byte(roundCode(float32(v * r)))
	}
}

// roundCode rounds half away from zero, the addition in float32. The callers
// divide by a scale of at least max/127, so that |v| is at most 127.00003 and no
// code needs to be clamped to +-127. A NaN, which converts to 0 or to the smallest
// int32, gives 0.
func roundCode(v float32) int8 {
	const half, sign = 0x3F000000, 1 << 31
	return int8(int32(v + math.Float32frombits(math.Float32bits(v)&sign|half)))
}

// q4Scale is step 2 of section 7.4: the first element of the largest magnitude
// decides, with its sign.
func q4Scale(x []float32) float32 {
	m := maxAbs(x)
	for _, v := range x {
		if math.Float32bits(v)&0x7FFFFFFF == m {
			if d := v / -8; d != 0 {
				return d
			}
			break
		}
	}
	return 1
}

func q4Code(v, id float32) byte {
	t := float32(v*id) + 8.5
	switch {
	case t >= 15:
		return 15
	case t > 0:
		return byte(t)
	}
	return 0
}
