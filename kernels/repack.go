// SPDX-License-Identifier: Apache-2.0

package kernels

import (
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
	var flip byte
	if !l.Q8() {
		flip = 0x88
	}
	nb := cols / BlockLen
	for r := range rows {
		m := r % h
		for b := range nb {
			row := (r*nb + b) * size
			tile := (r/h*nb + b) * group
			from, to := row, tile
			if inverse {
				from, to = tile, row
			}
			if inverse {
				dst[to], dst[to+1] = src[from+2*m], src[from+2*m+1]
				for j := 0; j < size-2; j += 4 {
					s := src[from+2*h+j*h+4*m:][:4]
					d := dst[to+2+j:][:4]
					d[0], d[1], d[2], d[3] = s[0]^flip, s[1]^flip, s[2]^flip, s[3]^flip
				}
				continue
			}
			dst[to+2*m], dst[to+2*m+1] = src[from], src[from+1]
			for j := 0; j < size-2; j += 4 {
				s := src[from+2+j:][:4]
				d := dst[to+2*h+j*h+4*m:][:4]
				d[0], d[1], d[2], d[3] = s[0]^flip, s[1]^flip, s[2]^flip, s[3]^flip
			}
		}
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
