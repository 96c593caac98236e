// SPDX-License-Identifier: Apache-2.0

package kernels

import "fmt"

// Acts are activations quantised to int8: the right-hand side of [MatMul].
//
// Per 32 values: m = largest magnitude, D = m/127, id = 1/D, each code =
// x*id rounded half away from zero (float32(x*id) plus or minus 0.5, then
// truncated), so that codes lie in -127..127. If m is under 2^-100, D and all
// codes are 0. If a value is infinite or NaN, D is infinite or NaN and all
// codes are 0, so that every product with the block is NaN.
type Acts struct {
	Tokens int // in use, at most what NewActs was given
	Cols   int // a multiple of 32

	Q   []int8    // [Tokens][Cols] codes
	D   []float32 // [Tokens][Cols/32] scales
	Sum []int32   // [Tokens][Cols/32] sum of each block's codes

	packed // what the tiled kernels of this architecture read instead: initPack allocates, packActs fills
}

// NewActs allocates activations for up to maxTokens tokens of cols values, cols
// a multiple of 32.
func NewActs(maxTokens, cols int) *Acts {
	if maxTokens < 1 || cols < 0 || cols%BlockLen != 0 {
		panic(fmt.Sprintf("kernels: NewActs: %d tokens of %d columns, want a multiple of %d", maxTokens, cols, BlockLen))
	}
	a := &Acts{Cols: cols}
	a.Q = make([]int8, maxTokens*cols)
	a.D = make([]float32, maxTokens*cols/BlockLen)
	a.Sum = make([]int32, maxTokens*cols/BlockLen)
	a.initPack(maxTokens, cols)
	return a
}

// SetTokens says how many tokens are in use, before a series of QuantizeRange.
func (a *Acts) SetTokens(tokens int) {
	if tokens < 0 || tokens*a.Cols > len(a.Q) {
		panic(fmt.Sprintf("kernels: SetTokens: %d tokens of %d columns, room for %d values", tokens, a.Cols, len(a.Q)))
	}
	a.Tokens = tokens
}

// Quantize takes x [tokens][Cols].
func (a *Acts) Quantize(x []float32, tokens int) {
	a.SetTokens(tokens)
	a.QuantizeRange(x, 0, tokens)
}

// QuantizeRange takes tokens from to to-1 of x [Tokens][Cols]. Workers may do
// disjoint ranges of the same Acts at the same time, after SetTokens.
func (a *Acts) QuantizeRange(x []float32, from, to int) {
	if from < 0 || to < from || to > a.Tokens || len(x) < a.Tokens*a.Cols {
		panic(fmt.Sprintf("kernels: QuantizeRange: tokens %d to %d of %d, %d values of %d columns",
			from, to, a.Tokens, len(x), a.Cols))
	}
	nb := a.Cols / BlockLen
	quantizeActs(a.Q[from*a.Cols:to*a.Cols], a.D[from*nb:to*nb], a.Sum[from*nb:to*nb], x[from*a.Cols:to*a.Cols])
	a.packActs(a, from, to)
}

// RowsAlign is what the first of several tokens of [Acts.Rows] is a multiple of.
const RowsAlign = 8

// Rows is the view of n tokens from token from on, which is a multiple of RowsAlign
// unless n is 1: Acts of those tokens, of which none is copied. It is good until the
// tokens change.
func (a *Acts) Rows(from, n int) Acts {
	if from < 0 || n < 1 || from+n > a.Tokens || n > 1 && from%RowsAlign != 0 {
		panic(fmt.Sprintf("kernels: Rows: %d tokens from %d of %d", n, from, a.Tokens))
	}
	nb := a.Cols / BlockLen
	return Acts{
		Tokens: n, Cols: a.Cols,
		Q: a.Q[from*a.Cols:][:n*a.Cols], D: a.D[from*nb:][:n*nb], Sum: a.Sum[from*nb:][:n*nb],
		packed: a.packed.rows(from, n, a.Cols),
	}
}

// CopyRow makes token to of a what token from of src is, codes and all. Workers may
// do different tokens of the same Acts at the same time, after SetTokens.
func (a *Acts) CopyRow(to int, src *Acts, from int) {
	if a.Cols != src.Cols || to < 0 || to >= a.Tokens || from < 0 || from >= src.Tokens {
		panic(fmt.Sprintf("kernels: CopyRow: token %d of %d columns to token %d of %d, of %d and %d tokens",
			from, src.Cols, to, a.Cols, src.Tokens, a.Tokens))
	}
	n, nb := a.Cols, a.Cols/BlockLen
	copy(a.Q[to*n:][:n], src.Q[from*n:])
	copy(a.D[to*nb:][:nb], src.D[from*nb:])
	copy(a.Sum[to*nb:][:nb], src.Sum[from*nb:])
	a.packActs(a, to, to+1)
}
