// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"errors"
	"time"

	"windhover/control"
	"windhover/control/ota"
)

// Known is what there is to know when a roll-out begins or goes on.
type Known struct {
	Stored   *State       // of the roll-out before, or of this one; nil: none
	Retained []byte       // the envelope that the broker has for the target; nil: none
	Keys     ota.Role     // of whose signatures it has to have one
	Back     *ota.Desired // what somebody says is to be gone back to; nil: nobody does
	Seen     int64        // the highest rev that devices report
}

// Start is the state that a roll-out of wanted begins with, or goes on with: the stored
// one, if it is of that; else one of what the broker retains. The errors say what is in
// the way, as control.BadRequest and control.RollbackRejected.
func Start(wanted *ota.Desired, k Known, stages []float64, now time.Time) (State, error) {
	target := wanted.Target
	if s := k.Stored; s != nil {
		switch {
		case s.Wanted.Target != target:
			return State{}, control.Errorf(control.BadRequest, "the stored roll-out is to %s, the document is for %s: name another --state", s.Wanted.Target, target)
		case s.Over() && !Same(s.Wanted, wanted):
		case s.Phase == Aborted:
			return State{}, control.Errorf(control.RollbackRejected, "this document was rolled out and taken back: %s: make a release of a higher number", s.Reason)
		case !s.Over() && !Same(s.Wanted, wanted):
			return State{}, control.Errorf(control.BadRequest, "a roll-out of another document to %s is under way, at document %d: let it end, or take it back with --abort and that document", target, s.Rev)
		default:
			return *s, nil
		}
	}
	published, err := k.published(target)
	if err != nil {
		return State{}, err
	}
	seen, before := k.Seen, k.Back
	if published != nil {
		seen = max(seen, published.Rev)
	}
	if k.Stored != nil {
		seen = max(seen, k.Stored.Rev)
	}
	switch {
	case before != nil:
	case k.Stored != nil && (published == nil || published.Rev <= k.Stored.Rev):
		before = k.Stored.Document()
	default:
		before = published
	}
	if published != nil && published.Rev == seen && before != nil && (k.Stored == nil || published.Rev != k.Stored.Rev) && published.Rollout.Percent > 0 && published.Rollout.Percent < 100 {
		if k.Back == nil {
			return State{}, control.Errorf(control.BadRequest, "document %d for %s is in the middle of a roll-out (%s %%) that is not stored here: give its file with --state, or say with --back what to go back to", published.Rev, target, Percentage(published.Rollout.Percent))
		}
		if s, ok := Resume(wanted, k.Back, published, stages); ok {
			return s, nil
		}
	}
	if before != nil && before.Rollout.Percent == 0 {
		before = nil // it was for nobody: there is nothing to go back to
	}
	return Begin(wanted, before, seen, stages, now)
}

// published is what the broker retains, nil for nothing. What it has that nobody can
// answer for is an error, unless it is not needed.
func (k Known) published(target ota.Target) (*ota.Desired, error) {
	if len(k.Retained) == 0 {
		return nil, nil
	}
	d, err := Published(k.Retained, target, k.Keys)
	if err == nil || k.Back != nil || k.Stored != nil {
		return d, nil
	}
	code := control.BadRequest
	var coded *control.Error
	if errors.As(err, &coded) {
		code = coded.Code
	}
	return nil, control.Errorf(code, "what the broker retains for %s cannot be gone back to: %v: say with --back what can", target, err)
}
