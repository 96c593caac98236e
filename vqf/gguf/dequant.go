// SPDX-License-Identifier: Apache-2.0

package gguf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// ErrType matches errors about a tensor type whose values cannot be read.
var ErrType = errors.New("unsupported tensor type")

// Dequantize turns whole blocks of type t into float32 values, bit for bit as
// ggml's reference code: every product and every sum is rounded to float32 on
// its own, none is fused. len(src) must be the bytes of len(dst)/block blocks.
func Dequantize(dst []float32, src []byte, t Type) error {
	i, ok := t.info()
	if !ok || i.decode == nil {
		return fmt.Errorf("gguf: %w %s", ErrType, t)
	}
	n := uint64(len(dst)) / i.elements
	if n*i.elements != uint64(len(dst)) || n*i.bytes != uint64(len(src)) {
		return fmt.Errorf("gguf: %s: %d values do not take %d bytes", t, len(dst), len(src))
	}
	i.decode(dst, src)
	return nil
}

// f16 widens a binary16 exactly. Finite values, subnormals included, are
// moved into float32's fields and rescaled by a power of two, which is exact;
// infinities and NaNs keep their payload.
func f16(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	if h&0x7c00 == 0x7c00 {
		return math.Float32frombits(sign | 0x7f800000 | uint32(h&0x3ff)<<13)
	}
	return math.Float32frombits(sign | math.Float32bits(math.Float32frombits(uint32(h&0x7fff)<<13)*0x1p112))
}

func half(b []byte) float32 { return f16(binary.LittleEndian.Uint16(b)) }

func decodeF32(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
	}
}

func decodeF16(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = half(src[2*i:])
	}
}

func decodeBF16(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(src[2*i:])) << 16)
	}
}

// Blocks of 32 values: a nibble byte j holds element j (low) and j+16 (high).

func decodeQ4_0(dst []float32, src []byte) {
	for len(dst) >= 32 {
		d, q, y := half(src), src[2:18], dst[:32]
		for j, b := range q {
			y[j] = float32(int(b&15)-8) * d
			y[j+16] = float32(int(b>>4)-8) * d
		}
		dst, src = dst[32:], src[18:]
	}
}

func decodeQ4_1(dst []float32, src []byte) {
	for len(dst) >= 32 {
		d, m, q, y := half(src), half(src[2:]), src[4:20], dst[:32]
		for j, b := range q {
			y[j] = float32(float32(b&15)*d) + m
			y[j+16] = float32(float32(b>>4)*d) + m
		}
		dst, src = dst[32:], src[20:]
	}
}

// In Q5_0 and Q5_1 bit i of the 32-bit word qh is the fifth bit of element i.

func decodeQ5_0(dst []float32, src []byte) {
	for len(dst) >= 32 {
		d, qh, q, y := half(src), binary.LittleEndian.Uint32(src[2:]), src[6:22], dst[:32]
		for j, b := range q {
			lo := uint32(b&15) | qh>>j&1<<4
			hi := uint32(b>>4) | qh>>(j+16)&1<<4
			y[j] = float32(int32(lo)-16) * d
			y[j+16] = float32(int32(hi)-16) * d
		}
		dst, src = dst[32:], src[22:]
	}
}

func decodeQ5_1(dst []float32, src []byte) {
	for len(dst) >= 32 {
		d, m, qh, q, y := half(src), half(src[2:]), binary.LittleEndian.Uint32(src[4:]), src[8:24], dst[:32]
		for j, b := range q {
			lo := uint32(b&15) | qh>>j&1<<4
			hi := uint32(b>>4) | qh>>(j+16)&1<<4
			y[j] = float32(float32(lo)*d) + m
			y[j+16] = float32(float32(hi)*d) + m
		}
		dst, src = dst[32:], src[24:]
	}
}

func decodeQ8_0(dst []float32, src []byte) {
	for len(dst) >= 32 {
		d, q, y := half(src), src[2:34], dst[:32]
		for j, b := range q {
			y[j] = float32(int8(b)) * d
		}
		dst, src = dst[32:], src[34:]
	}
}
