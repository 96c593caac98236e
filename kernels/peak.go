// SPDX-License-Identifier: Apache-2.0

package kernels

// PeakSteps is the most steps that PeakInt8 and PeakF32 take: sums stay exact,
// and a call short.
const PeakSteps = 1 << 20

// PeakInt8 multiplies and adds int8 codes in registers alone, in steps (1 to
// [PeakSteps]) of some independent sums, with the instructions that the matrix
// products use on this machine. It returns how many operations that were, a
// multiplication and an addition being two. This is what a matrix product can
// reach at most, for a benchmark to compare with; only products of four-bit codes,
// of which several may be added in 16 bits, can do better where there is no dot
// product of four.
//
// All codes are one, so that the sums count the multiplications.
func PeakInt8(steps int) (ops int64) { return 2 * peakInt8(min(max(steps, 1), PeakSteps)) }

// PeakF32 does the same with float32, in the fused multiplications and additions
// that attention uses.
func PeakF32(steps int) (ops int64) { return 2 * peakF32(min(max(steps, 1), PeakSteps)) }
