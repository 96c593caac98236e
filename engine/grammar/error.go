// SPDX-License-Identifier: Apache-2.0

package grammar

import (
	"fmt"
	"strings"
)

// maxPlaceBytes is how much of a place an error says.
const maxPlaceBytes = 512

// Error says what of a schema cannot be done, and where.
type Error struct {
	At      string // JSON pointer to the place; "": the schema itself
	Problem string
}

func (e *Error) Error() string {
	at := e.At
	switch {
	case at == "":
		at = "the top"
	case len(at) > maxPlaceBytes:
		at = strings.ToValidUTF8(at[:maxPlaceBytes], "") + "…"
	}
	return fmt.Sprintf("schema: at %s: %s", at, e.Problem)
}

func problem(at, format string, args ...any) error {
	return &Error{At: at, Problem: fmt.Sprintf(format, args...)}
}

// below puts the place of an error below a part of the schema.
func below(part string, err error) error {
	if e, ok := err.(*Error); ok {
		e.At = "/" + part + e.At
	}
	return err
}
