// SPDX-License-Identifier: Apache-2.0

package control

import (
	"errors"
	"fmt"
	"time"
)

// Code is the name of a failure as it stands in an error message or a job record
// (docs/PROTOCOL.md, "Error codes"). It is comparable and is itself an error, so
// that errors.Is(err, control.QueueFull) works on anything made from it.
type Code struct {
	Name   string
	Status int  // a number for people and bridges, close to HTTP's meaning
	Retry  bool // the same request may succeed later
}

// Error returns the stable name of the code.
func (c Code) Error() string { return "control: " + c.Name }

// The codes. Their names and numbers never change.
var (
	BadRequest        = Code{"bad_request", 400, false}
	Unsupported       = Code{"unsupported", 400, false}
	Forbidden         = Code{"forbidden", 403, false}
	UnknownModel      = Code{"unknown_model", 404, false}
	UnknownJob        = Code{"unknown_job", 404, false}
	Expired           = Code{"expired", 408, false}
	DuplicateID       = Code{"duplicate_id", 409, false}
	PayloadTooLarge   = Code{"payload_too_large", 413, false}
	ContextOverflow   = Code{"context_overflow", 422, false}
	QueueFull         = Code{"queue_full", 429, true}
	Canceled          = Code{"canceled", 499, false}
	Internal          = Code{"internal", 500, false}
	ModelNotReady     = Code{"model_not_ready", 503, true}
	ShuttingDown      = Code{"shutting_down", 503, true}
	Thermal           = Code{"thermal", 503, true}
	AuditUnavailable  = Code{"audit_unavailable", 503, true}
	DeadlineExceeded  = Code{"deadline_exceeded", 504, false}
	InsufficientStore = Code{"insufficient_storage", 507, false}
	InsufficientMem   = Code{"insufficient_memory", 507, false}
	EndlessData       = Code{"endless_data", 502, false}
	SlowRetrieval     = Code{"slow_retrieval", 502, false}
	WrongTarget       = Code{"wrong_target", 412, false}
	MixAndMatch       = Code{"mix_and_match", 412, false}
	DownloadFailed    = Code{"download_failed", 502, true}
	SourceGone        = Code{"source_gone", 410, false}
	DigestMismatch    = Code{"digest_mismatch", 422, false}
	FormatInvalid     = Code{"format_invalid", 422, false}
	SignatureMissing  = Code{"signature_missing", 401, false}
	SignatureInvalid  = Code{"signature_invalid", 401, false}
	KeyUnknown        = Code{"key_unknown", 401, false}
	MinisignInvalid   = Code{"minisign_invalid", 401, false}
	PassphraseMissing = Code{"passphrase_missing", 401, false}
	TagMismatch       = Code{"tag_mismatch", 422, false}
	ManifestExpired   = Code{"manifest_expired", 412, false}
	RollbackRejected  = Code{"rollback_rejected", 412, false}
	Incompatible      = Code{"incompatible", 412, false}
	LoadFailed        = Code{"load_failed", 500, false}
	HealthCheckFailed = Code{"health_check_failed", 500, false}
	Interrupted       = Code{"interrupted", 500, false}
	ModelIOError      = Code{"model_io_error", 500, false}
)

// codes lists every code once; decoding looks names up here.
var codes = []Code{
	BadRequest, Unsupported, Forbidden, UnknownModel, UnknownJob, Expired, DuplicateID,
	PayloadTooLarge, ContextOverflow, QueueFull, Canceled, Internal, ModelNotReady,
	ShuttingDown, Thermal, AuditUnavailable, DeadlineExceeded, InsufficientStore, InsufficientMem,
	EndlessData, SlowRetrieval, WrongTarget, MixAndMatch, DownloadFailed, SourceGone,
	DigestMismatch, FormatInvalid, SignatureMissing, SignatureInvalid, KeyUnknown,
	MinisignInvalid, PassphraseMissing, TagMismatch, ManifestExpired, RollbackRejected, Incompatible, LoadFailed, HealthCheckFailed,
	Interrupted, ModelIOError,
}

// Codes returns every code of the protocol, in the order of docs/PROTOCOL.md.
func Codes() []Code { return append([]Code(nil), codes...) }

// codeByName finds a code; a name from a newer peer is kept with its status.
func codeByName(name string, status int) Code {
	for _, c := range codes {
		if c.Name == name {
			return c
		}
	}
	return Code{Name: name, Status: status}
}

// Error is a failure with its code and the sentence for the person who reads it.
type Error struct {
	Code       Code
	Message    string
	RetryAfter time.Duration // 0: not said
	Needed     int64         // bytes, for the insufficient_* codes; 0: not said
	Available  int64         // bytes; goes out whenever Needed is not 0
	Incident   string        // names a recovered panic in the device's log
}

// Errorf makes an *Error of a code. The message is one line: what, where, what to do.
func Errorf(c Code, format string, args ...any) *Error {
	return &Error{Code: c, Message: fmt.Sprintf(format, args...)}
}

func (e *Error) Error() string {
	if e.Message == "" {
		return e.Code.Error()
	}
	return e.Code.Error() + ": " + e.Message
}

// Unwrap makes errors.Is(err, Code) true.
func (e *Error) Unwrap() error {
	if e == nil { // a Reply without an error compares equal to no code
		return nil
	}
	return e.Code
}

// asError turns whatever a backend returned into an *Error; an error without a code
// is internal.
func asError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	var c Code
	if errors.As(err, &c) {
		return &Error{Code: c, Message: err.Error()}
	}
	return &Error{Code: Internal, Message: err.Error()}
}
