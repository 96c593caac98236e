// SPDX-License-Identifier: Apache-2.0

package kernels

// lanes is the width of the defined summation order.
const lanes = 16

func dotGeneric(a, b []float32) float32 {
	var l [lanes]float32
	for len(a) >= lanes && len(b) >= lanes {
		x, y := (*[lanes]float32)(a), (*[lanes]float32)(b)
		for j := range lanes {
			l[j] += float32(x[j] * y[j])
		}
		a, b = a[lanes:], b[lanes:]
	}
	for j := range a {
		l[j] += float32(a[j] * b[j])
	}
	return fold(&l)
}

// fold sums the lanes in their defined order.
func fold(l *[lanes]float32) float32 {
	for w := lanes / 2; w > 0; w /= 2 {
		for j := range w {
			l[j] += l[j+w]
		}
	}
	return l[0]
}
