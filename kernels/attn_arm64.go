// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package kernels

// attnDirect is how many rows read a cache in binary16 directly, rather than
// after all of it was converted: the conversion is repeated every four rows.
const attnDirect = 4

func attnProduct(p floatProduct) {
	if !useNEON {
		attnProductGeneric(p)
		return
	}
	for g := range p.groups {
		if p.half != nil {
			attnProductF16NEON(&p.c[g*lanes], &p.a[0], &p.half[g*p.next], 4*p.ldc, 4*p.lda, 2*p.step, p.rows, p.k, p.add)
		} else {
			attnProductNEON(&p.c[g*lanes], &p.a[0], &p.b[g*p.next], 4*p.ldc, 4*p.lda, 4*p.step, p.rows, p.k, p.add)
		}
	}
}

// attnReadsInt8: there is no product with codes as they are.
func attnReadsInt8(int, int) bool { return false }

func attnKeysInt8(floatProduct, []float32, []byte) { panic("kernels: internal error: keys in int8") }

func attnValuesInt8(floatProduct, []float32, []byte) {
	panic("kernels: internal error: values in int8")
}

func attnWeights(x []float32) (m, l float32) {
	if !useNEON {
		return attnWeightsGeneric(x)
	}
	n := len(x) / lanes
	m = maxNEON(&x[0], n)
	var sum [lanes]float32
	expSumNEON(&sum, &x[0], n, m)
	return m, fold(&sum)
}

// attnScale is dst = src*c.
func attnScale(dst, src []float32, c float32) {
	n := 0
	if useNEON && len(src) >= 8 {
		n = len(src) &^ 7
		attnScaleNEON(&dst[0], &src[0], n/8, c)
	}
	attnScaleGeneric(dst[n:], src[n:], c)
}

func attnMerge(o, block []float32, c, d float32) {
	if !useNEON {
		attnMergeGeneric(o, block, c, d)
		return
	}
	attnMergeNEON(&o[0], &block[0], len(block)/lanes, c, d)
}

//go:noescape
func attnProductNEON(c, a, b *float32, ldc, lda, step, rows, k int, add bool)

//go:noescape
func attnProductF16NEON(c, a *float32, b *uint16, ldc, lda, step, rows, k int, add bool)

//go:noescape
func maxNEON(x *float32, blocks int) float32

//go:noescape
func expSumNEON(l *[lanes]float32, x *float32, blocks int, m float32)

//go:noescape
func attnScaleNEON(dst, src *float32, blocks int, c float32)

//go:noescape
func attnMergeNEON(o, block *float32, groups int, c, d float32)
