// SPDX-License-Identifier: Apache-2.0

package kernels

import "math"

func rmsNormGeneric(dst, x, w []float32, eps float32) {
	r := rmsScale(dotGeneric(x, x), len(x), eps)
	for i, v := range x {
		dst[i] = float32(float32(v*r) * w[i])
	}
}

// rmsScale is 1/sqrt(ss/n + eps). The float64 root of a float32, rounded to
// float32, is the correctly rounded float32 root.
func rmsScale(ss float32, n int, eps float32) float32 {
	mean := float32(ss / float32(n))
	return 1 / float32(math.Sqrt(float64(mean+eps)))
}
