// SPDX-License-Identifier: Apache-2.0

package vqf

import "testing"

// Kernels have pages of 4, 16 or 64 KiB, and the page cache drops whole ones only.
func TestPagesOf(t *testing.T) {
	for _, tt := range []struct{ from, n, page, begin, length int64 }{
		{0, 4096, 4 << 10, 0, 4096},
		{8192, 4096, 4 << 10, 8192, 4096},
		{8192, 4096, 16 << 10, 0, 16 << 10},
		{12 << 10, 8 << 10, 16 << 10, 0, 32 << 10},
		{64<<10 - 4096, 8192, 64 << 10, 0, 128 << 10},
		{128 << 10, 4096, 64 << 10, 128 << 10, 64 << 10},
		{5, 1, 64 << 10, 0, 64 << 10},
	} {
		begin, length := pagesOf(tt.from, tt.n, tt.page)
		if begin != tt.begin || length != tt.length {
			t.Errorf("%+v: got %d, %d", tt, begin, length)
		}
	}
}

// A file system that asks for more than our pages is read through the page cache.
func TestAlignedEnough(t *testing.T) {
	for _, tt := range []struct {
		mem, offset uint32
		want        bool
	}{{1, 512, true}, {512, 512, true}, {4, 4096, true}, {4096, 4096, true}, {0, 0, false}, {512, 16 << 10, false}, {64 << 10, 512, false}, {512, 64 << 10, false}} {
		if got := alignedEnough(tt.mem, tt.offset); got != tt.want {
			t.Errorf("memory %d, offset %d: got %v", tt.mem, tt.offset, got)
		}
	}
}
