// SPDX-License-Identifier: Apache-2.0

package kernels

import "fmt"

// RepackQ4X8 re-arranges row-major Q4 blocks into the Q4_8X8L layout, 144 bytes
// for 8 rows and 32 columns (docs/FORMAT.md section 6.7), for comparing files
// that carry it. No kernel computes on it. dst and src have the same length and do
// not overlap; rows is a multiple of 8, cols of 32.
func RepackQ4X8(dst, src []byte, rows, cols int) {
	const h, group = 8, 8 * Q4BlockBytes
	err := checkShape(len(src), rows, cols, Q4Row)
	if err != nil || rows%h != 0 || len(dst) != len(src) {
		panic(fmt.Sprintf("kernels: RepackQ4X8: %d x %d, %d bytes into %d", rows, cols, len(src), len(dst)))
	}
	nb := cols / BlockLen
	for r := range rows {
		m := r % h
		for b := range nb {
			from := src[(r*nb+b)*Q4BlockBytes:][:Q4BlockBytes]
			to := dst[(r/h*nb+b)*group:][:group]
			copy(to[2*m:][:2], from)
			for j, c := range from[2:] {
				to[2*h+64*(j/8)+8*m+j%8] = c ^ 0x88
			}
		}
	}
}
