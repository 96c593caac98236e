// SPDX-License-Identifier: Apache-2.0

package kernels

import "fmt"

// RMSNorm computes dst[i] = (x[i]*r) * w[i] with r = 1/sqrt(ss/n + eps), where
// ss is the sum of squares in the order of [Dot]; division, root and reciprocal
// are correctly rounded float32 operations. dst may be x.
func RMSNorm(dst, x, w []float32, eps float32) {
	if len(dst) != len(x) || len(w) != len(x) {
		panic(fmt.Sprintf("kernels: RMSNorm: lengths %d, %d and %d", len(dst), len(x), len(w)))
	}
	if len(x) == 0 {
		return
	}
	rmsNorm(dst, x, w, eps)
}
