// SPDX-License-Identifier: Apache-2.0

package kernels

import "fmt"

// MatMul computes dst[t*ldd+r] = row r of m times token t of a, for r in
// [row0,row1) and every token. row0 and row1 are multiples of the layout's group
// height; workers may do disjoint row ranges of the same dst.
//
// Per output: acc = 0; for the column blocks b ascending:
//
//	s = exact int32 sum of w[r][i]*x[t][i] over the 32 columns
//	p = float32(dw*dx) * float32(s), rounded
//	acc = acc + p, rounded
//
// so that the bits depend neither on the layout nor on how many tokens or rows
// are done at once. |s| <= 32*128*127 < 2^24 is exact in float32.
func MatMul(dst []float32, ldd int, m *Matrix, a *Acts, row0, row1 int) {
	if row0 == row1 || a.Tokens == 0 {
		return
	}
	h := m.Layout.Rows()
	if a.Cols != m.Cols || row0 < 0 || row0 > row1 || row1 > m.Rows || row0%h != 0 || row1%h != 0 {
		panic(fmt.Sprintf("kernels: MatMul: rows %d to %d of %d x %d (%v) by %d columns",
			row0, row1, m.Rows, m.Cols, m.Layout, a.Cols))
	}
	if ldd < row1 && a.Tokens > 1 || len(dst) < (a.Tokens-1)*ldd+row1 {
		panic(fmt.Sprintf("kernels: MatMul: %d tokens of %d rows, stride %d, into %d values",
			a.Tokens, row1, ldd, len(dst)))
	}
	matMul(dst, ldd, m, a, row0, row1)
}

// MatMulF32 is the reference product with float32 activations x [tokens][Cols]:
// dst[t*ldd+r] = [Dot] of the dequantised row r and token t, for r in
// [row0,row1), any rows. scratch holds Cols values.
func MatMulF32(dst []float32, ldd int, m *Matrix, x []float32, tokens, row0, row1 int, scratch []float32) {
	scratch = scratch[:m.Cols]
	for r := row0; r < row1; r++ {
		m.DequantizeRow(scratch, r)
		for t := range tokens {
			dst[t*ldd+r] = Dot(scratch, x[t*m.Cols:][:m.Cols])
		}
	}
}
