// SPDX-License-Identifier: Apache-2.0

package grammar

import "fmt"

// Error says what of a schema cannot be done, and where.
type Error struct {
	At      string // JSON pointer to the place; "": the schema itself
	Problem string
}

func (e *Error) Error() string {
	at := e.At
	if at == "" {
		at = "the top"
	}
	return fmt.Sprintf("schema: at %s: %s", at, e.Problem)
}

func problem(at, format string, args ...any) error {
	return &Error{At: at, Problem: fmt.Sprintf(format, args...)}
}
