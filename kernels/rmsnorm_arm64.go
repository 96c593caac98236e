// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package kernels

func rmsNorm(dst, x, w []float32, eps float32) {
	n := len(x) &^ 3
	if !useNEON || n == 0 {
		rmsNormGeneric(dst, x, w, eps)
		return
	}
	r := rmsScale(dot(x, x), len(x), eps)
	rmsScaleNEON(&dst[0], &x[0], &w[0], r, n/4)
	for i := n; i < len(x); i++ {
		dst[i] = float32(float32(x[i]*r) * w[i])
	}
}

//go:noescape
func rmsScaleNEON(dst, x, w *float32, r float32, vectors int)
