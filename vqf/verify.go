// SPDX-License-Identifier: Apache-2.0

package vqf

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
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

// VerifyReport is all that can be said about a file without running it.
type VerifyReport struct {
	Path     string  `json:"path"`
	Size     int64   `json:"size"`
	Checks   []Check `json:"checks"`
	Stored   uint64  `json:"-"`      // checksum in the trailer, 0: none
	Computed uint64  `json:"-"`      // checksum of the content
	SHA256   string  `json:"sha256"` // of the whole file, hex; empty if it was not read
	Seconds  float64 `json:"seconds"`
	MBPerSec float64 `json:"mb_per_s"`
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

// String renders a line per check and a closing one with the speed.
func (r *VerifyReport) String() string {
	var b strings.Builder
	for _, c := range r.Checks {
		fmt.Fprintf(&b, "%-7s %-18s %s\n", c.Status, c.Name, c.Detail)
	}
	verdict := "PASS"
	if !r.OK() {
		verdict = "FAIL"
	}
	if r.SHA256 != "" {
		fmt.Fprintf(&b, "%-7s %-18s %s\n", StatusNote, "sha256", r.SHA256)
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

// Verify checks a file in every way that does not need running it, also one
// that Open refuses: what fails is in the report, and the error is only that
// the file cannot be read or ctx ended. The whole file is read once, for
// checksum and SHA-256 together; progress (may be nil) hears how far it is.
func Verify(ctx context.Context, path string, progress func(done, total int64)) (*VerifyReport, error) {
	f, size, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // read-only
	return verify(ctx, f, path, size, progress)
}

// Verify is the function Verify for an open file, even if its name is gone.
func (f *File) Verify(ctx context.Context, progress func(done, total int64)) (*VerifyReport, error) {
	return verify(ctx, f.f, f.path, f.size, progress)
}

func verify(ctx context.Context, f *os.File, path string, size int64, progress func(done, total int64)) (*VerifyReport, error) {
	start := time.Now()
	p := &parsed{size: size, r: f, plain: f}
	r := &VerifyReport{Path: path, Size: size}
	defer func() {
		if r.Seconds = time.Since(start).Seconds(); r.SHA256 != "" && r.Seconds > 0 {
			r.MBPerSec = float64(size) / 1e6 / r.Seconds
		}
	}()
	for _, part := range []func(*parsed) (bool, error){r.header, r.directory} {
		if ok, err := part(p); err != nil {
			return nil, withPath(err, path)
		} else if !ok {
			return r, nil
		}
	}
	digest, sum := sha256.New(), newFNVRange(&p.header)
	gap := &zeroRange{from: int64(headerSize(p.header.Fields)), to: int64(p.header.DataOffset), bad: -1,
		skipFrom: DirOffset, skipTo: DirOffset + EntrySize*int64(p.header.NTensors)}
	hash := func(_ int64, b []byte) { digest.Write(b) }
	if err := visit(ctx, f, 0, size, progress, sum.sink, hash, gap.sink); err != nil {
		return nil, withPath(err, path)
	}
	r.SHA256, r.Computed = hex.EncodeToString(digest.Sum(nil)), sum.h
	if err := r.content(p, gap); err != nil {
		return nil, withPath(err, path)
	}
	return r, nil
}

// header adds the lines about the first 448 bytes, and says whether it is
// worth going on. Here and below, what is wrong with the file becomes a line;
// the error is that it cannot be read.
func (r *VerifyReport) header(p *parsed) (ok bool, err error) {
	bad, err := split(p.readHeader())
	if err != nil {
		return false, err
	}
	h := &p.header
	if bad != nil && (bad.Field == "file" || bad.Field == "magic") {
		r.result("magic", bad, "")
		return false, nil
	}
	r.add("magic", StatusOK, "FQFW")
	if bad != nil && errors.Is(bad, ErrVersion) {
		r.result("version", bad, "")
		return false, nil
	}
	r.add("version", StatusOK, "%d", h.Version)
	if bad != nil {
		r.result("header", bad, "")
		return false, nil
	}
	r.add("header", StatusOK, "%d fields, %d bytes, %d tensors, data_offset %d", h.Fields, headerSize(h.Fields), h.NTensors, h.DataOffset)
	r.add("size", StatusOK, "file_len %d + %d = %d", h.FileLen, h.TrailerLen(), r.Size)
	return true, nil
}

// split tells what is wrong with the file from what kept it from being read.
func split(err error) (bad *FormatError, other error) {
	if err == nil || errors.As(err, &bad) {
		return bad, nil
	}
	return nil, err
}

// content adds the lines that needed the data.
func (r *VerifyReport) content(p *parsed, gap *zeroRange) error {
	h := &p.header
	r.result("gap", gap.err(), "zero from the directory to data_offset, hashed by nothing")
	if h.Flags&FlagEnc != 0 {
		r.result("tag", needKey(), "")
	} else if err := r.plaintext(p); err != nil {
		return err
	}
	if h.Flags&FlagSigned != 0 {
		r.add("signature", StatusNote, "present, not checked: id %q", h.Sig.ID[:h.Sig.IDLen])
	} else {
		r.add("signature", StatusNote, "none")
	}
	return nil
}

// plaintext adds the lines that an encrypted file's data cannot answer.
func (r *VerifyReport) plaintext(p *parsed) error {
	bad, err := p.dirtyPadding()
	if err != nil {
		return err
	}
	r.result("padding", bad, "zero after every tensor")
	for _, name := range []string{NameTokenizer, NameMeta} {
		b, err := p.extra(name)
		switch {
		case err != nil:
			return err
		case b == nil:
		case !json.Valid(b):
			r.result(name, badField(name, int64(p.find(name).Offset), "is no JSON"), "")
		default:
			r.result(name, nil, "%d bytes of JSON", len(b))
		}
	}
	for _, f := range []struct {
		tensor, line string
		layout       func() (Layout, error)
	}{{"q8_q", "q8 layout", p.findQ8Layout}, {"q4_q", "q4 layout", p.findQ4Layout}} {
		if p.find(f.tensor) == nil {
			continue
		}
		l, err := f.layout()
		bad, err := split(err)
		if err != nil {
			return err
		}
		if bad != nil {
			r.result(f.line, bad, "")
		} else {
			r.add(f.line, StatusOK, "%s", l)
		}
	}
	if r.Stored, err = p.storedSum(); err != nil {
		return err
	}
	if r.Stored == 0 {
		r.add("checksum", StatusNote, "no checksum: stored 0, computed 0x%016x", r.Computed)
		return nil
	}
	r.result("checksum", p.compareSum(r.Stored, r.Computed), "stored 0x%016x, computed 0x%016x", r.Stored, r.Computed)
	return nil
}

// zeroRange finds the first byte that is not zero in [from, to), except in
// [skipFrom, skipTo).
type zeroRange struct{ from, to, skipFrom, skipTo, bad int64 }

func (z *zeroRange) sink(at int64, p []byte) {
	if z.bad >= 0 || at >= z.to {
		return
	}
	for _, s := range [...][2]int64{{z.from, z.skipFrom}, {z.skipTo, z.to}} {
		lo, hi := max(s[0], at), min(s[1], at+int64(len(p)))
		if lo >= hi {
			continue
		}
		if i := nonZero(p[lo-at : hi-at]); i >= 0 {
			z.bad = lo + int64(i)
			return
		}
	}
}

func (z *zeroRange) err() error {
	if z.bad < 0 {
		return nil
	}
	return badField("gap", z.bad, "is not zero: nothing covers these bytes, and nobody should write there")
}
