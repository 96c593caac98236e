// SPDX-License-Identifier: Apache-2.0

package ota

import (
	"errors"
	"fmt"

	"windhover/control"
)

// Install judges what somebody asks for by a command and not by a document: a signed
// release, and where it is to be had. It needs the signatures of the role Release, or,
// where that has no keys, of Desired. Whoever may give commands chooses among signed
// releases that are not below the floor, and cannot make one. The codes of the error
// are those of Accept, but for those of documents.
func (j Judge) Install(record *Envelope, urls []string, index string, mem Memory) (*Model, []string, error) {
	if record == nil {
		return nil, nil, control.Errorf(control.SignatureMissing, "record is needed: the signed record of the release")
	}
	role := j.Keys.Release
	if len(role.Keys) == 0 {
		role = j.Keys.Desired
	}
	payload, signers, err := record.Open(TypeRelease, role)
	if err != nil {
		return nil, nil, err
	}
	r, err := ParseRelease(payload)
	if err != nil {
		return nil, nil, err
	}
	m := &Model{
		Name: r.Name, Version: r.Version, Release: r.Release, URLs: urls, Size: r.Size, SHA256: r.SHA256,
		Index: IndexRef{URL: index, SHA256: r.Index, Block: r.Block}, Compat: r.Compat, Record: record,
	}
	if err := m.check(); err != nil {
		return nil, nil, control.Errorf(control.BadRequest, "release %s %s: %v", r.Name, r.Version, err)
	}
	if err := j.fits(m, mem); err != nil {
		return nil, nil, err
	}
	return m, signers, nil
}

// CheckPlan holds what such a command says of the download and the trial to the rules
// of documents.
func CheckPlan(r Rollout, h Health, keep int) error {
	if keep < 1 || keep > maxKeep {
		return fmt.Errorf("keep %d is not from 1 to %d", keep, maxKeep)
	}
	return errors.Join(r.check(), h.check())
}
