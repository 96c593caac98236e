// SPDX-License-Identifier: Apache-2.0

package vision

import "errors"

// Errors that callers tell apart. What is returned wraps one of them and names
// the numbers.
var (
	// ErrFormat: not a picture, of a kind that is not read, or damaged.
	ErrFormat = errors.New("not a picture that can be read")
	// ErrSize: too large or too small, in bytes or pixels, or too elongated.
	ErrSize = errors.New("size of the picture")
	// ErrPrompt: pictures and the places for them in a prompt do not match.
	ErrPrompt = errors.New("pictures do not match the prompt")
)
