// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package kernels

import "math"

func softmax(x []float32) {
	if !useNEON {
		softmaxGeneric(x)
		return
	}
	n := len(x) / lanes
	body, rest := x[:n*lanes], x[n*lanes:]
	// -Inf behind the rest changes neither the maximum nor, as +0, the sum.
	var tail [lanes]float32
	for i := copy(tail[:], rest); i < lanes; i++ {
		tail[i] = float32(math.Inf(-1))
	}
	m := maxNEON(&tail[0], 1)
	if n > 0 {
		if v := maxNEON(&body[0], n); v > m || v != v {
			m = v
		}
	}
	var l [lanes]float32
	if n > 0 {
		expSumNEON(&l, &body[0], n, m)
	}
	expSumNEON(&l, &tail[0], 1, m)
	r := 1 / fold(&l)
	if n > 0 {
		scaleNEON(&body[0], n, r)
	}
	scaleNEON(&tail[0], 1, r)
	copy(rest, tail[:])
}

//go:noescape
func maxNEON(x *float32, blocks int) float32

//go:noescape
func expSumNEON(l *[lanes]float32, x *float32, blocks int, m float32)

//go:noescape
func scaleNEON(x *float32, blocks int, r float32)
