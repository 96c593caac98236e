// SPDX-License-Identifier: Apache-2.0

package safetensors

import (
	"errors"
	"fmt"
)

// ErrFormat is matched by errors about bytes that are no safetensors file or
// index.
var ErrFormat = errors.New("not a valid safetensors file")

// FormatError says which part of the file is wrong and where. It matches
// ErrFormat.
type FormatError struct {
	Path   string // empty when the bytes had no file
	Field  string // `header length`, `tensor "x"`
	Offset int64  // byte of the file; -1 when no single place is wrong
	Msg    string
}

func (e *FormatError) Error() string {
	s := "safetensors: "
	if e.Path != "" {
		s += e.Path + ": "
	}
	s += e.Field
	if e.Offset >= 0 {
		s += fmt.Sprintf(" at byte %d", e.Offset)
	}
	return s + ": " + e.Msg
}

// Is makes errors.Is(err, ErrFormat) hold.
func (e *FormatError) Is(target error) bool { return target == ErrFormat }

func bad(field string, offset int64, format string, args ...any) error {
	return &FormatError{Field: field, Offset: offset, Msg: fmt.Sprintf(format, args...)}
}

// withPath names the file in a FormatError that has none yet.
func withPath(err error, path string) error {
	var fe *FormatError
	if errors.As(err, &fe) {
		if fe.Path == "" {
			fe.Path = path
		}
		return err
	}
	return fmt.Errorf("safetensors: %s: %w", path, err)
}
