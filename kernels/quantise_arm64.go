// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package kernels

func quantizeQ8(dst []byte, src []float32) {
	if useNEON && len(src) > 0 {
		quantizeQ8NEON(&dst[0], &src[0], len(src)/BlockLen)
		return
	}
	quantizeQ8Generic(dst, src)
}

func quantizeQ4(dst []byte, src []float32) {
	if useNEON && len(src) > 0 {
		quantizeQ4NEON(&dst[0], &src[0], len(src)/BlockLen)
		return
	}
	quantizeQ4Generic(dst, src)
}

//go:noescape
func quantizeQ8NEON(dst *byte, src *float32, blocks int)

//go:noescape
func quantizeQ4NEON(dst *byte, src *float32, blocks int)
