// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"

	"windhover/control"
	"windhover/control/ota"
)

// stateVersion is the schema of states that this program writes.
const stateVersion = 1

// Bounds of what a state may hold, so that whatever follows from it can be written.
const (
	maxRev  = 1 << 52
	maxYear = 9000
)

// Phase is where a roll-out is.
type Phase string

// The phases. A roll-out goes on while it is Rolling or Aborting.
const (
	Rolling  Phase = "rolling"
	Aborting Phase = "aborting" // the document before is published again; devices go back
	Aborted  Phase = "aborted"
	Done     Phase = "done"
)

// State is a roll-out. It is a value: Step returns another one.
type State struct {
	V      int          `json:"v"`
	Phase  Phase        `json:"phase"`
	First  int64        `json:"first"`            // rev of the first document of the roll-out
	Rev    int64        `json:"rev"`              // of the one that is published
	Salt   string       `json:"salt"`             // the same in all stages, so that each reaches those of the one before
	Stages []float64    `json:"stages"`           // percent
	Stage  int          `json:"stage"`            // index of the one that runs, or ran last
	Since  time.Time    `json:"since"`            // when the document was issued
	Passed time.Time    `json:"passed,omitzero"`  // when enough devices of the stage had it
	Ended  []Count      `json:"ended,omitempty"`  // what stages had come to when they ended
	Reason string       `json:"reason,omitempty"` // why it is taken back
	Failed []Failure    `json:"failed,omitempty"` // what it was that failed then
	Wanted *ota.Desired `json:"wanted"`           // as it was given
	Before *ota.Desired `json:"before,omitempty"` // what is gone back to; nil: there was none
}

// Over says whether nothing is left to do.
func (s State) Over() bool { return s.Phase == Done || s.Phase == Aborted }

// Percent is the share of the devices that the document is for.
func (s State) Percent() float64 {
	switch {
	case s.Phase == Rolling || s.Phase == Done:
		return s.Stages[s.Stage]
	case s.Before == nil:
		return 0
	}
	return 100
}

// Document is what is published. States that are equal have equal ones.
func (s State) Document() *ota.Desired {
	from := s.Wanted
	back := s.Phase == Aborting || s.Phase == Aborted
	if back && s.Before != nil {
		from = s.Before
	}
	d := *from
	d.Rev, d.Target, d.IssuedAt = s.Rev, s.Wanted.Target, s.Since
	d.ExpiresAt = s.Since.Add(from.ExpiresAt.Sub(from.IssuedAt))
	d.Rollout.Salt, d.Rollout.Percent = s.Salt, s.Percent()
	if back && s.Before != nil {
		d.Rollout.Window, d.Rollout.JitterS = "", 0 // at once
		d.Models = s.goingBack()
	}
	return &d
}

// goingBack are the models of the document before. A device that has committed the new
// release refuses an older one, so the old bytes get the new number; those whose number
// is in a signed release record keep theirs.
func (s State) goingBack() []ota.Model {
	models := slices.Clone(s.Before.Models)
	for i := range models {
		m := &models[i]
		if w := s.Wanted.Find(m.Name); w != nil && m.Record == nil {
			m.Release = max(m.Release, w.Release)
		}
	}
	return models
}

// OneWay names the models that a device which has committed them cannot be taken back
// from: their release records say a lower number than the one that is rolled out.
func (s State) OneWay() []string {
	var names []string
	if s.Before == nil {
		return nil
	}
	for i := range s.Before.Models {
		m := &s.Before.Models[i]
		if w := s.Wanted.Find(m.Name); w != nil && m.Record != nil && m.Release < w.Release {
			names = append(names, m.Name)
		}
	}
	return names
}

// Topic is where the document is retained.
func (s State) Topic() string { return Topic(s.Wanted.Target) }

// Topic is where the documents of a target are retained.
func Topic(t ota.Target) string {
	if t.Group != "" {
		return control.GroupDesired(t.Group)
	}
	return control.Topics{Device: t.Device}.Desired()
}

// Encode is the state as it is stored.
func (s State) Encode() []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(s); err != nil {
		panic("fleet: internal error: " + err.Error()) // it holds nothing that cannot be written
	}
	return b.Bytes()
}

// ParseState reads a stored state. One of a later program is control.Incompatible; one
// that Step cannot be given is control.BadRequest.
func ParseState(data []byte) (State, error) {
	var s State
	var is struct {
		V int `json:"v"`
	}
	if err := json.Unmarshal(data, &is); err != nil {
		return State{}, control.Errorf(control.BadRequest, "this is no state of a roll-out: %v", err)
	}
	if is.V > stateVersion {
		return State{}, control.Errorf(control.Incompatible, "the roll-out was stored by a later program (version %d, this one reads %d): update it", is.V, stateVersion)
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return State{}, control.Errorf(control.BadRequest, "this is no state of a roll-out: %v", err)
	}
	if err := s.check(); err != nil {
		return State{}, err
	}
	return s, nil
}

// check holds a state to what Begin and Step make.
func (s State) check() error {
	bad := func(what string) error {
		return control.Errorf(control.BadRequest, "the state of the roll-out is damaged: %s", what)
	}
	switch {
	case s.V != stateVersion:
		return bad("it has a version that no program wrote")
	case !slices.Contains([]Phase{Rolling, Aborting, Aborted, Done}, s.Phase):
		return bad("there is no such phase")
	case s.First < 1 || s.Rev < s.First || s.Rev > maxRev || s.Since.IsZero() || s.Since.Year() > maxYear:
		return bad("the numbers of its documents do not fit")
	case s.Stage < 0 || s.Stage >= len(s.Stages) || len(s.Ended) > len(s.Stages):
		return bad("there is no such stage")
	case s.Wanted == nil:
		return bad("it does not say what is rolled out")
	}
	if err := checkStages(s.Stages); err != nil {
		return bad(err.Error())
	}
	for _, d := range []*ota.Desired{s.Wanted, s.Before} {
		if d == nil {
			continue
		}
		if _, err := ota.ParseDesired(d.Encode()); err != nil {
			return bad(err.Error())
		}
		if d.Target != s.Wanted.Target {
			return bad("its documents are for different devices")
		}
	}
	for _, s := range []State{s, s.Abort("", nil, s.Since)} {
		if _, err := ota.ParseDesired(s.Document().Encode()); err != nil {
			return bad(err.Error())
		}
	}
	return nil
}
