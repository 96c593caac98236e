// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package kernels

func rmsNorm(dst, x, w []float32, eps float32) {
	if useAVX2 {
		r := rmsScale(dotAVX2(&x[0], &x[0], len(x)), len(x), eps)
		scaleAVX2(&dst[0], &x[0], &w[0], len(x), r)
		return
	}
	rmsNormGeneric(dst, x, w, eps)
}

//go:noescape
func scaleAVX2(dst, x, w *float32, n int, r float32)
