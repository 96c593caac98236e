// SPDX-License-Identifier: Apache-2.0

package ota

import (
	"crypto/sha256"
	"slices"

	"windhover/control"
)

// Device is who judges.
type Device struct {
	Name     string
	Groups   []string
	Arch     string   // as Go names it
	Features []string // of the CPU
	VQF      []int    // versions of the format that the engine reads
	RAMBytes int64
}

// Judge decides about documents for one device.
type Judge struct {
	Device Device
	Keys   Keyring
}

// Accepted is a document that counts.
type Accepted struct {
	Desired *Desired
	Signers []string // names of keys
	Known   bool     // the one accepted before: it was delivered again
	Bucket  int      // 0 to 9999
	Held    bool     // the roll-out has not reached this device
}

// Accept judges the envelope of a desired document by what the device remembers and
// what it knows of the time, and returns what to remember from now on: store that
// before acting on the document. With an error nothing is to be remembered. It has the
// code of what is wrong:
//
//	signature_missing signature_invalid key_unknown   not signed by enough trusted keys
//	bad_request unsupported payload_too_large         signed, but not a document
//	wrong_target                                      for another device or group
//	rollback_rejected                                 older than one seen, or a release below the floor
//	manifest_expired                                  too old, which is how a freeze shows
//	mix_and_match                                     document and release record differ
//	incompatible                                      this device cannot run it
//
// The same document again is no error: retained messages come at each connection.
func (j Judge) Accept(data []byte, m Memory, c Clock) (*Accepted, Memory, error) {
	e, err := ParseEnvelope(data, MaxDocument)
	if err != nil {
		return nil, m, err
	}
	payload, signers, err := e.Open(TypeDesired, j.Keys.Desired)
	if err != nil {
		return nil, m, err
	}
	d, err := ParseDesired(payload)
	if err != nil {
		return nil, m, err
	}
	if err := j.targeted(d.Target); err != nil {
		return nil, m, err
	}
	a := &Accepted{Desired: d, Signers: signers, Bucket: Bucket(d.Rollout.Salt, j.Device.Name)}
	a.Held = !d.Rollout.reaches(a.Bucket)
	sum := Digest(sha256.Sum256(payload))
	switch seen, ok := m.Targets[d.Target.String()]; {
	case !ok || d.Rev > seen.Rev:
	case d.Rev < seen.Rev:
		return nil, m, control.Errorf(control.RollbackRejected, "document %d for %s is older than %d, which was seen", d.Rev, d.Target, seen.Rev)
	case sum != seen.SHA256:
		return nil, m, control.Errorf(control.RollbackRejected, "document %d for %s was seen with other content: publish it under a higher rev", d.Rev, d.Target)
	default:
		a.Known = true
	}
	if c.expired(d.ExpiresAt, m) {
		return nil, m, control.Errorf(control.ManifestExpired, "document %d for %s expired at %s: publish a new one", d.Rev, d.Target, d.ExpiresAt.UTC().Format("2006-01-02T15:04:05Z"))
	}
	for i := range d.Models {
		if err := j.fits(&d.Models[i], m); err != nil {
			return nil, m, err
		}
	}
	return a, m.saw(d, sum, c), nil
}

// targeted says whether a document is for this device.
func (j Judge) targeted(t Target) error {
	if t.Device != "" && t.Device == j.Device.Name || t.Group != "" && slices.Contains(j.Device.Groups, t.Group) {
		return nil
	}
	return control.Errorf(control.WrongTarget, "the document is for %s, this is device %q of groups %q", t, j.Device.Name, j.Device.Groups)
}

// fits holds one model against the floor, its release record and the device.
func (j Judge) fits(m *Model, mem Memory) error {
	if floor := mem.Floors[m.Name]; m.Release < floor {
		return control.Errorf(control.RollbackRejected, "model %q: release %d is below %d, which this device does not go below", m.Name, m.Release, floor)
	}
	if err := m.recorded(j.Keys.Release); err != nil {
		return err
	}
	d, need := j.Device, m.Compat
	switch {
	case len(need.Arch) > 0 && !slices.Contains(need.Arch, d.Arch):
		return control.Errorf(control.Incompatible, "model %q is for %q, this device is %s", m.Name, need.Arch, d.Arch)
	case len(need.VQF) > 0 && !slices.ContainsFunc(need.VQF, func(v int) bool { return slices.Contains(d.VQF, v) }):
		return control.Errorf(control.Incompatible, "model %q has format version %v, this device reads %v: update the device", m.Name, need.VQF, d.VQF)
	case need.RAMBytes > d.RAMBytes:
		return &control.Error{Code: control.Incompatible, Message: "model \"" + m.Name + "\" needs more memory than this device has", Needed: need.RAMBytes, Available: d.RAMBytes}
	}
	for _, f := range need.Features {
		if !slices.Contains(d.Features, f) {
			return control.Errorf(control.Incompatible, "model %q needs the CPU feature %q, which this device lacks", m.Name, f)
		}
	}
	return nil
}
