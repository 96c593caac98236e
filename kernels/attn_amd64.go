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

// attnReadsInt8 tells whether a product reads int8 directly: few rows, and
// columns by 64.
func attnReadsInt8(rows, groups int) bool { return useAVX512 && rows <= 5 && groups%4 == 0 }

// attnKeysInt8 is attnProduct with groups of keys in int8.
func attnKeysInt8(p floatProduct, keys []byte) {
	size := KVInt8.GroupBytes(p.k)
	for g := 0; g < p.groups; g += 4 {
		scales, codes := kvParts(keys[g*size:], p.k)
		for j := 0; j < p.k; j += BlockLen {
			attnKeysInt8AVX512(&p.c[g*lanes], &p.a[j], &codes[j*KVGroup], 4*p.ldc, 4*p.lda, KVGroup, size, p.rows, min(p.k-j, BlockLen), j > 0,
				&scales[j/BlockLen*KVGroup])
		}
	}
}

// attnValuesInt8 is attnProduct with groups of values in int8.
func attnValuesInt8(p floatProduct, values []byte) {
	w := p.groups * lanes
	size := KVInt8.GroupBytes(w)
	for i := 0; i < p.k; i += KVGroup {
		scales, codes := kvParts(values[i/KVGroup*size:], w)
		for g := 0; g < p.groups; g += 4 {
			attnValuesInt8AVX512(&p.c[g*lanes], &p.a[i], &codes[g*lanes], 4*p.ldc, 4*p.lda, w, 2*kvBlocks(w), p.rows, min(p.k-i, KVGroup), p.add || i > 0,
				&scales[g*lanes/BlockLen])
		}
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
func attnKeysInt8AVX512(c, a *float32, b *int8, ldc, lda, step, next, rows, k int, add bool, scales *uint16)

//go:noescape
func attnValuesInt8AVX512(c, a *float32, b *int8, ldc, lda, step, next, rows, k int, add bool, scales *uint16)

//go:noescape
func attnWeightsAVX512(x *float32, groups int) (m, l float32)

//go:noescape
func attnWeightsAVX2(x *float32, groups int) (m, l float32)

//go:noescape
func attnMergeAVX2(o, block *float32, groups int, c, d float32)
