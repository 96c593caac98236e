// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"maps"
	"slices"
	"strings"

	"windhover/control"
	"windhover/control/ota"
)

// Outcome is what a device has made of a roll-out.
type Outcome string

// The outcomes. Each device has one.
const (
	NotDue  Outcome = "not due" // a later stage reaches it
	Waiting Outcome = "waiting" // it has not answered yet, or not begun
	Running Outcome = "running" // it is at it
	OK      Outcome = "done"    // it has what it is to have, and that holds
	Failed  Outcome = "failed"  // it has refused the document, or given the model up
	Away    Outcome = "away"    // it is offline, and has not come to an end
	Apart   Outcome = "own"     // a document of its own counts for it
)

// Count is how many devices have come to what, of those that are due.
type Count struct {
	Due     int `json:"due"`
	OK      int `json:"done"`
	Failed  int `json:"failed"`
	Running int `json:"running"`
	Waiting int `json:"waiting"`
	Away    int `json:"away"`
	Apart   int `json:"own"` // not counted in Due
}

// Open are those from whom an end can be expected.
func (c Count) Open() int { return c.Running + c.Waiting }

// Executed are those that have come to an end.
func (c Count) Executed() int { return c.OK + c.Failed }

// Reached says whether documents with a salt and a percentage are for a device.
func Reached(salt, device string, percent float64) bool {
	return float64(ota.Bucket(salt, device)) < percent*100
}

// Outcome judges what a device reports by the document that is published.
func (s State) Outcome(d Device) Outcome { return s.outcome(d, s.Percent()) }

func (s State) outcome(d Device, percent float64) Outcome {
	back := s.Phase == Aborting || s.Phase == Aborted
	switch {
	case s.Wanted.Target.Group != "" && d.Reported != nil && strings.HasPrefix(d.Reported.Target, "device/"):
		return Apart
	case !back && !Reached(s.Salt, d.Name, percent):
		return NotDue
	}
	o := s.answer(d.Reported, back)
	if (o == Waiting || o == Running) && !d.Online() {
		return Away
	}
	return o
}

// answer is the outcome by what is reported. While a roll-out goes forward, what a
// device has come to in an earlier stage counts; when it is taken back, nothing but the
// last document does.
func (s State) answer(r *control.Reported, back bool) Outcome {
	least := s.First
	if back {
		least = s.Rev
	}
	if r == nil || r.Target != s.Wanted.Target.String() || r.Rev < least || r.Rev > s.Rev {
		return Waiting
	}
	switch r.Status {
	case control.DesiredFailed:
		return Failed
	case control.DesiredRunning:
		return Running
	case control.DesiredHeld:
		if back && s.Before == nil {
			return OK // nobody is to go on, and it does not
		}
	case control.DesiredCurrent:
		if s.has(r, back) {
			return OK
		}
	}
	return Waiting
}

// has says whether a device reports every model that the document asks for.
func (s State) has(r *control.Reported, back bool) bool {
	want := s.Wanted.Models
	if back && s.Before != nil {
		want = s.Before.Models
	}
	for i := range want {
		sum := want[i].SHA256.String()
		if !slices.ContainsFunc(r.Models, func(m control.ReportedModel) bool { return m.Name == want[i].Name && m.SHA256 == sum }) {
			return false
		}
	}
	return true
}

// Count counts the members of the target at a percentage.
func (s State) Count(devices []Device, percent float64) Count {
	var c Count
	for _, d := range devices {
		if !d.member(s.Wanted.Target) {
			continue
		}
		o := s.outcome(d, percent)
		switch o {
		case NotDue:
			continue
		case Apart:
			c.Apart++
			continue
		case OK:
			c.OK++
		case Failed:
			c.Failed++
		case Running:
			c.Running++
		case Waiting:
			c.Waiting++
		case Away:
			c.Away++
		}
		c.Due++
	}
	return c
}

// Failure is a code with the devices that report it.
type Failure struct {
	Code    string   `json:"code"`
	Devices []string `json:"devices"`
	Message string   `json:"message"` // of the first of them
}

// Failures are those of the devices that failed, the most frequent first.
func (s State) Failures(devices []Device) []Failure {
	by := map[string]*Failure{}
	for _, d := range devices {
		if !d.member(s.Wanted.Target) || s.Outcome(d) != Failed {
			continue
		}
		err := reason(d.Reported)
		f := by[err.Code.Name]
		if f == nil {
			f = &Failure{Code: err.Code.Name, Message: err.Message}
			by[err.Code.Name] = f
		}
		f.Devices = append(f.Devices, d.Name)
	}
	list := make([]Failure, 0, len(by))
	for _, code := range slices.Sorted(maps.Keys(by)) {
		list = append(list, *by[code])
	}
	slices.SortStableFunc(list, func(a, b Failure) int { return len(b.Devices) - len(a.Devices) })
	return list
}

// reason is why a device failed.
func reason(r *control.Reported) *control.Error {
	if r.Error != nil {
		return r.Error
	}
	for _, m := range r.Models {
		if m.Error != nil {
			return m.Error
		}
	}
	return &control.Error{Code: control.Code{Name: "unknown"}, Message: "the device does not say why"}
}
