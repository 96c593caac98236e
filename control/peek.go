// SPDX-License-Identifier: Apache-2.0

package control

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// JSONProblem says what is wrong with a payload without quoting it: prompts do not
// belong into logs.
func JSONProblem(err error) string {
	var typ *json.UnmarshalTypeError
	if errors.As(err, &typ) {
		if typ.Field == "" {
			return fmt.Sprintf("the payload is a JSON %s, not an object", typ.Value)
		}
		return fmt.Sprintf("field %q cannot be a %s", typ.Field, typ.Value)
	}
	var b64 base64.CorruptInputError
	if errors.As(err, &b64) {
		return fmt.Sprintf("the data of a picture is not base64 (at its byte %d)", int64(b64))
	}
	var syn *json.SyntaxError
	if errors.As(err, &syn) {
		return fmt.Sprintf("the payload is not JSON (at byte %d)", syn.Offset)
	}
	return "the payload is not JSON"
}

// peekID finds the id of a payload that cannot be decoded as a whole: too large,
// cut, or broken behind the id. "" when it cannot be read.
func peekID(p []byte) string {
	dec := json.NewDecoder(bytes.NewReader(p))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return ""
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return ""
		}
		if key == "id" {
			t, err := dec.Token()
			if s, ok := t.(string); ok && err == nil && ValidID(s) {
				return s
			}
			return ""
		}
		if err := skipValue(dec); err != nil {
			return ""
		}
	}
	return ""
}

// skipValue reads one JSON value token by token, so that a cut payload costs no
// copy of what is skipped.
func skipValue(dec *json.Decoder) error {
	depth := 0
	for {
		t, err := dec.Token()
		if err != nil {
			return err
		}
		switch t {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth <= 0 {
			return nil
		}
		if depth > 10000 {
			return io.ErrUnexpectedEOF
		}
	}
}
