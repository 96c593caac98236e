// SPDX-License-Identifier: Apache-2.0

package vqf

import (
	"errors"
	"os"

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
