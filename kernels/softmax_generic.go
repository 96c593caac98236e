// SPDX-License-Identifier: Apache-2.0

package kernels

func softmaxGeneric(x []float32) {
	m := x[0]
	for _, v := range x {
		if v > m {
			m = v
		}
	}
	var l [lanes]float32
	for i, v := range x {
		e := Exp(v - m)
		x[i] = e
		l[i%lanes] += e
	}
	r := 1 / fold(&l)
	for i := range x {
		x[i] *= r
	}
}
