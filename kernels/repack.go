// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Repack re-arranges row-major blocks into the layout to: a permutation of
// bytes, and for Q4 the change from biased to signed nibbles (docs/FORMAT.md
// sections 6.3 to 6.6). dst and src have the same length and do not overlap;
// rows is a multiple of to.Rows(), cols of 32. With a row-major layout it
// copies. A matrix may be done in pieces of whole row groups.
func Repack(dst, src []byte, rows, cols int, to Layout) {
	repack("Repack", dst, src, rows, cols, to, false)
}

// Unpack is the inverse of Repack.
func Unpack(dst, src []byte, rows, cols int, from Layout) {
	repack("Unpack", dst, src, rows, cols, from, true)
}

func repack(op string, dst, src []byte, rows, cols int, l Layout, inverse bool) {
	if err := checkShape(len(src), rows, cols, l); err != nil {
		panic(fmt.Sprintf("kernels: %s: %v", op, err))
	}
	if len(dst) != len(src) {
		panic(fmt.Sprintf("kernels: %s: %d bytes into %d", op, len(src), len(dst)))
	}
	h, size, group := l.Rows(), l.BlockBytes(), l.GroupBytes()
	if h == 1 {
		copy(dst, src)
		return
	}
	var flip uint32
	if !l.Q8() {
		flip = 0x88888888
	}
	// Tile by tile: what is written stays in the cache until it is whole.
	nb := cols / BlockLen
	for g := range rows / h {
		for b := range nb {
			tile := (g*nb + b) * group
			for m := range h {
				row := ((g*h+m)*nb + b) * size
				if inverse {
					unpackRow(dst[row:][:size], src[tile:][:group], h, m, flip)
				} else {
					packRow(dst[tile:][:group], src[row:][:size], h, m, flip)
				}
			}
		}
	}
}

// packRow puts a row-major block into row m of a tile of h rows, four codes at a
// time.
func packRow(tile, row []byte, h, m int, flip uint32) {
	tile[2*m], tile[2*m+1] = row[0], row[1]
	tile, row = tile[2*h+4*m:], row[2:]
	for at := 0; len(row) >= 4; at += 4 * h {
		binary.LittleEndian.PutUint32(tile[at:], binary.LittleEndian.Uint32(row)^flip)
		row = row[4:]
	}
}

// unpackRow is the inverse of packRow.
func unpackRow(row, tile []byte, h, m int, flip uint32) {
	row[0], row[1] = tile[2*m], tile[2*m+1]
	tile, row = tile[2*h+4*m:], row[2:]
	for at := 0; len(row) >= 4; at += 4 * h {
		binary.LittleEndian.PutUint32(row, binary.LittleEndian.Uint32(tile[at:])^flip)
		row = row[4:]
	}
}

// checkShape tells whether size bytes are a rows x cols matrix in layout l.
func checkShape(size, rows, cols int, l Layout) error {
	h := l.Rows()
	switch {
	case h == 0:
		return fmt.Errorf("unknown layout %d", uint8(l))
	case rows < 0 || cols < 0 || rows > math.MaxInt32 || cols > math.MaxInt32:
		return fmt.Errorf("%d x %d is out of range", rows, cols)
	case cols%BlockLen != 0:
		return fmt.Errorf("%d columns, want a multiple of %d", cols, BlockLen)
	case rows%h != 0:
		return fmt.Errorf("%d rows in layout %v, want a multiple of %d", rows, l, h)
	}
	// At most 2^31 * 2^26 * 34 < 2^63.
	if want := int64(rows) * int64(cols/BlockLen) * int64(l.BlockBytes()); int64(size) != want {
		return fmt.Errorf("%d x %d in layout %v takes %d bytes, got %d", rows, cols, l, want, size)
	}
	return nil
}
