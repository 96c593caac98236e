// SPDX-License-Identifier: Apache-2.0

package kernels

func attnProductGeneric(p floatProduct) {
	var wide [lanes]float32
	for r := range p.rows {
		a := p.a[r*p.lda:][:p.k]
		for g := range p.groups {
			c := p.c[r*p.ldc+g*lanes:][:lanes]
			if !p.add {
				clear(c)
			}
			for k, x := range a {
				at := g*p.next + k*p.step
				b := wide[:]
				if p.half != nil {
					f16ToF32SliceGeneric(b, p.half[at:][:lanes])
				} else {
					b = p.b[at:][:lanes]
				}
				for j, y := range b {
					c[j] = fma32(x, y, c[j])
				}
			}
		}
	}
}

// attnWeightsGeneric replaces the scores x, a multiple of 16 filled up with -Inf,
// by their weights.
func attnWeightsGeneric(x []float32) (m, l float32) {
	m = x[0]
	for _, v := range x {
		if v > m {
			m = v
		}
	}
	var sum [lanes]float32
	for i, v := range x {
		e := Exp(v - m)
		x[i] = e
		sum[i%lanes] += e
	}
	return m, fold(&sum)
}

func attnMergeGeneric(o, block []float32, c, d float32) {
	for j, v := range block {
		o[j] = float32(o[j]*c) + float32(v*d)
	}
}

func attnScaleGeneric(dst, src []float32, c float32) {
	for i, v := range src {
		dst[i] = v * c
	}
}
