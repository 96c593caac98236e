// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"windhover/appliance/disk"
	"windhover/control"
)

// stateVersion is the schema of the file that this program writes.
const stateVersion = 1

// maxState bounds the file in bytes.
const maxState = 4 << 20

// Store keeps the state in one file.
type Store struct {
	Disk disk.FS
	Path string // state/active.json
}

// Load reads the state; without a file it is a new one. A file of a later program is
// control.Incompatible and stays as it is, and so does one that makes no sense.
func (s Store) Load() (State, error) {
	data, err := disk.ReadFile(s.Disk, s.Path, maxState)
	if errors.Is(err, fs.ErrNotExist) {
		return State{V: stateVersion, Models: map[string]*Slot{}}, nil
	}
	if err != nil {
		return State{}, fmt.Errorf("rollout: state: %w", err)
	}
	state, err := parseState(data)
	if err != nil {
		return State{}, fmt.Errorf("%s: %w", s.Path, err)
	}
	return state, nil
}

// Save stores the state so that a power cut leaves it or the one before.
func (s Store) Save(state State) error {
	data, err := json.MarshalIndent(state, "", "  ")
	if err != nil {
		return fmt.Errorf("rollout: state: %w", err)
	}
	if err := disk.Replace(s.Disk, s.Path, append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("rollout: state: %w", err)
	}
	return nil
}

// parseState reads a state that Step can be given.
func parseState(data []byte) (State, error) {
	var is struct {
		V int `json:"v"`
	}
	if err := json.Unmarshal(data, &is); err != nil {
		return State{}, control.Errorf(control.Internal, "the state is damaged: %v", err)
	}
	if is.V > stateVersion {
		return State{}, control.Errorf(control.Incompatible, "the state has version %d, this program reads %d: update it", is.V, stateVersion)
	}
	var s State
	d := json.NewDecoder(bytes.NewReader(data))
	if err := d.Decode(&s); err != nil {
		return State{}, control.Errorf(control.Internal, "the state is damaged: %v", err)
	}
	if s.V != stateVersion {
		return State{}, control.Errorf(control.Internal, "the state has version %d, which no program wrote", s.V)
	}
	if s.Models == nil {
		s.Models = map[string]*Slot{}
	}
	for name, m := range s.Models {
		if err := m.check(); err != nil {
			return State{}, control.Errorf(control.Internal, "the state is damaged: model %q: %v", name, err)
		}
	}
	return s, nil
}

// check holds a slot to what Step makes.
func (m *Slot) check() error {
	switch {
	case m == nil:
		return errors.New("is null")
	case m.Tentative != (m.BootsLeft > 0), m.BootsLeft > trialBoots, m.BootsLeft < 0:
		return errors.New("tentative and boots_left do not fit")
	case m.Tentative && (m.Current == nil || m.Update == nil || m.Update.SHA256 != m.Current.SHA256):
		return errors.New("what is tentative is not the update")
	case m.Current == nil && (m.Previous != nil || len(m.Kept) > 0):
		return errors.New("there is a previous version and no current one")
	case m.Previous == nil && len(m.Kept) > 0:
		return errors.New("there are older versions and no previous one")
	}
	return nil
}
