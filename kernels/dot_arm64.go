// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package kernels

import "unsafe"

func dot(a, b []float32) float32 {
	if !useNEON {
		return dotGeneric(a, b)
	}
	n := len(a) / lanes
	b = b[:len(a)]
	if len(a) == n*lanes {
		return dotNEON(unsafe.SliceData(a), unsafe.SliceData(b), n, nil)
	}
	var tail [2 * lanes]float32 // what is left of a and of b, then zeros
	copy(tail[:lanes], a[n*lanes:])
	copy(tail[lanes:], b[n*lanes:])
	return dotNEON(unsafe.SliceData(a), unsafe.SliceData(b), n, &tail[0])
}

//go:noescape
func dotNEON(a, b *float32, blocks int, tail *float32) float32
