// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"fmt"
)

// Sentinels to match with errors.Is. The errors themselves carry the numbers.
var (
	// ErrBusy: the model computes; see [Model.CheckAffinity].
	ErrBusy = errors.New("engine: busy with a request")
	// ErrClosed: the model was closed.
	ErrClosed = errors.New("engine: model is closed")
	// ErrUnsupported: the file needs something this build cannot compute.
	ErrUnsupported = errors.New("engine: unsupported")
	// ErrContextOverflow: prompt and max_tokens do not fit the context.
	ErrContextOverflow = errors.New("engine: context overflow")
	// ErrMemory: the model does not fit the memory limit.
	ErrMemory = errors.New("engine: not enough memory")
	// ErrNoTokenizer: neither the file nor its directory holds a tokenizer.
	ErrNoTokenizer = errors.New("engine: no tokenizer")
	// ErrChanged: an encrypted file was written to after it was verified.
	ErrChanged = errors.New("engine: the file was changed since it was verified; put it in place again under a new name and load that")
	// ErrRequest: a request that can never be served (bad token, bad option).
	ErrRequest = errors.New("engine: bad request")
	// ErrPicture: not a picture, one that is too large, small or elongated, or not
	// the pictures that the prompt has places for.
	ErrPicture = errors.New("engine: picture")
	// ErrPicturesFull: the pictures of requests that wait fill the memory that there
	// is for them; there is room again when some are answered.
	ErrPicturesFull = errors.New("engine: pictures of requests that wait")
	// ErrFormsFull: the schemas and tools of requests in work fill the memory that
	// there is for them; there is room again when some are answered.
	ErrFormsFull = errors.New("engine: forms of requests in work")
	// ErrNumeric: the model produced logits that are not numbers.
	ErrNumeric = errors.New("engine: logits are not finite")
)

// ContextError tells by how much a request misses the context. It matches
// [ErrContextOverflow].
type ContextError struct {
	Prompt    int // tokens of the prompt
	MaxTokens int // tokens asked for
	Context   int // tokens the model holds

	Truncated bool // so much it is with what truncation leaves, which was asked for
	Read      bool // it is to be read alone, nothing is generated
}

func (e *ContextError) Error() string {
	if e.Read {
		return fmt.Sprintf("engine: context overflow: a text of %d tokens, the context holds %d; cut it into several", e.Prompt, e.Context)
	}
	help := "shorten the prompt, lower max_tokens or ask for truncate \"oldest\" or \"middle\""
	if e.Truncated {
		help = "truncate has nothing more to drop: shorten what it keeps (of a chat the system message, the last message and the tools) or lower max_tokens"
	}
	return fmt.Sprintf("engine: context overflow: prompt of %d tokens and %d to generate are %d, the context holds %d; %s",
		e.Prompt, e.MaxTokens, e.Prompt+e.MaxTokens, e.Context, help)
}

// Is makes errors.Is(err, ErrContextOverflow) hold.
func (e *ContextError) Is(target error) bool { return target == ErrContextOverflow }

// MemoryError tells what a model needs and what it may have. It matches
// [ErrMemory].
type MemoryError struct {
	Need  Need  // in the residency that takes least of those that were allowed
	Full  int64 // bytes needed in full residency, where that was tried as well; else 0
	Limit int64 // bytes
}

func (e *MemoryError) Error() string {
	n, other := &e.Need, ""
	if e.Full > 0 {
		other = fmt.Sprintf(", %d with all weights in memory", e.Full)
	}
	hint := ""
	if n.Residency == ResidencyFull {
		hint = ", allow engine.residency \"layered\""
	}
	return fmt.Sprintf("engine: not enough memory: %d bytes needed in %s residency (weights %d, KV cache %d for %d tokens, scratch %d)%s, limit %d; "+
		"lower engine.context%s or use a smaller model",
		n.Total(), n.Residency, n.Weights, n.KV, n.Context, n.Scratch, other, e.Limit, hint)
}

// Is makes errors.Is(err, ErrMemory) hold.
func (e *MemoryError) Is(target error) bool { return target == ErrMemory }

// PicturesError tells that the pictures of one request take more than there is for those
// of all: asking again does not help. It matches [ErrPicture].
type PicturesError struct {
	Need  int64 // bytes of those that were read, resized
	Limit int64
}

func (e *PicturesError) Error() string {
	return fmt.Sprintf("engine: pictures of one request take %d bytes and more when they are resized, and there are %d for all requests: send fewer or smaller ones", e.Need, e.Limit)
}

// Is makes errors.Is(err, ErrPicture) hold.
func (e *PicturesError) Is(target error) bool { return target == ErrPicture }

// FormError tells what a form needs and what it may have. It matches [ErrMemory].
type FormError struct {
	Need, Limit int64 // bytes
	what        string
}

func (e *FormError) Error() string {
	return fmt.Sprintf("engine: not enough memory: %s takes %d bytes, limit %d; ask without a form, or with a smaller one", e.what, e.Need, e.Limit)
}

// Is makes errors.Is(err, ErrMemory) hold.
func (e *FormError) Is(target error) bool { return target == ErrMemory }

// unsupported names what this build cannot run.
func unsupported(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrUnsupported, fmt.Sprintf(format, args...))
}

// badRequest names what is wrong with a request.
func badRequest(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrRequest, fmt.Sprintf(format, args...))
}
