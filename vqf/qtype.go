// SPDX-License-Identifier: Apache-2.0

package vqf

import (
	"fmt"
	"math/bits"
)

// QType is a tensor's element type, docs/FORMAT.md section 3.1.
type QType uint32

// The element types.
const (
	F32  QType = 1
	Q8_0 QType = 2 // 34 bytes per 32 values
	Q4_0 QType = 3 // 18 bytes per 32 values
	//lint:ignore ST1003 the name of the format
	Q4_8X8L QType = 4 // 18 bytes per 32 values, x8_* only
	F16     QType = 5
)

// Sizes of the quantised blocks, docs/FORMAT.md section 6.1.
const (
	BlockLen     = 32
	Q8BlockBytes = 34
	Q4BlockBytes = 18
)

var qtypeNames = [...]string{F32: "F32", Q8_0: "Q8_0", Q4_0: "Q4_0", Q4_8X8L: "Q4_8X8L", F16: "F16"}

// String returns the type's name, or "qtype(9)" for an unknown one.
func (t QType) String() string {
	if t.known() {
		return qtypeNames[t]
	}
	return fmt.Sprintf("qtype(%d)", uint32(t))
}

func (t QType) known() bool { return t >= F32 && t <= F16 }

// Size returns the bytes that rows*cols values of type t occupy, without the
// padding to 64. The error is an unknown type or a product past 64 bits.
func (t QType) Size(rows, cols uint32) (uint64, error) {
	if !t.known() {
		return 0, fmt.Errorf("vqf: unknown qtype %d: %w", uint32(t), ErrFormat)
	}
	n := uint64(rows) * uint64(cols)
	unit, per := uint64(1), uint64(4)
	switch t {
	case F16:
		per = 2
	case Q8_0:
		unit, per = BlockLen, Q8BlockBytes
	case Q4_0, Q4_8X8L:
		unit, per = BlockLen, Q4BlockBytes
	}
	blocks := n / unit
	if n%unit != 0 {
		blocks++
	}
	hi, lo := bits.Mul64(blocks, per)
	if hi != 0 {
		return 0, fmt.Errorf("vqf: %d x %d values of %s: size does not fit 64 bits: %w", rows, cols, t, ErrFormat)
	}
	return lo, nil
}

// Layout is how the blocks of a matrix are arranged, docs/FORMAT.md section 6.
type Layout uint8

// The layouts. LayoutRow is the zero value.
const (
	LayoutRow Layout = iota // block after block, row after row
	Layout4x4               // groups of 4 rows interleaved
	Layout8x8               // groups of 8 rows interleaved, Q8 only
)

// String returns "row", "4x4" or "8x8", the words t_meta and the command line use.
func (l Layout) String() string {
	switch l {
	case LayoutRow:
		return "row"
	case Layout4x4:
		return "4x4"
	case Layout8x8:
		return "8x8"
	}
	return fmt.Sprintf("layout(%d)", uint8(l))
}

// ParseLayout reads what String writes.
func ParseLayout(s string) (Layout, error) {
	for _, l := range []Layout{LayoutRow, Layout4x4, Layout8x8} {
		if s == l.String() {
			return l, nil
		}
	}
	return 0, fmt.Errorf("vqf: unknown layout %q: use 8x8, 4x4 or row", s)
}

// group is the number of rows a group of blocks spans.
func (l Layout) group() uint32 { return [...]uint32{1, 4, 8}[l] }

// mulSat multiplies, staying at the largest value instead of wrapping.
func mulSat(vs ...uint64) uint64 {
	p := uint64(1)
	for _, v := range vs {
		hi, lo := bits.Mul64(p, v)
		if hi != 0 {
			return ^uint64(0)
		}
		p = lo
	}
	return p
}

// roundUp rounds x up to a multiple of a power of two, staying at the largest
// multiple instead of wrapping.
func roundUp(x, a uint64) uint64 {
	if x > ^uint64(0)-(a-1) {
		return ^uint64(0) &^ (a - 1)
	}
	return (x + a - 1) &^ (a - 1)
}
