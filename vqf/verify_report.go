// SPDX-License-Identifier: Apache-2.0

package vqf

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// Outcomes of a check.
const (
	StatusOK   = "ok"
	StatusFail = "FAIL"
	StatusNote = "note" // nothing to compare with: worth knowing, no fault
)

// Check is one named line of a verification.
type Check struct {
	Name   string `json:"name"`
	Status string `json:"status"`
	Detail string `json:"detail"`
	err    error
}

// VerifyReport is all that can be said about a file without running it. The
// fields of the header are 0 if it could not be read.
type VerifyReport struct {
	Path      string          `json:"path"`
	Size      int64           `json:"size"`
	Version   uint32          `json:"version"`
	NTensors  uint32          `json:"n_tensors"`
	DataOff   uint64          `json:"data_off"`
	FileLen   uint64          `json:"file_len"`
	DataBytes uint64          `json:"data_bytes"` // of the data area, padding included
	Encrypted bool            `json:"encrypted"`
	Checks    []Check         `json:"checks"`
	Stored    uint64          `json:"-"`      // checksum in the trailer, 0: none, or encrypted
	Computed  uint64          `json:"-"`      // checksum of the content, 0 if encrypted
	Tag       [32]byte        `json:"-"`      // in the trailer of an encrypted file
	TagOK     bool            `json:"-"`      // the tag was computed and is the stored one
	SHA256    string          `json:"sha256"` // of the whole file, hex; empty if it was not read
	Signature SignatureReport `json:"signature"`
	Seconds   float64         `json:"seconds"`
	MBPerSec  float64         `json:"mb_per_s"`
}

// Answers of Sums to whether computed and stored are equal.
const (
	MatchYes     = "yes"
	MatchNo      = "no"
	MatchNone    = "no checksum" // the writer stored 0
	MatchUnknown = "unknown"     // not read, or no passphrase
)

// Sums returns what was computed from the file and what its trailer holds, as
// text, and whether they are equal: the checksum, or the tag of an encrypted
// file. A tag that does not match is not told: a changed file could be given it.
func (r *VerifyReport) Sums() (computed, stored, match string) {
	switch {
	case r.SHA256 == "":
		return "-", "-", MatchUnknown
	case r.Encrypted:
		stored = hex.EncodeToString(r.Tag[:])
		if r.TagOK {
			return stored, stored, MatchYes
		}
		for _, c := range r.Checks {
			if errors.Is(c.err, ErrTag) {
				return "a different tag", stored, MatchNo
			}
		}
		return "-", stored, MatchUnknown
	}
	computed, stored, match = fmt.Sprintf("0x%016x", r.Computed), fmt.Sprintf("0x%016x", r.Stored), MatchNo
	switch {
	case r.Stored == 0:
		match = MatchNone
	case r.Stored == r.Computed:
		match = MatchYes
	}
	return computed, stored, match
}

// OK says that no check failed.
func (r *VerifyReport) OK() bool { return r.Err() == nil }

// Err returns the first failure, nil if there is none.
func (r *VerifyReport) Err() error {
	for _, c := range r.Checks {
		if c.Status == StatusFail {
			return c.err
		}
	}
	return nil
}

// String renders a line per check, the numbers, and a closing line with the speed.
func (r *VerifyReport) String() string {
	var b strings.Builder
	line := func(status, name, format string, args ...any) {
		fmt.Fprintf(&b, "%-7s %-18s %s\n", status, name, fmt.Sprintf(format, args...))
	}
	for _, c := range r.Checks {
		line(c.Status, c.Name, "%s", c.Detail)
	}
	if r.SHA256 != "" {
		line(StatusNote, "sha256", "%s", r.SHA256)
		computed, stored, match := r.Sums()
		line("", "version", "%d", r.Version)
		line("", "n_tensors", "%d", r.NTensors)
		line("", "data_off", "%d", r.DataOff)
		line("", "file_len", "%d", r.FileLen)
		line("", "data_bytes", "%d", r.DataBytes)
		line("", "computed", "%s", computed)
		line("", "stored", "%s", stored)
		line("", "match", "%s", match)
		line("", "seconds", "%.2f", r.Seconds)
	}
	verdict := "PASS"
	if !r.OK() {
		verdict = "FAIL"
	}
	fmt.Fprintf(&b, "%s: %s, %d bytes in %.2f s, %.0f MB/s\n", verdict, r.Path, r.Size, r.Seconds, r.MBPerSec)
	return b.String()
}

func (r *VerifyReport) add(name, status, format string, args ...any) {
	r.Checks = append(r.Checks, Check{Name: name, Status: status, Detail: fmt.Sprintf(format, args...)})
}

// result adds a line that fails with err, or else is fine and says what held.
func (r *VerifyReport) result(name string, err error, format string, args ...any) {
	if err == nil {
		r.add(name, StatusOK, format, args...)
		return
	}
	err = withPath(err, r.Path)
	detail := err.Error()
	if fe := (*FormatError)(nil); errors.As(err, &fe) {
		short := *fe
		short.Path = ""
		detail = strings.TrimPrefix(short.Error(), "vqf: ")
	}
	r.Checks = append(r.Checks, Check{Name: name, Status: StatusFail, Detail: detail, err: err})
}
