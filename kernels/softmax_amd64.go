// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package kernels

func softmax(x []float32) {
	switch {
	case useAVX512:
		softmaxAVX512(&x[0], len(x))
	case useAVX2:
		softmaxAVX2(&x[0], len(x))
	default:
		softmaxGeneric(x)
	}
}

//go:noescape
func softmaxAVX2(x *float32, n int)

//go:noescape
func softmaxAVX512(x *float32, n int)
