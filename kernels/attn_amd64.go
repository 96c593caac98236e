// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package kernels

// attnDirect is how many rows read a cache in binary16 directly, rather than
// after all of it was converted: the conversion is repeated every few rows.
const attnDirect = 8

func attnProduct(p floatProduct) {
	if !useAVX2 {
		attnProductGeneric(p)
		return
	}
	if p.half != nil {
		attnProductF16(p)
		return
	}
	g := 0
	for ; useAVX512 && g+4 <= p.groups; g += 4 {
		attnProduct4AVX512(&p.c[g*lanes], &p.a[0], &p.b[g*p.next], 4*p.ldc, 4*p.lda, 4*p.step, 4*p.next, p.rows, p.k, p.add)
	}
	for ; g < p.groups; g++ {
		attnProduct1AVX2(&p.c[g*lanes], &p.a[0], &p.b[g*p.next], 4*p.ldc, 4*p.lda, 4*p.step, p.rows, p.k, p.add)
	}
}

func attnProductF16(p floatProduct) {
	g := 0
	if useAVX512 {
		for ; p.rows <= 3 && p.next == lanes && g+8 <= p.groups; g += 8 {
			attnProduct8F16AVX512(&p.c[g*lanes], &p.a[0], &p.half[g*lanes], 4*p.ldc, 4*p.lda, 2*p.step, p.rows, p.k, p.add, p.ahead(g, 8, 2))
		}
		for ; g+4 <= p.groups; g += 4 {
			attnProduct4F16AVX512(&p.c[g*lanes], &p.a[0], &p.half[g*p.next], 4*p.ldc, 4*p.lda, 2*p.step, 2*p.next, p.rows, p.k, p.add,
				p.ahead(g, 4, 2))
		}
	}
	for ; g+2 <= p.groups; g += 2 {
		ahead := p.ahead(g, 2, 2)
		for r := 0; r < p.rows; r += 3 {
			attnProduct2F16AVX2(&p.c[r*p.ldc+g*lanes], &p.a[r*p.lda], &p.half[g*p.next], 4*p.ldc, 4*p.lda, 2*p.step, 2*p.next,
				min(p.rows-r, 3), p.k, p.add, ahead)
			ahead = 0
		}
	}
	if g < p.groups {
		attnProduct1F16AVX2(&p.c[g*lanes], &p.a[0], &p.half[g*p.next], 4*p.ldc, 4*p.lda, 2*p.step, p.rows, p.k, p.add)
	}
}

// ahead is how far from its own columns n groups, of elements of some bytes,
// fetch while they are computed. Who reads whole steps of few rows is as fast as
// memory, goes straight on in it, and leaves that to the processor. Else memory
// would wait, and parts of steps are no stream: each fetches a part of what comes
// after the product, in the order of memory.
func (p *floatProduct) ahead(group, n, size int) int {
	if p.next != lanes || n >= p.groups && p.rows <= 2 {
		return fetchAhead
	}
	return size * (p.k*p.step + group*lanes*(p.k-1))
}

// attnReadsInt8 tells whether a product reads int8 directly: few rows, and
// columns by 32.
func attnReadsInt8(rows, groups int) bool { return useAVX2 && rows <= attnDirect && groups%2 == 0 }

// attnKeysInt8 is attnProduct with a group of keys in int8.
func attnKeysInt8(p floatProduct, scales []float32, codes []byte) {
	if useAVX512 {
		ahead := p.aheadInt8(0, 4, scales)
		for r := 0; r < p.rows; r += 4 {
			attnKeysInt8AVX512(&p.c[r*p.ldc], &p.a[r*p.lda], &codes[0], 4*p.ldc, 4*p.lda, min(p.rows-r, 4), p.k, &scales[0], ahead)
			ahead = 0
		}
		return
	}
	for g := 0; g < p.groups; g += 2 {
		ahead := p.aheadInt8(g, 2, scales)
		for r := 0; r < p.rows; r += 3 {
			attnKeysInt8AVX2(&p.c[r*p.ldc+g*lanes], &p.a[r*p.lda], &codes[g*lanes], 4*p.ldc, 4*p.lda, min(p.rows-r, 3), p.k, &scales[g*lanes], ahead)
			ahead = 0
		}
	}
}

// attnValuesInt8 is attnProduct with values in int8.
func attnValuesInt8(p floatProduct, scales []float32, codes []byte) {
	next, g := 4*kvBlocks(p.groups*lanes), 0
	if useAVX512 {
		for ; p.rows <= 3 && g+8 <= p.groups; g += 8 {
			attnValuesInt8x8AVX512(&p.c[g*lanes], &p.a[0], &codes[g*lanes], 4*p.ldc, 4*p.lda, p.step, p.rows, p.k, p.add,
				&scales[g/2], next, p.aheadInt8(g, 8, scales))
		}
		for ; g+4 <= p.groups; g += 4 {
			attnValuesInt8AVX512(&p.c[g*lanes], &p.a[0], &codes[g*lanes], 4*p.ldc, 4*p.lda, p.step, p.rows, p.k, p.add,
				&scales[g/2], next, p.aheadInt8(g, 4, scales))
		}
	}
	for ; g < p.groups; g += 2 {
		ahead := p.aheadInt8(g, 2, scales)
		for r := 0; r < p.rows; r += 3 {
			attnValuesInt8AVX2(&p.c[r*p.ldc+g*lanes], &p.a[r*p.lda], &codes[g*lanes], 4*p.ldc, 4*p.lda, p.step, min(p.rows-r, 3), p.k, p.add,
				&scales[g/2], next, ahead)
			ahead = 0
		}
	}
}

// aheadInt8 is ahead for n groups in int8, with the scales of the next after them.
func (p *floatProduct) aheadInt8(group, n int, scales []float32) int {
	if n >= p.groups && p.rows <= 3 {
		return fetchAhead
	}
	return p.k*p.step + 2*len(scales) + group*lanes*(p.k-1)
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

// attnScale is dst = src*c.
func attnScale(dst, src []float32, c float32) {
	n := 0
	if useAVX2 && len(src) >= 8 {
		n = len(src) &^ 7
		attnScaleAVX2(&dst[0], &src[0], n/8, c)
	}
	attnScaleGeneric(dst[n:], src[n:], c)
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
func attnProduct4F16AVX512(c, a *float32, b *uint16, ldc, lda, step, next, rows, k int, add bool, ahead int)

//go:noescape
func attnProduct2F16AVX2(c, a *float32, b *uint16, ldc, lda, step, next, rows, k int, add bool, ahead int)

//go:noescape
func attnProduct1F16AVX2(c, a *float32, b *uint16, ldc, lda, step, rows, k int, add bool)

//go:noescape
func attnProduct8F16AVX512(c, a *float32, b *uint16, ldc, lda, step, rows, k int, add bool, ahead int)

//go:noescape
func attnKeysInt8AVX512(c, a *float32, b *byte, ldc, lda, rows, k int, scales *float32, ahead int)

//go:noescape
func attnValuesInt8AVX512(c, a *float32, b *byte, ldc, lda, step, rows, k int, add bool, scales *float32, next, ahead int)

//go:noescape
func attnValuesInt8x8AVX512(c, a *float32, b *byte, ldc, lda, step, rows, k int, add bool, scales *float32, next, ahead int)

//go:noescape
func attnKeysInt8AVX2(c, a *float32, b *byte, ldc, lda, rows, k int, scales *float32, ahead int)

//go:noescape
func attnValuesInt8AVX2(c, a *float32, b *byte, ldc, lda, step, rows, k int, add bool, scales *float32, next, ahead int)

//go:noescape
func attnWeightsAVX512(x *float32, groups int) (m, l float32)

//go:noescape
func attnWeightsAVX2(x *float32, groups int) (m, l float32)

//go:noescape
func attnScaleAVX2(dst, src *float32, blocks int, c float32)

//go:noescape
func attnMergeAVX2(o, block *float32, groups int, c, d float32)
