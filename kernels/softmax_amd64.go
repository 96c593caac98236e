// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package kernels

func softmax(x []float32) {
	if useAVX2 {
		softmaxAVX2(&x[0], len(x))
		return
	}
	softmaxGeneric(x)
}

//go:noescape
func softmaxAVX2(x *float32, n int)
