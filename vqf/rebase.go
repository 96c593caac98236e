// SPDX-License-Identifier: Apache-2.0

package vqf

import (
	"fmt"
	"os"
)

// Rebase moves the open file onto other, which must hold the same bytes: what
// Data and Floats returned stays valid and is read from other from now on, while
// it is in use. Whoever writes to the first file then no longer writes to the
// weights that compute. other is not closed and not needed afterwards. An encrypted
// file's deciphered data stays where it is; ReadTensor goes on with other.
//
// The error is a closed file, one of another length, or the system's; the file
// is then as it was.
func (f *File) Rebase(other *os.File) error {
	st, err := other.Stat()
	if err != nil {
		return fmt.Errorf("vqf: %s: %w", f.path, err)
	}
	if st.Size() != f.size {
		return fmt.Errorf("vqf: %s: cannot move onto %s: it has %d bytes, not %d: %w", f.path, other.Name(), st.Size(), f.size, ErrFormat)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return fmt.Errorf("vqf: %s: %w", f.path, os.ErrClosed)
	}
	if !f.encrypted() {
		if err := remap(f.data, other); err != nil {
			return fmt.Errorf("vqf: %s: map %s: %w", f.path, other.Name(), err)
		}
	}
	// The descriptor keeps its number, so that a read under way needs no lock.
	if err := replaceFD(f.f, other); err != nil {
		return fmt.Errorf("vqf: %s: %w", f.path, err)
	}
	return nil
}
