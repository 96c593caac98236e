// SPDX-License-Identifier: Apache-2.0

package vqf

import (
	"context"
	"errors"
	"fmt"

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
// as with Create.
//
// The file is read twice. First its tag or checksum is compared, so that no plain
// byte of a changed file reaches the storage; then it is copied.
//
// A signature covers flags and counter block, so that none survives: a signed file
// is signed again, or DropSignature says that it need not be. The error is
// ErrUnsupported where nothing would change or a signature would be lost, else
// those of Open and Create. progress (may be nil) hears of all passes together.
func Reseal(ctx context.Context, src, dst string, opt ResealOptions, progress func(done, total int64)) (Result, error) {
	p := &phases{report: progress, of: 3}
	f, err := OpenContext(ctx, src, OpenOptions{Key: opt.From, FullCheck: true, Lazy: true}, p.next())
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
	w, err := createArea(dst, plan, CreateOptions{Key: opt.To, Sign: opt.Sign, SignID: opt.SignID})
	if err != nil {
		return Result{}, err
	}
	defer w.Abort()
	copying, stop := context.WithCancel(ctx)
	defer stop()
	copied := &pass{r: f.plain, from: int64(h.DataOffset), to: int64(h.FileLen), progress: p.next(),
		raw: []sink{func(_ int64, b []byte) {
			if w.err == nil {
				w.data(b)
			}
			if w.err != nil {
				stop()
			}
		}}}
	if err := copied.run(copying); w.err != nil {
		return Result{}, w.err
	} else if err != nil {
		return Result{}, withPath(err, f.path)
	}
	return w.CommitContext(ctx, p.next())
}

// createArea is CreateWith for a data area that comes as it lies in the file:
// padding, gaps and all.
func createArea(path string, plan *Plan, opt CreateOptions) (*Writer, error) {
	w := &Writer{path: path, plan: plan, next: len(plan.Tensors)}
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
