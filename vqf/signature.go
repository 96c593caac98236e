// SPDX-License-Identifier: Apache-2.0

package vqf

import (
	"errors"
	"fmt"

	"windhover/vqf/seal"
)

// SignatureReport says how far the signature inside a file holds, docs/FORMAT.md
// section 10. Each answer includes the ones before it: Trusted is the one that
// counts.
type SignatureReport struct {
	Present  bool `json:"present"`   // the file says that it is signed
	DigestOK bool `json:"digest_ok"` // the digest in the block is the file's
	Valid    bool `json:"valid"`     // the key in the block made the signature
	Trusted  bool `json:"trusted"`   // that key is one of those trusted

	ID          string `json:"id,omitempty"`          // signer id
	Fingerprint string `json:"fingerprint,omitempty"` // of the key in the block
	Signer      string `json:"signer,omitempty"`      // name of the trusted key
}

// block returns what the signature block holds.
func (s *Signature) block() (id string, pub seal.PublicKey) {
	return string(s.ID[:s.IDLen]), seal.PublicKey(s.Pub)
}

// check holds the block against the digest computed from the file and the keys
// that are trusted. The block's own key says who claims to have signed; only a
// trusted key of the same value proves it. Whoever is not asked about trust (nil)
// or trusts no SM2 key gets an answer without it and no error.
func (s *Signature) check(digest [32]byte, trust *seal.Trust) (SignatureReport, error) {
	id, pub := s.block()
	r := SignatureReport{Present: true, ID: id, Fingerprint: pub.Fingerprint()}
	bad := func(format string, args ...any) error {
		return badField("signature", -1, format, args...).as(ErrSignature)
	}
	if !seal.KnownID(id) {
		return r, bad("unknown signer id %q: want %q or %q", id, seal.IDKestrel, seal.IDShs)
	}
	if !seal.Equal(s.Digest[:], digest[:]) {
		return r, bad("SM3 digest mismatch: the file was changed after it was signed, or is damaged")
	}
	r.DigestOK = true
	if _, err := seal.ParseSM2Public(pub.String()); err != nil {
		return r, bad("the public key in the block is not a point on the curve")
	}
	if t, ok := trust.FindSM2(pub); ok {
		if !t.Key.Verify(id, digest, s.R, s.S) {
			return r, bad("SM2 verification fails with the trusted key %q: the signature was made by somebody else or is damaged", t.Name)
		}
		r.Valid, r.Trusted, r.Signer = true, true, t.Name
		return r, nil
	}
	if trust != nil {
		for _, t := range trust.SM2 {
			if t.Key.Verify(id, digest, s.R, s.S) {
				return r, bad("made by the trusted key %q, but the block names another public key, %s: the block was changed", t.Name, r.Fingerprint)
			}
		}
	}
	if r.Valid = pub.Verify(id, digest, s.R, s.S); !r.Valid {
		return r, bad("SM2 verification fails with the key in the block")
	}
	if trust != nil && len(trust.SM2) > 0 {
		return r, untrusted(&r, len(trust.SM2))
	}
	return r, nil
}

func untrusted(r *SignatureReport, keys int) error {
	among := fmt.Sprintf("which is none of the %d SM2 keys trusted", keys)
	if keys == 0 {
		among = "and no SM2 key is trusted"
	}
	return badField("signature", -1, "holds, but was made by the key %s, %s: add its NAME%s to the trust directory if you know whose it is",
		r.Fingerprint, among, seal.SuffixSM2).as(ErrUntrusted)
}

// RequireSignature is the policy that only signed files of trusted keys are let
// in: nil if the file is one. Else the error says what it lacks, by ErrUnsigned,
// ErrUntrusted, ErrSignature, or the reason why the signature could not be
// checked (ErrKey, ErrTag, a broken file). The report must be one of a Verify
// that was given the trusted keys.
func (r *VerifyReport) RequireSignature() error {
	for _, c := range r.Checks {
		if c.Status == StatusFail && (c.Name == lineSignature || errors.Is(c.err, ErrKey) || errors.Is(c.err, ErrTag)) {
			return c.err
		}
	}
	s := &r.Signature
	switch {
	case s.Trusted:
		return nil
	case r.SHA256 == "" && r.Err() != nil: // too broken to be read
		return r.Err()
	case !s.Present:
		return fmt.Errorf("vqf: %s: %w: a signature of a trusted key is required", r.Path, ErrUnsigned)
	}
	return withPath(untrusted(s, 0), r.Path)
}
