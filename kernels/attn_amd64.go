// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package kernels

// attnDirect is how many rows read a cache in binary16 directly, rather than
// after all of it was converted: the conversion is repeated every few rows.
const attnDirect = 8

func attnProduct(p floatProduct) {
	g := 0
	switch {
	case !useAVX2:
		attnProductGeneric(p)
		return
	case p.half != nil && useAVX512:
		for ; g+4 <= p.groups; g += 4 {
			attnProduct4F16AVX512(&p.c[g*lanes], &p.a[0], &p.half[g*p.next], 4*p.ldc, 4*p.lda, 2*p.step, 2*p.next, p.rows, p.k, p.add)
		}
	case useAVX512:
		for ; g+4 <= p.groups; g += 4 {
			attnProduct4AVX512(&p.c[g*lanes], &p.a[0], &p.b[g*p.next], 4*p.ldc, 4*p.lda, 4*p.step, 4*p.next, p.rows, p.k, p.add)
		}
	}
	if p.half == nil {
		for ; g < p.groups; g++ {
			attnProduct1AVX2(&p.c[g*lanes], &p.a[0], &p.b[g*p.next], 4*p.ldc, 4*p.lda, 4*p.step, p.rows, p.k, p.add)
		}
		return
	}
	for ; g+2 <= p.groups; g += 2 {
		for r := 0; r < p.rows; r += 3 {
			attnProduct2F16AVX2(&p.c[r*p.ldc+g*lanes], &p.a[r*p.lda], &p.half[g*p.next], 4*p.ldc, 4*p.lda, 2*p.step, 2*p.next,
				min(p.rows-r, 3), p.k, p.add)
		}
	}
	if g < p.groups {
		attnProduct1F16AVX2(&p.c[g*lanes], &p.a[0], &p.half[g*p.next], 4*p.ldc, 4*p.lda, 2*p.step, p.rows, p.k, p.add)
	}
}

func attnWeights(x []float32) (m, l float32) {
	switch {
	case useAVX512:
		return attnWeightsAVX512(&x[0], len(x)/lanes)
	case useAVX2:
		return attnWeightsAVX2(&x[0], len(x)/lanes)
	}
	return attnWeightsGeneric(x)
}

func attnMerge(o, block []float32, c, d float32) {
	if useAVX2 {
		attnMergeAVX2(&o[0], &block[0], len(block)/lanes, c, d)
		return
	}
	attnMergeGeneric(o, block, c, d)
}

//go:noescape
func attnProduct4AVX512(c, a, b *float32, ldc, lda, step, next, rows, k int, add bool)

//go:noescape
func attnProduct1AVX2(c, a, b *float32, ldc, lda, step, rows, k int, add bool)

//go:noescape
func attnProduct4F16AVX512(c, a *float32, b *uint16, ldc, lda, step, next, rows, k int, add bool)

//go:noescape
func attnProduct2F16AVX2(c, a *float32, b *uint16, ldc, lda, step, next, rows, k int, add bool)

//go:noescape
func attnProduct1F16AVX2(c, a *float32, b *uint16, ldc, lda, step, rows, k int, add bool)

//go:noescape
func attnWeightsAVX512(x *float32, groups int) (m, l float32)

//go:noescape
func attnWeightsAVX2(x *float32, groups int) (m, l float32)

//go:noescape
func attnMergeAVX2(o, block *float32, groups int, c, d float32)
