// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/spf13/cobra"

	"windhover/control"
	"windhover/control/fleet"
	"windhover/control/ota"
	"windhover/vqf"
)

// begin finds out whether a roll-out goes on or a new one begins.
func (f *rolloutFlags) begin(cmd *cobra.Command, wanted *ota.Desired, r *fleet.Roster) (fleet.State, error) {
	known := fleet.Known{Retained: r.Desired(wanted.Target), Seen: r.Seen(wanted.Target)}
	var keys []ota.Key
	for _, k := range f.signers {
		keys = append(keys, ota.Key{Name: "key", Public: k.Public().(ed25519.PublicKey)})
	}
	var err error
	if known.Keys, err = ota.NewRole(1, keys...); err != nil {
		return fleet.State{}, err
	}
	if f.backTo != "" {
		if known.Back, err = readDesired(f.backTo); err != nil {
			return fleet.State{}, err
		}
	}
	if known.Stored, err = readRollout(f.stateFile); err != nil {
		return fleet.State{}, err
	}
	if f.abort && (known.Stored == nil || known.Stored.Over()) {
		return fleet.State{}, usagef(cmd, "--abort: there is no roll-out under way in %s", f.stateFile)
	}
	return fleet.Start(wanted, known, f.stages, time.Now())
}

// maxRollout bounds the file of a roll-out in bytes: three documents and who failed.
const maxRollout = 16 << 20

// readRollout reads the file of a roll-out, nil where there is none.
func readRollout(path string) (*fleet.State, error) {
	fi, size, err := openPlain(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = fi.Close() }() // was only read
	if size > maxRollout {
		return nil, fmt.Errorf("%s has %d bytes and is no file of a roll-out: name another --state", path, size)
	}
	data, err := io.ReadAll(io.LimitReader(fi, maxRollout))
	if err != nil {
		return nil, err
	}
	s, err := fleet.ParseState(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &s, nil
}

// save stores a state so that a power cut leaves it or the one before.
func (f *rolloutFlags) save(s fleet.State) error {
	if err := vqf.ReplaceFile(f.stateFile, s.Encode()); err != nil {
		return fmt.Errorf("--state: %w", err)
	}
	return nil
}

// readDesired reads a desired document, signed or not.
func readDesired(path string) (*ota.Desired, error) {
	data, err := readDocument(path)
	if err != nil {
		return nil, err
	}
	e, _, err := envelopeOf(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if e.PayloadType != ota.TypeDesired {
		return nil, control.Errorf(control.BadRequest, "%s is no desired document", path)
	}
	d, err := ota.ParseDesired(e.Payload)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return d, nil
}
