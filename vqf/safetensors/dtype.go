// SPDX-License-Identifier: Apache-2.0

package safetensors

import (
	"encoding/binary"
	"errors"
	"math"
)

// ErrType matches errors about an element type whose values cannot be read.
var ErrType = errors.New("unsupported element type")

// dtypeBits is the size of one element of the types that the format defines; 0 for an
// unknown one.
func dtypeBits(name string) uint64 {
	switch name {
	case "F4":
		return 4
	case "F6_E2M3", "F6_E3M2":
		return 6
	case "BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ":
		return 8
	case "I16", "U16", "F16", "BF16":
		return 16
	case "I32", "U32", "F32":
		return 32
	case "F64", "I64", "U64", "C64":
		return 64
	}
	return 0
}

// decoder returns the widening of a type to float32, exact for every value,
// and its element size in bytes; nil for a type that is not read.
func decoder(name string) (decode func(dst []float32, src []byte), size uint64) {
	switch name {
	case "F32":
		return decodeF32, 4
	case "F16":
		return decodeF16, 2
	case "BF16":
		return decodeBF16, 2
	}
	return nil, 0
}

func decodeF32(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
	}
}

// decodeBF16 takes four values at a time: most models are stored so.
func decodeBF16(dst []float32, src []byte) {
	for len(dst) >= 4 {
		v := binary.LittleEndian.Uint64(src)
		d := dst[:4]
		d[0] = math.Float32frombits(uint32(v) << 16)
		d[1] = math.Float32frombits(uint32(v) &^ 0xffff)
		d[2] = math.Float32frombits(uint32(v>>32) << 16)
		d[3] = math.Float32frombits(uint32(v>>32) &^ 0xffff)
		dst, src = dst[4:], src[8:]
	}
	for i := range dst {
		dst[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(src[2*i:])) << 16)
	}
}

// decodeF16 moves the fields of a binary16 into a float32 and rescales by a
// power of two, which is exact for normal and subnormal values alike.
func decodeF16(dst []float32, src []byte) {
	for i := range dst {
		h := binary.LittleEndian.Uint16(src[2*i:])
		sign := uint32(h&0x8000) << 16
		if h&0x7c00 == 0x7c00 { // infinity or NaN
			dst[i] = math.Float32frombits(sign | 0x7f800000 | uint32(h&0x3ff)<<13)
			continue
		}
		dst[i] = math.Float32frombits(sign | math.Float32bits(math.Float32frombits(uint32(h&0x7fff)<<13)*0x1p112))
	}
}
