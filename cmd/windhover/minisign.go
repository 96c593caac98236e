// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"windhover/vqf/seal"
)

// minisignReport says how far the signature beside a file holds. Each answer
// includes the ones before it.
type minisignReport struct {
	Present bool   `json:"present"`
	Trusted bool   `json:"trusted"` // a trusted key made it, and it fits the file
	Key     string `json:"key,omitempty"`
	Signer  string `json:"signer,omitempty"`  // name of the trusted key
	Comment string `json:"comment,omitempty"` // the signer's words, once trusted
}

// checkMinisign checks FILE.minisig, if there is one, with the trusted keys that
// have its id. The error is that the signature cannot be read, or does not fit.
func checkMinisign(ctx context.Context, path string, trust *seal.Trust, progress func(done, total int64)) (minisignReport, error) {
	var r minisignReport
	s, err := seal.ReadMinisignSignature(path + seal.MinisignSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if r.Present = true; err != nil {
		return r, err
	}
	r.Key = s.KeyName()
	f, _, err := openPlain(path)
	if err != nil {
		return r, err
	}
	defer func() { _ = f.Close() }() // was only read
	for _, t := range trust.FindMinisign(s.KeyID) {
		// Keys of one id are rare: a second pass for the second is fine.
		if err = s.CheckFile(ctx, t.Key, f, progress); err == nil {
			r.Trusted, r.Signer, r.Comment = true, t.Name, s.Comment
			return r, nil
		}
	}
	if errors.Is(err, seal.ErrSignature) {
		err = fmt.Errorf("%s%s: %w", path, seal.MinisignSuffix, err)
	}
	return r, err
}

// note says what a signature is worth that nobody refuses.
func (r *minisignReport) note() string {
	if r.Trusted {
		return fmt.Sprintf("by %s (%s), comment %q", r.Signer, r.Key, r.Comment)
	}
	return fmt.Sprintf("by key %s, which is not among the trusted ones: not checked", r.Key)
}
