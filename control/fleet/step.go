// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Limits say when a stage has gone well and when it has not. Shares are from 0 to 1.
type Limits struct {
	Success float64       // of the devices of a stage that are there, for the next stage
	Failure float64       // of those that came to an end, above which the roll-out is taken back
	Least   int           // devices that have to have come to an end before Failure counts
	Hold    time.Duration // how long a stage that has gone well is looked at before the next
}

// DefaultLimits are those of a roll-out that says none.
var DefaultLimits = Limits{Success: 0.95, Failure: 0.05, Least: 5}

// Step is what devices make of a state, looked at now. If its Rev is another one its
// document is to be published, once the state is stored.
func (s State) Step(devices []Device, lim Limits, now time.Time) State {
	if s.Over() {
		return s
	}
	c := s.Count(devices, s.Percent())
	if s.Phase == Aborting {
		if members := c.Due - c.Away; members > 0 && c.Open() == 0 {
			s.Phase = Aborted
		}
		return s
	}
	if why := lim.broken(c); why != "" {
		why = fmt.Sprintf("at %s %%: %s", Percentage(s.Percent()), why)
		if f := s.Failures(devices); len(f) > 0 {
			why += ": " + f[0].Code + ": " + f[0].Message
		}
		return s.Abort(why, devices, now)
	}
	if !lim.passed(c, s.members(devices)) {
		s.Passed = time.Time{}
		return s
	}
	if s.Passed.IsZero() {
		s.Passed = now.UTC().Round(0)
	}
	switch {
	case now.Sub(s.Passed) < lim.Hold:
	case s.Stage == len(s.Stages)-1:
		s.Phase, s.Ended = Done, s.ended(devices)
	default:
		s.Ended = s.ended(devices)
		s.Stage++
		s.next(now)
	}
	return s
}

// Abort takes the roll-out back: the document before goes out under a new number.
func (s State) Abort(why string, devices []Device, now time.Time) State {
	if s.Phase != Rolling {
		return s
	}
	s.Ended, s.Failed = s.ended(devices), s.Failures(devices)
	s.Phase, s.Reason = Aborting, why
	s.next(now)
	return s
}

// next makes room for another document.
func (s *State) next(now time.Time) {
	s.Rev++
	s.Since, s.Passed = after(s.Since, now), time.Time{}
}

// ended is what stages had come to, that of now included.
func (s State) ended(devices []Device) []Count {
	return append(slices.Clone(s.Ended), s.Count(devices, s.Percent()))
}

// members is how many devices are known to belong to the target.
func (s State) members(devices []Device) int {
	n := 0
	for _, d := range devices {
		if d.member(s.Wanted.Target) {
			n++
		}
	}
	return n
}

// broken says why a stage is not to go on, "" if it is. Too many have failed; or all
// that are there have come to an end, however few they are, and not enough of them well.
func (l Limits) broken(c Count) string {
	n := c.Executed()
	switch share := float64(c.Failed) / float64(n); {
	case c.Failed == 0:
	case n >= l.Least && share > l.Failure:
		return fmt.Sprintf("%d of %s failed, more than %s %%", c.Failed, devices(n), Percentage(100*l.Failure))
	case c.Open() == 0 && !l.enough(c):
		return fmt.Sprintf("%d of %s failed, and %s %% have to succeed", c.Failed, devices(n), Percentage(100*l.Success))
	}
	return ""
}

// devices is "1 device", "2 devices" …
func devices(n int) string {
	if n == 1 {
		return "1 device"
	}
	return fmt.Sprintf("%d devices", n)
}

// passed says whether a stage has gone well. One that reaches nobody has, if anybody
// is known at all: in a small group there may be no device for the first percent.
func (l Limits) passed(c Count, members int) bool {
	if c.Due == 0 {
		return members > c.Apart
	}
	return c.OK > 0 && l.enough(c)
}

// enough holds those that are done against those that are there.
func (l Limits) enough(c Count) bool {
	return float64(c.OK) >= l.Success*float64(c.Due-c.Away)
}

// Percentage is a number of percent as people write it.
func Percentage(p float64) string { return strconv.FormatFloat(p, 'f', -1, 64) }
