// SPDX-License-Identifier: Apache-2.0

package kernels

import "math"

// quantizeActsGeneric does len(d) blocks: x and q hold 32 values for each.
func quantizeActsGeneric(q []int8, d []float32, sum []int32, x []float32) {
	for b := range d {
		in := x[b*BlockLen:][:BlockLen]
		out := q[b*BlockLen:][:BlockLen]
		m := maxAbs(in)
		if m < 0x0D800000 || m >= 0x7F800000 { // under 2^-100, or not finite
			d[b], sum[b] = 0, 0
			if m >= 0x7F800000 {
				d[b] = math.Float32frombits(m)
			}
			clear(out)
			continue
		}
		d[b] = math.Float32frombits(m) / 127
		id := 1 / d[b]
		var s int32
		for i, v := range in {
			c := roundCode(float32(v * id))
			out[i] = c
			s += int32(c)
		}
		sum[b] = s
	}
}
