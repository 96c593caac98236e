// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"errors"
	"fmt"
	"time"

	"windhover/control"
	"windhover/control/ota"
)

// DefaultStages are the percentages of a roll-out that says none.
var DefaultStages = []float64{1, 10, 50, 100}

// Begin makes the first state of a roll-out of wanted, whose percentage counts for
// nothing. before is what the target was to run until now, nil for nothing; seen is the
// highest rev that anybody knows of the target. The errors are control.BadRequest and,
// for a release that devices would refuse, control.RollbackRejected.
func Begin(wanted, before *ota.Desired, seen int64, stages []float64, now time.Time) (State, error) {
	if err := checkStages(stages); err != nil {
		return State{}, control.Errorf(control.BadRequest, "%v", err)
	}
	first := max(wanted.Rev, seen+1)
	if before != nil {
		if before.Target != wanted.Target {
			return State{}, control.Errorf(control.BadRequest, "the document to go back to is for %s, the new one for %s", before.Target, wanted.Target)
		}
		for i := range wanted.Models {
			m := &wanted.Models[i]
			if old := before.Find(m.Name); old != nil && m.Release < old.Release {
				return State{}, control.Errorf(control.RollbackRejected, "model %q: release %d is below %d, which devices have now and do not go below: give it a higher release", m.Name, m.Release, old.Release)
			}
		}
		first = max(first, before.Rev+1)
	}
	s := State{
		V: stateVersion, Phase: Rolling, First: first, Rev: first, Salt: wanted.Rollout.Salt,
		Stages: stages, Since: now.UTC().Truncate(time.Second), Wanted: wanted, Before: before,
	}
	if before != nil {
		s.Since = after(before.IssuedAt, now)
	}
	if s.Salt == "" {
		s.Salt = fmt.Sprintf("r%d", first)
	}
	return s, nil
}

// Resume makes the state of a roll-out whose own was lost, of the document that is
// published; ok is false if that is no stage of it.
func Resume(wanted, before, published *ota.Desired, stages []float64) (s State, ok bool) {
	if checkStages(stages) != nil || !Same(wanted, published) {
		return State{}, false
	}
	for i, p := range stages {
		if p == published.Rollout.Percent {
			s = State{
				V: stateVersion, Phase: Rolling, First: max(1, published.Rev-int64(i)), Rev: published.Rev, Salt: published.Rollout.Salt,
				Stages: stages, Stage: i, Since: published.IssuedAt, Wanted: wanted, Before: before,
			}
			return s, s.check() == nil
		}
	}
	return State{}, false
}

// Same says whether two documents ask for the same, whatever their numbers, their times
// and their percentages.
func Same(a, b *ota.Desired) bool {
	alike := func(d *ota.Desired) string {
		c := *d
		c.Rev, c.IssuedAt, c.ExpiresAt = 1, time.Time{}, time.Time{}
		c.Rollout.Salt, c.Rollout.Percent = "", 100
		return string(c.Encode())
	}
	return alike(a) == alike(b)
}

// Published reads the envelope that is retained for a target, and believes it only with
// signatures of the role: what is read from a broker is signed anew when a roll-out is
// taken back, and must not be what somebody else put there.
func Published(data []byte, target ota.Target, r ota.Role) (*ota.Desired, error) {
	e, err := ota.ParseEnvelope(data, ota.MaxDocument)
	if err != nil {
		return nil, err
	}
	payload, _, err := e.Open(ota.TypeDesired, r)
	if err != nil {
		return nil, err
	}
	d, err := ota.ParseDesired(payload)
	if err != nil {
		return nil, err
	}
	if d.Target != target {
		return nil, control.Errorf(control.WrongTarget, "the document is for %s, where one for %s belongs", d.Target, target)
	}
	return d, nil
}

// checkStages holds percentages to rise, up to 100 at most.
func checkStages(stages []float64) error {
	if len(stages) == 0 {
		return errors.New("there are no stages")
	}
	last := 0.0
	for _, p := range stages {
		if !(p > last && p <= 100) { // NaN neither
			return fmt.Errorf("stages %v do not rise from above 0 to at most 100", stages)
		}
		last = p
	}
	return nil
}

// after is the time of a document that is to count as later than one issued at before,
// whatever the clock here says.
func after(before, now time.Time) time.Time {
	now = now.UTC().Truncate(time.Second)
	if !now.After(before) {
		now = before.Add(time.Second)
	}
	return now
}
