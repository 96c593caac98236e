// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"encoding/binary"
	"math"
)

func maxMagnitudeGeneric(x []float32) float32 { return math.Float32frombits(maxAbs(x)) }

func blockLossGeneric(blocks []byte, x []float32, l Layout) (out [3]float32) {
	var lost, all [lanes]float32
	size := l.BlockBytes()
	for len(x) > 0 {
		d := F16ToF32(binary.LittleEndian.Uint16(blocks))
		codes := blocks[2:size]
		for i, v := range x[:BlockLen] {
			var code int
			switch {
			case l == Q8Row:
				code = int(int8(codes[i]))
			case i < 16:
				code = int(codes[i]&15) - 8
			default:
				code = int(codes[i-16]>>4) - 8
			}
			gone := v - float32(d*float32(code))
			lost[i%lanes] += float32(gone * gone)
			all[i%lanes] += float32(v * v)
			out[2] = max(out[2], abs(gone))
		}
		x, blocks = x[BlockLen:], blocks[size:]
	}
	out[0], out[1] = fold(&lost), fold(&all)
	return out
}

func abs(v float32) float32 { return math.Float32frombits(math.Float32bits(v) &^ (1 << 31)) }
