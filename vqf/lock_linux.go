// SPDX-License-Identifier: Apache-2.0

package vqf

import (
	"errors"
	"math"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// lock takes the lock on a file for as long as it is open, without waiting:
// errHeld when another descriptor has it, errNoLocks where the file system knows
// none.
func lock(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		return errHeld
	case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOLCK):
		return errNoLocks
	}
	return err
}

// freeSpace is the number of bytes that this user may still write to the file
// system of a directory.
func freeSpace(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	size := uint64(max(st.Bsize, 1))
	if st.Bavail > math.MaxInt64/size {
		return math.MaxInt64, nil
	}
	return int64(st.Bavail * size), nil
}

// allocated is the number of bytes that a file takes of its file system already,
// reserved ones included.
func allocated(st os.FileInfo) int64 {
	if s, ok := st.Sys().(*syscall.Stat_t); ok {
		return s.Blocks * 512
	}
	return st.Size()
}
