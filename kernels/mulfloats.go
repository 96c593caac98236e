// SPDX-License-Identifier: Apache-2.0

package kernels

import "fmt"

// FloatColumns is how many columns [MulFloats] computes together.
const FloatColumns = 4 * lanes

// MulFloats multiplies float32 matrices for FloatColumns columns, which are
// tokens mostly: rows rows of a, lda values apart, of which k count, by b [k]
// [FloatColumns] into c [rows][FloatColumns]. Every output has one accumulator,
// that begins with +0 or, with add, with what c holds:
//
//	c_rj = fma(a_ri, b_ij, c_rj), i ascending
//
// so that it does not change a bit how rows, columns or k are cut, if the
// pieces of k come in order. It is the product that attention is made of.
func MulFloats(c, a []float32, lda int, b []float32, rows, k int, add bool) {
	if rows < 0 || k < 1 || lda < k && rows > 1 || len(c) < rows*FloatColumns || len(b) < k*FloatColumns || rows > 0 && len(a) < (rows-1)*lda+k {
		panic(fmt.Sprintf("kernels: MulFloats: %d rows of %d, stride %d, in %d values, by %d into %d", rows, k, lda, len(a), len(b), len(c)))
	}
	if rows == 0 {
		return
	}
	attnProduct(floatProduct{
		c: c, a: a, b: b, ldc: FloatColumns, lda: lda, step: FloatColumns, next: lanes,
		rows: rows, groups: FloatColumns / lanes, k: k, add: add,
	})
}
