// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"maps"
	"slices"

	"windhover/control"
	"windhover/control/ota"
)

// Bounds of what a model may cost before it is given up.
const (
	trialBoots = 2  // starts of the device with a version on trial, the last one of which takes it back
	maxTries   = 3  // loads of a version that the device did not live to see the end of
	maxRefused = 16 // refused versions remembered of each model
)

// State is everything that is remembered. It is a value: Step returns another one.
type State struct {
	V      int              `json:"v"`
	Memory ota.Memory       `json:"memory"` // of documents
	Models map[string]*Slot `json:"models,omitempty"`
}

// Version is one version of a model.
type Version struct {
	Version string     `json:"version"`
	Release int64      `json:"release"`
	SHA256  ota.Digest `json:"sha256"`
}

// Slot is what is remembered of one model. Versions it points to never change.
type Slot struct {
	Current   *Version  `json:"current,omitempty"`  // serves, or is to
	Previous  *Version  `json:"previous,omitempty"` // serves again when Current does not hold
	Kept      []Version `json:"kept,omitempty"`     // older ones that stay installed, youngest first
	Tentative bool      `json:"tentative,omitempty"`
	BootsLeft int       `json:"boots_left,omitempty"`
	Update    *Update   `json:"update,omitempty"` // under way; while Tentative it is Current
	Next      *Update   `json:"next,omitempty"`   // asked for meanwhile
	Refused   []Refusal `json:"refused,omitempty"`

	// owed are ends to be told when Current serves again, or nothing does. They are not
	// kept: a start tells who still asks.
	owed []Report
}

// Update is a version that is asked for.
type Update struct {
	Version
	Job   string `json:"job,omitempty"` // whose it is, for reports
	Rev   int64  `json:"rev,omitempty"` // of the document
	Keep  int    `json:"keep"`          // versions that stay installed, this one included
	Tries int    `json:"tries,omitempty"`

	phase Phase // where it is; not kept, since a start begins again
}

// Refusal is a version that failed. One that is Final is not tried again until somebody
// says so; any other until another document asks for it.
type Refusal struct {
	SHA256 ota.Digest `json:"sha256"`
	Rev    int64      `json:"rev,omitempty"`
	Code   string     `json:"code"`
	Final  bool       `json:"final,omitempty"`
	Back   bool       `json:"back,omitempty"` // the version before serves again because of it
}

// Phase is what is done with a version, by the name that job records use.
type Phase string

// The phases of an update, in this order, and what else is done with a version.
const (
	Download Phase = "downloading"
	Verify   Phase = "verifying"
	Stage    Phase = "staging"
	Load     Phase = "loading"
	Probe    Phase = "probing"
	Switch   Phase = "activating"
	Observe  Phase = "observing"

	Restore  Phase = "restoring"   // an installed version is to serve
	Withdraw Phase = "withdrawing" // nothing is to serve under that name
)

// Installed are the digests of all versions that have to stay where they are.
func (s State) Installed() map[ota.Digest]bool {
	keep := map[ota.Digest]bool{}
	for _, m := range s.Models {
		for _, v := range []*Version{m.Current, m.Previous} {
			if v != nil {
				keep[v.SHA256] = true
			}
		}
		for _, v := range m.Kept {
			keep[v.SHA256] = true
		}
		for _, u := range []*Update{m.Update, m.Next} {
			if u != nil {
				keep[u.SHA256] = true
			}
		}
	}
	return keep
}

// Running says whether anything is under way.
func (s State) Running() bool {
	for _, m := range s.Models {
		if m.Update != nil {
			return true
		}
	}
	return false
}

// clone makes slots that may be changed.
func (s State) clone() State {
	s.Models = maps.Clone(s.Models)
	if s.Models == nil {
		s.Models = map[string]*Slot{}
	}
	for name, m := range s.Models {
		c := *m
		c.Kept, c.Refused, c.owed = slices.Clone(m.Kept), slices.Clone(m.Refused), slices.Clone(m.owed)
		if m.Update != nil {
			u := *m.Update
			c.Update = &u
		}
		s.Models[name] = &c
	}
	return s
}

// refused finds why an update is not to be tried; without a code it is.
func (m *Slot) refused(u *Update) Refusal {
	for _, r := range m.Refused {
		if r.SHA256 == u.SHA256 && (r.Final || r.Rev == u.Rev) {
			return r
		}
	}
	return Refusal{}
}

// refuse remembers that a version failed, and whether the one before serves again. What
// was the fault of this device or of the moment, and may go well next time, is not
// remembered.
func (m *Slot) refuse(u *Update, code control.Code, back bool) {
	switch code {
	case control.Canceled, control.Internal, control.Interrupted, control.InsufficientStore, control.ModelIOError:
		return
	}
	if code.Retry {
		return
	}
	m.forgive(u.SHA256)
	m.Refused = append(m.Refused, Refusal{SHA256: u.SHA256, Rev: u.Rev, Code: code.Name, Final: condemns(code), Back: back})
	m.Refused = m.Refused[max(0, len(m.Refused)-maxRefused):]
}

func (m *Slot) forgive(sum ota.Digest) {
	m.Refused = slices.DeleteFunc(m.Refused, func(r Refusal) bool { return r.SHA256 == sum })
}

// condemns says whether a failure is the version's own, which another document does not
// change, and not that of a disk, a network or a moment.
func condemns(code control.Code) bool {
	switch code {
	case control.FormatInvalid, control.Incompatible, control.LoadFailed, control.HealthCheckFailed, control.TagMismatch:
		return true
	}
	return false
}

// back takes Current out of the slot; the version before it is the current one.
func (m *Slot) back() {
	m.Current, m.Previous = m.Previous, nil
	if len(m.Kept) > 0 {
		v := m.Kept[0]
		m.Previous, m.Kept = &v, m.Kept[1:]
	}
	m.Tentative, m.BootsLeft = false, 0
}

// forward puts a version into the slot, on trial.
func (m *Slot) forward(v Version) {
	if m.Previous != nil {
		m.Kept = append([]Version{*m.Previous}, m.Kept...)
	}
	m.Kept = slices.DeleteFunc(m.Kept, func(k Version) bool { return k.SHA256 == v.SHA256 })
	m.Previous, m.Current = m.Current, &v
	m.Tentative, m.BootsLeft = true, trialBoots
}

// settle ends the trial. Of the versions before keep-1 stay.
func (m *Slot) settle(keep int) {
	m.Tentative, m.BootsLeft = false, 0
	if keep < 2 {
		m.Previous = nil
	}
	m.Kept = m.Kept[:min(len(m.Kept), max(0, keep-2))]
}
