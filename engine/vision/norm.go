// SPDX-License-Identifier: Apache-2.0

package vision

import (
	"math"

	"windhover/kernels"
)

// The tower's functions that the text model has not. Like the kernels they are
// defined by their steps, each rounded to float32; what they call is in
// assembly where it costs.

// layerNorm leaves (x - mean) / sqrt(variance + eps) * w + b in dst: the sums
// are kernels.Dot, of x and ones and of the differences d with themselves;
//
//	r = 1/sqrt(sum(d*d)/n + eps); dst = (d*r)*w + b
//
// ones holds as many ones as x has values. dst may be x.
func layerNorm(dst, x, w, b, ones []float32, eps float32) {
	n := float32(len(x))
	mean := kernels.Dot(x, ones[:len(x)]) / n
	dst = dst[:len(x)]
	for i, v := range x {
		dst[i] = v - mean
	}
	r := float32(1 / float32(math.Sqrt(float64(kernels.Dot(dst, dst)/n+eps))))
	w, b = w[:len(dst)], b[:len(dst)]
	for i, d := range dst {
		dst[i] = float32(float32(d*r)*w[i]) + b[i]
	}
}

// Constants of the tanh form of GELU: 2*sqrt(2/pi), and the weight of the cube.
const (
	geluScale = 1.5957691216057308
	geluCube  = 0.044715
)

// geluTanh replaces x by x/2 * (1 + tanh(sqrt(2/pi)*(x + 0.044715*x^3))), which
// is x * sigmoid(g) with g = x*a and
//
//	a = 2*sqrt(2/pi) * (0.044715*(x*x) + 1)
//
// by kernels.SiluMul of g and 1/a, so for |x| under 2^60. gate and up are
// scratch of the length of x.
func geluTanh(x, gate, up []float32) {
	gate, up = gate[:len(x)], up[:len(x)]
	for i, v := range x {
		a := float32(geluScale * float32(float32(geluCube*float32(v*v))+1))
		gate[i] = v * a
		up[i] = 1 / a
	}
	kernels.SiluMul(x, gate, up)
}

// The approximation of erf in Abramowitz and Stegun, 7.1.26: within 1.5e-7.
const (
	erfP  = 0.3275911
	erfA1 = 0.254829592
	erfA2 = -0.284496736
	erfA3 = 1.421413741
	erfA4 = -1.453152027
	erfA5 = 1.061405429
)

// gelu is x/2 * (1 + erf(x/sqrt(2))): with z = |x|/sqrt(2) and t = 1/(1+p*z)
//
//	half = ((((A5*t + A4)*t + A3)*t + A2)*t + A1)*t * Exp(-(z*z)) * 0.5
//
// it is x*half for negative x, else x - x*half.
func gelu(x float32) float32 {
	z := float32(math.Abs(float64(x))) * float32(math.Sqrt2/2)
	t := 1 / (float32(erfP*z) + 1)
	p := float32(erfA5*t) + erfA4
	p = float32(p*t) + erfA3
	p = float32(p*t) + erfA2
	p = float32(p*t) + erfA1
	half := float32(float32(float32(p*t)*kernels.Exp(-float32(z*z))) * 0.5)
	if x < 0 {
		return x * half
	}
	return x - float32(x*half)
}
