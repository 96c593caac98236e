// SPDX-License-Identifier: Apache-2.0

package vision

import "windhover/kernels"

// stage is work whose units any worker may do in any order. What follows it in a
// list needs all of them.
type stage struct {
	begin func() // before the first unit; nil: there is nothing to prepare
	units int
	cost  int64 // of a unit, about: float32 multiply-adds that take as long
	do    func(worker, unit int)
}

// stepCost is what each worker does in a step: about a tenth of a second on a core
// of 2023 that shares its memory with others. Those who are answered beside a
// picture wait as long for a token, and so does whoever cancels it.
const stepCost = 256 << 20

// Costs in multiply-adds of the attention's kind.
const (
	productGain   = 8 // so many of int8 take as long as one
	normCost      = 8 // of a value that is normed and quantised
	geluCost      = 32
	referenceCost = 4 // of one in plain Go
)

// productCost is the cost of a unit of a product for so many patches.
func productCost(m *kernels.Matrix, count int) int64 {
	return 1 + int64(min(m.Rows, unitRows))*int64(m.Cols)*int64(count)/productGain
}

// attendCost is the multiply-adds that so many queries of all heads need for n
// patches: scores and sums.
func attendCost(queries, n, dim int) int64 { return 2 * int64(queries) * int64(n) * int64(dim) }
