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

	// Of the last change of any kind, which nobody can set back: only from
	// StampOf, and 0 where the system does not say.
	csec, cnsec int64
}

// Stamp looks at the open file. As long as it is what it was, nobody has written
// to the file, unless he set the time back; a reader that deciphers piece by piece compares it after each, since
// a checksum of the whole comes too early for it. Rebase changes it. It
// stays when the file gets another mode, name or number of names, as that of a
// model in use does when its successor takes its name. Nothing is allocated.
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
	s.csec, s.cnsec = 0, 0
	return s, nil
}

// StampOf is the stamp of any open file, which changes with its mode, its owner and
// its names too, and with a write whose time was set back. It is for the time that
// one piece of work on the file takes. It differs from those of File.Stamp.
func StampOf(f *os.File) (Stamp, error) {
	s, err := stampOf(f)
	if err != nil {
		return Stamp{}, fmt.Errorf("vqf: %s: %w", f.Name(), err)
	}
	return s, nil
}
