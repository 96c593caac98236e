// SPDX-License-Identifier: Apache-2.0

package kernels

import "fmt"

// Sizes of the blocks that weights are stored in (docs/FORMAT.md section 6.1).
const (
	BlockLen     = 32 // columns a block
	Q8BlockBytes = 34 // f16 scale, 32 int8 codes
	Q4BlockBytes = 18 // f16 scale, 32 four-bit codes
)

// Layout is how the blocks of a matrix are arranged (docs/FORMAT.md sections
// 6.2 to 6.6).
type Layout uint8

const (
	Q8Row Layout = iota + 1 // 34-byte blocks, row-major; also q4i and g256
	Q8x4                    // 136 bytes for 4 rows and 32 columns
	Q8x8                    // 272 bytes for 8 rows and 32 columns
	Q4Row                   // 18-byte blocks, row-major, biased nibbles
	Q4x4                    // 72 bytes for 4 rows and 32 columns, signed nibbles
)

// Rows is the height of a row group: 1, 4 or 8; 0 for an unknown layout.
func (l Layout) Rows() int {
	switch l {
	case Q8Row, Q4Row:
		return 1
	case Q8x4, Q4x4:
		return 4
	case Q8x8:
		return 8
	}
	return 0
}

// BlockBytes is the size of one block of one row: 34 or 18; 0 for an unknown
// layout.
func (l Layout) BlockBytes() int {
	switch l {
	case Q8Row, Q8x4, Q8x8:
		return Q8BlockBytes
	case Q4Row, Q4x4:
		return Q4BlockBytes
	}
	return 0
}

// GroupBytes is the size of a group-block, Rows() rows by 32 columns.
func (l Layout) GroupBytes() int { return l.Rows() * l.BlockBytes() }

// Q8 tells whether codes take a byte each.
func (l Layout) Q8() bool { return l.BlockBytes() == Q8BlockBytes }

// String is the name used in logs and by the bench verb, such as "q8 8x8".
func (l Layout) String() string {
	switch l {
	case Q8Row:
		return "q8 row"
	case Q8x4:
		return "q8 4x4"
	case Q8x8:
		return "q8 8x8"
	case Q4Row:
		return "q4 row"
	case Q4x4:
		return "q4 4x4"
	}
	return fmt.Sprintf("layout %d", uint8(l))
}
