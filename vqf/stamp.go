// SPDX-License-Identifier: Apache-2.0

package vqf

import (
	"fmt"
	"os"
)

// Stamp tells one content of one file from another by what the file system says:
// which file it is, how long, and when it was last written to. Stamps are compared
// with ==.
type Stamp struct {
	dev, ino  uint64 // 0 where the system does not say
	size      int64
	sec, nsec int64
}

// Stamp looks at the open file. As long as it is what it was, nobody has written
// to the file; a reader that deciphers piece by piece compares it after each, since
// a checksum of the whole comes too early for it. Rebase changes it. Nothing is
// allocated.
func (f *File) Stamp() (Stamp, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.closed {
		return Stamp{}, fmt.Errorf("vqf: %s: %w", f.path, os.ErrClosed)
	}
	s, err := stampOf(f.f)
	if err != nil {
		return Stamp{}, fmt.Errorf("vqf: %s: %w", f.path, err)
	}
	return s, nil
}
