// SPDX-License-Identifier: Apache-2.0

package vqf

import (
	"context"
	"errors"
	"os"
	"time"

	"windhover/vqf/seal"
)

// VerifyOptions are the keys a verification has. Without a passphrase the data of
// an encrypted file cannot be checked, which fails; without trusted keys a good
// signature is reported, but nobody says whose it is.
type VerifyOptions struct {
	Key   *seal.Key
	Trust *seal.Trust
}

// Verify checks a file in every way that does not need running it, also one
// that Open refuses: what fails is in the report, and the error is only that
// the file cannot be read or ctx ended. The whole file is read once, for
// checksum or tag, SHA-256 and the digest of the signature together; progress
// (may be nil) hears how far it is.
func Verify(ctx context.Context, path string, opt VerifyOptions, progress func(done, total int64)) (*VerifyReport, error) {
	f, size, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // read-only
	return verify(ctx, f, path, size, opt, progress)
}

// Verify is the function Verify for an open file, even if its name is gone.
func (f *File) Verify(ctx context.Context, opt VerifyOptions, progress func(done, total int64)) (*VerifyReport, error) {
	return verify(ctx, f.f, f.path, f.size, opt, progress)
}

func verify(ctx context.Context, f *os.File, path string, size int64, opt VerifyOptions, progress func(done, total int64)) (*VerifyReport, error) {
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
	v := &verification{report: r, p: p, opt: opt}
	if err := v.read(ctx, progress); err != nil {
		return nil, withPath(err, path)
	}
	if err := v.judge(); err != nil {
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
	r.Version, r.NTensors, r.DataOff, r.FileLen = h.Version, h.NTensors, h.DataOffset, h.FileLen
	r.DataBytes, r.Encrypted, r.Signature.Present = h.FileLen-h.DataOffset, p.encrypted(), h.Flags&FlagSigned != 0
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
