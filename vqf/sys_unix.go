// SPDX-License-Identifier: Apache-2.0

//go:build unix

package vqf

import (
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// mmap maps the file read-only and shared: a stray write faults, and pages are
// the page cache's own.
func mmap(f *os.File, size int64) ([]byte, error) {
	if size <= 0 || size > math.MaxInt {
		return nil, fmt.Errorf("a mapping of %d bytes is not possible", size)
	}
	return unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
}

func munmap(b []byte) error { return unix.Munmap(b) }
