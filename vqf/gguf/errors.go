// SPDX-License-Identifier: Apache-2.0

package gguf

import (
	"errors"
	"fmt"
)

// Sentinels that callers match with errors.Is.
var (
	// ErrFormat: the bytes are not a GGUF file this package can trust.
	ErrFormat = errors.New("not a valid GGUF file")
	// ErrNoKey: the metadata has no such key.
	ErrNoKey = errors.New("no such metadata key")
)

// FormatError says which part of the file is wrong and where it is. It
// matches ErrFormat.
type FormatError struct {
	Field  string // what was being read: `version`, `tensor "x"`, `key "y"`
	Offset int64  // byte of the file at which reading it began
	Msg    string // what is wrong, with the numbers
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("gguf: %s at byte %d: %s", e.Field, e.Offset, e.Msg)
}

// Is makes errors.Is(err, ErrFormat) hold.
func (e *FormatError) Is(target error) bool { return target == ErrFormat }
