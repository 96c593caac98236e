// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"os"
)

// Rebase moves the model's weights onto another file with the same bytes, also
// while a request is in work; see vqf.File.Rebase.
func (m *Model) Rebase(other *os.File) error {
	if err := m.w.res.move(func() error { return m.file.Rebase(other) }); err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	return nil
}
