// SPDX-License-Identifier: Apache-2.0

package kernels

// Exps makes dst[i] = Exp((x[i]-top) / t): the probabilities of logits as shares
// of the best one's, at temperature t. dst may be x.
func Exps(dst, x []float32, top, t float32) {
	checkLen("Exps", len(dst), len(x))
	exps(dst, x, top, t)
}
