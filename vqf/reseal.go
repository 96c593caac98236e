// SPDX-License-Identifier: Apache-2.0

package vqf

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"windhover/vqf/seal"
)

// ResealOptions say how a file is read and what becomes of it.
type ResealOptions struct {
	From *seal.Key // reads an encrypted file
	To   *seal.Key // encrypts the result; nil: it is plain

	Sign          *seal.PrivateKey // signs the result
	SignID        string           // signer id; empty: seal.IDKestrel
	DropSignature bool             // the result of a signed file may be without one
}

// Reseal writes src as dst with other locks: encrypted, decrypted, under another
// passphrase, signed, signed by somebody else, without signature. Everything else
// stays, tensors nobody knows included; a 41-field header becomes one of 45 fields
// if the result needs it. dst may be src: it gets its name only when it is whole,
// as with Create. A file that is replaced keeps its mode, and its owner and group
// as far as this user may; a new one gets no permission that src does not have.
//
// The file is read twice. First its tag or checksum is compared, and of a signed
// file the signature with the key in it, so that no plain byte of a changed file
// reaches the storage and no new signature covers what the old one did not. Then
// it is copied; dst gets its name only if both passes read the same, and if src,
// where dst is src, is still the file that was opened.
//
// A signature covers flags and counter block, so that none survives: a signed file
// is signed again, or DropSignature says that it need not be. The error is
// ErrUnsupported where nothing would change or a signature would be lost,
// ErrSignature where it does not hold, else those of Open and Create. progress (may
// be nil) hears of all passes together.
func Reseal(ctx context.Context, src, dst string, opt ResealOptions, progress func(done, total int64)) (Result, error) {
	p := &phases{report: progress, of: 3}
	f, err := OpenContext(ctx, src, OpenOptions{Key: opt.From, Lazy: true, Verified: true}, nil) // reseal compares
	if err != nil {
		return Result{}, err
	}
	res, err := f.reseal(ctx, dst, opt, p)
	return res, errors.Join(err, f.Close())
}

func (f *File) reseal(ctx context.Context, dst string, opt ResealOptions, p *phases) (Result, error) {
	signed := f.header.Flags&FlagSigned != 0
	switch {
	case signed && opt.Sign == nil && !opt.DropSignature:
		return Result{}, fmt.Errorf("vqf: %s: is signed, and the signature would not hold for the new file: sign it again, or say that the signature goes: %w", f.path, ErrUnsupported)
	case !signed && opt.Sign == nil && !f.encrypted() && opt.To == nil:
		return Result{}, fmt.Errorf("vqf: %s: is plain and unsigned already: nothing would change: %w", f.path, ErrUnsupported)
	}
	src, err := watch(f.f)
	if err != nil {
		return Result{}, withPath(err, f.path)
	}
	inPlace := sameName(f.path, dst)
	if old, err := os.Stat(dst); err == nil {
		inPlace = inPlace || os.SameFile(old, src.info)
	}
	first, err := f.newReading(opt.From)
	if err == nil {
		err = first.run(ctx, nil, p.next())
	}
	if err == nil {
		err = first.judge()
	}
	if err != nil {
		return Result{}, withPath(err, f.path)
	}
	plan := &Plan{Header: f.header, Tensors: f.tensors}
	h := &plan.Header
	h.Flags &^= FlagEnc | FlagSigned
	if opt.To != nil {
		h.Flags |= FlagEnc
	}
	if opt.Sign != nil {
		h.Flags |= FlagSigned
	}
	if h.Flags&(FlagEnc|FlagSigned) != 0 {
		h.Fields = 45 // the directory starts behind either header
	}
	w, err := createArea(dst, plan, CreateOptions{Key: opt.To, Sign: opt.Sign, SignID: opt.SignID}, src.info)
	if err != nil {
		return Result{}, err
	}
	defer w.Abort()
	if err := f.copyArea(ctx, w, first, opt.From, p.next()); err != nil {
		return Result{}, err
	}
	return w.CommitChecked(ctx, p.next(), func(string) error {
		if inPlace {
			return src.still(f.f, w.path)
		}
		return nil
	})
}

// sameName says that two paths lead to one name.
func sameName(a, b string) bool {
	a, errA := filepath.Abs(resolve(a))
	b, errB := filepath.Abs(resolve(b))
	return errA == nil && errB == nil && a == b
}

// copyArea writes the data area, deciphered, to w. The error is ErrChecksum if the
// file is not what it was in the first pass.
func (f *File) copyArea(ctx context.Context, w *Writer, first *reading, key *seal.Key, progress func(done, total int64)) error {
	copying, stop := context.WithCancel(ctx)
	defer stop()
	second, err := f.newReading(key)
	if err != nil {
		return withPath(err, f.path)
	}
	area := [2]int64{int64(f.header.DataOffset), int64(f.header.FileLen)}
	err = second.run(copying, func(at int64, b []byte) {
		if lo, hi := overlap(area, at, b); lo < hi && w.err == nil {
			w.data(b[lo-at : hi-at])
		}
		if w.err != nil {
			stop()
		}
	}, progress)
	if w.err != nil {
		return w.err
	}
	if err == nil {
		err = second.same(first)
	}
	return withPath(err, f.path)
}

// createArea is CreateWith for a data area that comes as it lies in the file:
// padding, gaps and all. src is the file that it comes from.
func createArea(path string, plan *Plan, opt CreateOptions, src os.FileInfo) (*Writer, error) {
	w := &Writer{path: path, plan: plan, next: len(plan.Tensors), perm: src.Mode().Perm() & 0o644}
	if old, err := os.Stat(path); err == nil && old.Mode().IsRegular() {
		w.like = old
	}
	if err := w.create(opt); err != nil {
		return nil, err
	}
	return w, nil
}

// phases lets several passes over a file count as one.
type phases struct {
	report   func(done, total int64)
	of, done int64
}

// next is the progress of the next pass.
func (p *phases) next() func(done, total int64) {
	before := p.done
	p.done++
	if p.report == nil {
		return nil
	}
	return func(done, total int64) { p.report(before*total+done, p.of*total) }
}
