// SPDX-License-Identifier: Apache-2.0

package kernels

// peakOnes keeps the compiler from knowing the values.
var peakOnes = [4]int8{1, 1, 1, 1}

func peakInt8Generic(steps int) int64 {
	x0, x1, x2, x3 := int32(peakOnes[0]), int32(peakOnes[1]), int32(peakOnes[2]), int32(peakOnes[3])
	var a, b, c, d int32
	for range steps {
		a += x0 * x1
		b += x1 * x2
		c += x2 * x3
		d += x3 * x0
	}
	return int64(a) + int64(b) + int64(c) + int64(d)
}

func peakF32Generic(steps int) int64 {
	x0, x1, x2, x3 := float32(peakOnes[0]), float32(peakOnes[1]), float32(peakOnes[2]), float32(peakOnes[3])
	var a, b, c, d float32
	for range steps {
		a = float32(x0*x1) + a
		b = float32(x1*x2) + b
		c = float32(x2*x3) + c
		d = float32(x3*x0) + d
	}
	return int64(a) + int64(b) + int64(c) + int64(d)
}
