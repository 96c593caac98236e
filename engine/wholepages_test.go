// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"testing"
	"unsafe"
)

// Memory is given back by whole pages of the system, of 4, 16 or 64 KiB: none that holds
// a byte of something else.
func TestWholePages(t *testing.T) {
	for _, page := range []int{4 << 10, 16 << 10, 64 << 10} {
		t.Run(fmt.Sprint(page), func(t *testing.T) {
			mem := make([]byte, 6*page)
			base := int(uintptr(unsafe.Pointer(&mem[0])) % uintptr(page))
			begin := (page - base) % page // of a page
			for _, tt := range []struct{ from, n, skip, want int }{
				{begin, 2 * page, 0, 2 * page},
				{begin + 1, 2 * page, page - 1, page},
				{begin + page - 1, 2*page + 1, 1, 2 * page},
				{begin + page/2, page, page / 2, 0},
				{begin + 1, page - 1, 0, 0},
				{begin, page - 1, 0, 0},
				{begin, 0, 0, 0},
			} {
				got := wholePages(mem[tt.from:][:tt.n], page)
				if len(got) != tt.want {
					t.Errorf("%+v: %d bytes", tt, len(got))
				}
				if len(got) > 0 && unsafe.Pointer(&got[0]) != unsafe.Pointer(&mem[tt.from+tt.skip]) {
					t.Errorf("%+v: begins at another byte", tt)
				}
			}
		})
	}
}
