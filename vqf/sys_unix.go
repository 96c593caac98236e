// SPDX-License-Identifier: Apache-2.0

//go:build unix

package vqf

import (
	"fmt"
	"math"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// mmap maps the file read-only and shared: a stray write faults, and pages are
// the page cache's own.
func mmap(f *os.File, size int64) ([]byte, error) {
	if size <= 0 || size > math.MaxInt {
		return nil, fmt.Errorf("a mapping of %d bytes is not possible", size)
	}
	b, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	if err == nil {
		preferHuge(b)
	}
	return b, err
}

func munmap(b []byte) error { return unix.Munmap(b) }

// anonymous is memory of its own for plain data, page-aligned and zero. It is
// given back by munmap.
func anonymous(size int64) ([]byte, error) {
	if size <= 0 || size > math.MaxInt {
		return nil, fmt.Errorf("%d bytes are not possible", size)
	}
	b, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err == nil {
		advise(b)
	}
	return b, err
}

// readOnly lets writes to the memory fault.
func readOnly(b []byte) error { return unix.Mprotect(b, unix.PROT_READ) }

// takeOver gives f the permissions of another file, and its owner and group as far
// as this user may. A group that cannot be kept gets no more than everybody: the
// bits were meant for another one.
func takeOver(f *os.File, from os.FileInfo) error {
	mode := from.Mode().Perm()
	st, ok := from.Sys().(*syscall.Stat_t)
	if !ok || f.Chown(int(st.Uid), int(st.Gid)) != nil && f.Chown(-1, int(st.Gid)) != nil {
		mode &^= 0o070 &^ (mode << 3)
	}
	return f.Chmod(mode)
}
