// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"windhover/control"
	"windhover/vqf"
	"windhover/vqf/seal"
)

// vouched is what signatures say of one file.
type vouched struct {
	by      []voucher
	foreign string // a signature by a key that is not trusted: whose
}

// signatureBytes is the most a .minisig may have.
const signatureBytes = 64 << 10

// vouchAside checks the detached signature of the file at path while others read
// it too: the bytes then come from the page cache. The returned function waits for
// the result; without a signature there is nothing to wait for.
func (a *authority) vouchAside(ctx context.Context, sig detached, signed bool, path, of string) func() (vouched, error) {
	if !signed {
		return func() (vouched, error) { return vouched{}, nil }
	}
	var v vouched
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		v, err = a.vouch(ctx, sig, path, of)
	}()
	return func() (vouched, error) {
		<-done
		return v, err
	}
}

// vouch checks the detached signature of the file at path, whose name beside the
// weights is of, "" for the weights. The error is one with MinisignInvalid for a
// signature that does not fit, errChanged for one that is being replaced.
func (a *authority) vouch(ctx context.Context, sig detached, path, of string) (vouched, error) {
	name := filepath.Base(sig.path())
	if of != "" {
		name = of + signatureEnd
	}
	text, err := readSignature(sig)
	if err != nil {
		return vouched{}, err
	}
	s, err := seal.ParseMinisignSignature(text)
	if err != nil {
		return vouched{}, control.Errorf(control.MinisignInvalid, "%s: %s", name, oneLine(err))
	}
	keys := a.trust().FindMinisign(s.KeyID)
	if len(keys) == 0 {
		return vouched{foreign: "minisign key " + s.KeyName()}, nil
	}
	f, _, err := openPlain(path)
	if err != nil {
		return vouched{}, err
	}
	defer func() { _ = f.Close() }() // read only
	check := func(k seal.MinisignKey) error { return s.CheckFile(ctx, k, f, beating(ctx)) }
	if s.Prehashed { // read once, however many keys share the id
		sum, err := seal.HashFile(ctx, f, seal.NewMinisignHash(), beating(ctx))
		if err != nil {
			return vouched{}, err
		}
		check = func(k seal.MinisignKey) error { return s.Check(k, sum) }
	}
	for _, k := range keys {
		if err = check(k.Key); err == nil {
			return vouched{by: []voucher{{Kind: trustMinisign, Name: k.Name, Key: k.Key.String(), Of: of}}}, nil
		}
	}
	if !errors.Is(err, seal.ErrSignature) {
		return vouched{}, err
	}
	return vouched{}, control.Errorf(control.MinisignInvalid, "%s: %s; or it is that of another file", name, oneLine(err))
}

// readSignature reads a .minisig that somebody else may have put there.
func readSignature(sig detached) ([]byte, error) {
	f, fi, err := openPlain(sig.path())
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, errNotRegular) {
		return nil, fmt.Errorf("%s: %w", filepath.Base(sig.path()), errChanged)
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // read only
	if identify(fi).content() != sig.ID.content() {
		return nil, fmt.Errorf("%s: %w", filepath.Base(sig.path()), errChanged)
	}
	if fi.Size() > signatureBytes {
		return nil, control.Errorf(control.MinisignInvalid, "%s has %d bytes: that is no signature", filepath.Base(sig.path()), fi.Size())
	}
	return io.ReadAll(io.LimitReader(f, signatureBytes))
}

// knowsSigner reports whether the signature in or beside a file says that it is by a
// trusted key. Whether it is was not checked.
func (a *authority) knowsSigner(path string) bool {
	t := a.trust()
	info, err := vqf.Inspect(path)
	if err == nil && info.Header.Flags&vqf.FlagSigned != 0 {
		if _, known := t.FindSM2(info.Header.Sig.Pub); known {
			return true
		}
	}
	fi, err := os.Lstat(path + signatureEnd)
	if err != nil {
		return false
	}
	text, err := readSignature(detached{Of: path, ID: identify(fi)})
	if err != nil {
		return false
	}
	s, err := seal.ParseMinisignSignature(text)
	return err == nil && len(t.FindMinisign(s.KeyID)) > 0
}

// embedded judges what vqf.Verify found out about the signature in a file.
func embedded(rep *vqf.VerifyReport, t *seal.Trust) (vouched, error) {
	s := rep.Signature
	detail := "the signature does not verify"
	for _, c := range rep.Checks {
		if c.Name == "signature" && c.Status == vqf.StatusFail {
			detail = c.Detail
		}
	}
	switch {
	case !s.Present:
		return vouched{}, nil
	case !s.DigestOK && seal.KnownID(s.ID):
		return vouched{}, control.Errorf(control.DigestMismatch, "%s", detail)
	case !s.Valid:
		return vouched{}, control.Errorf(control.SignatureInvalid, "%s", detail)
	}
	for _, k := range t.SM2 {
		if s.Trusted && k.Key.Fingerprint() == s.Fingerprint {
			return vouched{by: []voucher{{Kind: trustSM2, Name: k.Name, Key: k.Key.String()}}}, nil
		}
	}
	return vouched{foreign: "SM2 key " + s.Fingerprint}, nil
}
