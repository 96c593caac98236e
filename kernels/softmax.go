// SPDX-License-Identifier: Apache-2.0

package kernels

// Softmax replaces x by e^(x-m) * (1/sum), m the largest value: every
// exponential is stored, then summed in the lanes of [Dot], then multiplied by
// the rounded reciprocal of the sum. -Inf gives 0; with a NaN, or with nothing
// but -Inf, all become NaN. An empty x is left alone.
func Softmax(x []float32) {
	if len(x) == 0 {
		return
	}
	softmax(x)
}
