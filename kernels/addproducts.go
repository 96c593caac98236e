// SPDX-License-Identifier: Apache-2.0

package kernels

import "fmt"

// Product is a matrix times a token, and what the result counts in a sum.
type Product struct {
	Matrix Matrix
	Acts   Acts // of one token
	Weight float32
}

// AddProducts adds products to x, one after the other: for r in [row0,row1)
//
//	x[r] = x[r] + float32(Weight * row r of Matrix times Acts)
//
// with the product as [MatMul] defines it. row0 and row1 are multiples of every
// matrix's group height; workers may do disjoint row ranges of the same x and tmp,
// which is scratch and holds row1 values.
//
// Windows of one matrix, as the experts of a mixture are, are read row group by row
// group where that is faster than one window after the other.
func AddProducts(x, tmp []float32, products []Product, row0, row1 int) {
	if row0 == row1 || len(products) == 0 {
		return
	}
	for i := range products {
		p := &products[i]
		h := p.Matrix.Layout.Rows()
		if p.Acts.Tokens != 1 || p.Acts.Cols != p.Matrix.Cols || row0 < 0 || row0 > row1 || row1 > p.Matrix.Rows || row0%h != 0 || row1%h != 0 ||
			len(x) < row1 || len(tmp) < row1 {
			panic(fmt.Sprintf("kernels: AddProducts: rows %d to %d of %d x %d (%v) by %d tokens of %d columns to %d values, scratch %d",
				row0, row1, p.Matrix.Rows, p.Matrix.Cols, p.Matrix.Layout, p.Acts.Tokens, p.Acts.Cols, len(x), len(tmp)))
		}
	}
	if addWindows(x, products, row0, row1) {
		return
	}
	for i := range products {
		p := &products[i]
		matMul(tmp, len(tmp), &p.Matrix, &p.Acts, row0, row1)
		addScaled(x[row0:row1], tmp[row0:row1], p.Weight)
	}
}
