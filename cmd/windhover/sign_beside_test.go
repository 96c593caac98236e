// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A file that is written to while it is hashed gets no signature, even if its time
// of writing is set back.
func TestMinisignSumChanged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weights")
	if err := os.WriteFile(path, []byte("weights"), 0o600); err != nil {
		t.Fatal(err)
	}
	fi, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, size, err := minisignSum(t.Context(), path, nil); err != nil || size != 7 {
		t.Errorf("untouched: %d bytes, %v", size, err)
	}
	_, _, err = minisignSum(t.Context(), path, func(int64, int64) {
		if err := errors.Join(os.WriteFile(path, []byte("WEIGHTS"), 0o600), os.Chtimes(path, time.Time{}, fi.ModTime())); err != nil {
			t.Error(err)
		}
	})
	if err == nil || !strings.Contains(err.Error(), "was changed while it was read") {
		t.Errorf("written to: %v", err)
	}
}
