// SPDX-License-Identifier: Apache-2.0

package ota

import (
	"errors"
	"slices"
	"time"

	"windhover/control"
)

// Release is what the maker of a model says of one version of it: which bytes it is
// and what it needs, but not who is to run it.
type Release struct {
	V        int       `json:"v"`
	Name     string    `json:"name"`
	Version  string    `json:"version"`
	Release  int64     `json:"release"`
	Size     int64     `json:"size"`
	SHA256   Digest    `json:"sha256"`
	Block    int64     `json:"block"`
	Index    Digest    `json:"index"` // of the envelope with the digests of its blocks
	Compat   Compat    `json:"compat"`
	IssuedAt time.Time `json:"issued_at"`
}

// ParseRelease reads the payload of an envelope of TypeRelease. The error is
// control.BadRequest, or control.Unsupported for another version.
func ParseRelease(payload []byte) (*Release, error) {
	r := &Release{V: version}
	if err := decode(payload, r, "release record"); err != nil {
		return nil, err
	}
	if err := supported(r.V); err != nil {
		return nil, err
	}
	r.V = version
	var err error
	switch {
	case !validName(r.Name) || !control.ValidID(r.Version):
		err = errors.New("name and version are needed")
	case r.Release < 1 || r.Release > maxNumber:
		err = errors.New("release is not from 1 to 2^53")
	case r.SHA256 == (Digest{}) || r.Index == (Digest{}):
		err = errors.New("sha256 of the file and of its index are needed")
	default:
		err = errors.Join(checkBlocks(r.Size, r.Block), r.Compat.check())
	}
	if err != nil {
		return nil, control.Errorf(control.BadRequest, "release record: %v", err)
	}
	return r, nil
}

// Encode is the record as the payload of an envelope.
func (r *Release) Encode() []byte { return encode(r) }

// ReleaseOf is the record that a model's entry in a document corresponds to.
func ReleaseOf(m *Model, issued time.Time) *Release {
	return &Release{
		V: version, Name: m.Name, Version: m.Version, Release: m.Release, Size: m.Size, SHA256: m.SHA256,
		Block: m.Index.Block, Index: m.Index.SHA256, Compat: m.Compat, IssuedAt: issued,
	}
}

// recorded holds a model against its release record, which is needed as soon as the
// role has keys.
func (m *Model) recorded(r Role) error {
	if len(r.Keys) == 0 {
		return nil
	}
	if m.Record == nil {
		return control.Errorf(control.SignatureMissing, "model %q has no release record, which this device asks for", m.Name)
	}
	payload, _, err := m.Record.Open(TypeRelease, r)
	if err != nil {
		return err
	}
	is, err := ParseRelease(payload)
	if err != nil {
		return err
	}
	want := ReleaseOf(m, is.IssuedAt)
	switch {
	case is.Name != want.Name, is.Version != want.Version, is.Release != want.Release:
		return control.Errorf(control.MixAndMatch, "the document says %s %s (release %d), its release record %s %s (%d)", want.Name, want.Version, want.Release, is.Name, is.Version, is.Release)
	case is.Size != want.Size, is.SHA256 != want.SHA256, is.Index != want.Index, is.Block != want.Block:
		return control.Errorf(control.MixAndMatch, "model %q: document and release record are of different files", m.Name)
	case !slices.Equal(is.Compat.Arch, want.Compat.Arch), !slices.Equal(is.Compat.Features, want.Compat.Features),
		!slices.Equal(is.Compat.VQF, want.Compat.VQF), is.Compat.RAMBytes != want.Compat.RAMBytes:
		return control.Errorf(control.MixAndMatch, "model %q: document and release record ask for different devices", m.Name)
	}
	return nil
}
