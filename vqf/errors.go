// SPDX-License-Identifier: Apache-2.0

package vqf

import (
	"errors"
	"fmt"
)

// Sentinels, to be matched with errors.Is.
var (
	// ErrFormat is a file that breaks docs/FORMAT.md.
	ErrFormat = errors.New("malformed VQF")
	// ErrVersion is a version this package does not read.
	ErrVersion = errors.New("unsupported VQF version")
	// ErrChecksum is content that does not match the stored checksum.
	ErrChecksum = errors.New("checksum mismatch")
	// ErrLayoutMismatch is the strict flag gate's refusal.
	ErrLayoutMismatch = errors.New("layout mismatch")
	// ErrUnsupported is a well-formed file that this build cannot use.
	ErrUnsupported = errors.New("unsupported VQF")
	// ErrKey is an encrypted file without a passphrase to read it with.
	ErrKey = errors.New("no passphrase for an encrypted VQF")
	// ErrTag is an encrypted file whose tag is not the one of its bytes under the
	// passphrase given: changed, or another passphrase.
	ErrTag = errors.New("tag mismatch")
	// ErrSignature is a signature that does not fit its file, or is not well formed.
	ErrSignature = errors.New("bad signature")
	// ErrUntrusted is a good signature of a key that is not trusted.
	ErrUntrusted = errors.New("signature of an untrusted key")
	// ErrUnsigned is a file without a signature where one is required.
	ErrUnsigned = errors.New("the file is not signed")
)

// FormatError says which field of which file is wrong. It matches the sentinel
// it was made for, ErrFormat unless stated otherwise.
type FormatError struct {
	Path   string // empty when the bytes had no file
	Field  string // header field, or `tensor "q8_q" offset`
	Offset int64  // of the field in the file; -1 when no single place is wrong
	Msg    string
	Err    error // sentinel
}

func (e *FormatError) Error() string {
	s := "vqf: "
	if e.Path != "" {
		s += e.Path + ": "
	}
	s += e.Field
	if e.Offset >= 0 {
		s += fmt.Sprintf(" (at offset %d)", e.Offset)
	}
	return s + ": " + e.Msg
}

func (e *FormatError) Unwrap() error {
	if e.Err == nil {
		return ErrFormat
	}
	return e.Err
}

func badField(field string, offset int64, format string, args ...any) *FormatError {
	return &FormatError{Field: field, Offset: offset, Msg: fmt.Sprintf(format, args...)}
}

// as sets the sentinel.
func (e *FormatError) as(sentinel error) *FormatError {
	e.Err = sentinel
	return e
}

// withPath names the file in a FormatError that has none yet, and leaves other
// errors alone.
func withPath(err error, path string) error {
	if err == nil {
		return nil // before fe is allocated: ReadTensor is called for every token
	}
	var fe *FormatError
	if errors.As(err, &fe) && fe.Path == "" {
		fe.Path = path
	}
	return err
}

// MismatchError is the strict flag gate's refusal, docs/FORMAT.md section 4.2.
// It matches ErrLayoutMismatch.
type MismatchError struct {
	File, Engine Flags // layout bits only
}

func (e *MismatchError) Error() string {
	s := fmt.Sprintf("[VQF] layout mismatch: file=0x%02x engine=0x%02x (check VLLM_Q8_8X8 / wmode match the conversion)",
		uint32(e.File), uint32(e.Engine))
	if extra := e.File &^ e.Engine; extra != 0 {
		s += "; the file has " + extra.String()
	}
	if lack := e.Engine &^ e.File; lack != 0 {
		s += "; the file lacks " + lack.String()
	}
	return s + `; convert it again for this setting, or set vqf.layout = "any"`
}

func (e *MismatchError) Unwrap() error { return ErrLayoutMismatch }
