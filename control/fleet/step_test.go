// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"windhover/control"
	"windhover/control/fleet"
	"windhover/control/ota"
)

var later = noon.Add(2 * time.Hour)

// A release that holds goes through all stages, each a document of its own with the
// salt of the first, and reaches everybody.
func TestStages_P191(t *testing.T) {
	s, c := begin(t), newCrowd(200)
	var percents []float64
	reached := 0
	for i := 0; !s.Over(); i++ {
		d := s.Document()
		if d.Rev != 42+int64(i) || d.Rollout.Salt != "r42" || d.Rollout.Window != "02:00-05:00" || !Same(d, s.Wanted) {
			t.Fatalf("stage %d is %+v", i, d)
		}
		if d.ExpiresAt.Sub(d.IssuedAt) != 30*24*time.Hour || d.IssuedAt.Before(noon.Add(time.Hour)) {
			t.Errorf("stage %d counts from %v to %v", i, d.IssuedAt, d.ExpiresAt)
		}
		percents = append(percents, d.Rollout.Percent)
		if next := s.Step(c.devices, fleet.DefaultLimits, later); next.Rev != s.Rev || next.Over() {
			t.Fatalf("at %v %% it goes on before anybody has answered", s.Percent())
		}
		c.answer(s, always(control.DesiredRunning))
		if next := s.Step(c.devices, fleet.DefaultLimits, later); next.Rev != s.Rev || next.Over() {
			t.Fatalf("at %v %% it goes on before anybody has come to an end", s.Percent())
		}
		c.answer(s, always(control.DesiredCurrent))
		n := s.Count(c.devices, s.Percent())
		if n.OK != n.Due || n.Due <= reached {
			t.Errorf("at %v %%: %+v, %d before", s.Percent(), n, reached)
		}
		reached = n.Due
		s = s.Step(c.devices, fleet.DefaultLimits, later)
	}
	if s.Phase != fleet.Done || reached != 200 || !slices.Equal(percents, fleet.DefaultStages) || len(s.Ended) != 4 {
		t.Errorf("it ends %s with %d devices after %v: %+v", s.Phase, reached, percents, s.Ended)
	}
	if v := fleet.ViewOf(s, c.devices); len(v.Stages) != 4 || v.Stages[3].OK != 200 || v.Stages[3].Rev != 45 || !v.Stages[0].Ended {
		t.Errorf("it shows as %+v", v)
	}
}

func Same(a, b *ota.Desired) bool { return fleet.Same(a, b) }

// mixed is a result of which so many fail, so many have it, and the rest is at it.
func mixed(failed, current int) func(int) string {
	n := 0
	return func(int) string {
		switch n++; {
		case n <= failed:
			return control.DesiredFailed
		case n <= failed+current:
			return control.DesiredCurrent
		}
		return control.DesiredRunning
	}
}

// What takes a roll-out back, and what does not.
func TestThresholds_P192(t *testing.T) {
	const current, failed, running = control.DesiredCurrent, control.DesiredFailed, control.DesiredRunning
	for _, c := range []struct {
		name    string
		devices int
		percent float64
		result  func(due int) func(int) string
		want    string // stay, on or back
	}{
		{"all well", 200, 10, func(int) func(int) string { return always(current) }, "on"},
		{"one failed of the first four", 200, 50, func(int) func(int) string {
			k := first(1, failed, "")
			rest := first(3, current, running)
			return func(i int) string {
				if r := k(i); r != "" {
					return r
				}
				return rest(i)
			}
		}, "stay"},
		{"five failed, the rest is at it", 200, 50, func(int) func(int) string { return first(5, failed, running) }, "back"},
		{"five in a hundred failed", 1000, 10, func(due int) func(int) string { return first(due/20, failed, current) }, "on"},
		{"six in a hundred failed", 1000, 10, func(due int) func(int) string { return first(due*6/100+1, failed, current) }, "back"},
		{"4 of 64 failed, the rest is at it", 1000, 10, func(int) func(int) string { return mixed(4, 60) }, "back"},
		{"3 of 63 failed, the rest is at it", 1000, 10, func(int) func(int) string { return mixed(3, 60) }, "stay"},
		{"enough are done, some are at it", 1000, 10, func(due int) func(int) string { return first(due/20, running, current) }, "on"},
		{"too many are still at it", 1000, 10, func(due int) func(int) string { return first(due/10, running, current) }, "stay"},
		{"one of two failed", 345, 1, func(int) func(int) string { return first(1, failed, current) }, "back"},
		{"one of two failed, the other is at it", 345, 1, func(int) func(int) string { return first(1, failed, running) }, "stay"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, crowd := begin(t, c.percent, 100), newCrowd(c.devices)
			due := s.Count(crowd.devices, c.percent).Due
			crowd.answer(s, c.result(due))
			next := s.Step(crowd.devices, fleet.DefaultLimits, later)
			got := "stay"
			switch {
			case next.Phase == fleet.Aborting:
				got = "back"
			case next.Stage == 1:
				got = "on"
			}
			if got != c.want {
				t.Errorf("of %d: %s, want %s: %+v %s", due, got, c.want, s.Count(crowd.devices, c.percent), next.Reason)
			}
		})
	}
}

// Who is offline holds nothing up, but a stage in which nobody is there waits.
func TestAway(t *testing.T) {
	s, c := begin(t, 10, 100), newCrowd(200)
	off := 0
	for i := range c.devices {
		if fleet.Reached(s.Salt, c.devices[i].Name, 10) && off < 5 {
			c.devices[i].Status.State = control.StateOffline
			off++
		}
	}
	c.answer(s, always(control.DesiredCurrent))
	if n := s.Count(c.devices, 10); n.Away != 5 || n.OK+n.Away != n.Due {
		t.Errorf("counted %+v", n)
	}
	if next := s.Step(c.devices, fleet.DefaultLimits, later); next.Stage != 1 {
		t.Error("devices that are offline hold the stage up")
	}
	// A device that came to its end and then went counts.
	for i := range c.devices {
		c.devices[i].Status.State = control.StateOffline
	}
	if n := s.Count(c.devices, 10); n.Away != 5 || n.OK == 0 {
		t.Errorf("counted %+v after all have gone", n)
	}
	s, c = begin(t, 10, 100), newCrowd(200)
	for i := range c.devices {
		c.devices[i].Status.State = control.StateOffline
	}
	if next := s.Step(c.devices, fleet.DefaultLimits, later); next.Stage != 0 || next.Over() {
		t.Error("a stage without anybody there has gone well")
	}
}

// A small group has no device for the first percent; a group of which nobody is known
// is not rolled out to.
func TestNobody(t *testing.T) {
	s, c := begin(t, 0.01, 100), newCrowd(10)
	if n := s.Count(c.devices, 0.01); n.Due != 0 {
		t.Fatalf("%d are due", n.Due)
	}
	if next := s.Step(c.devices, fleet.DefaultLimits, later); next.Stage != 1 {
		t.Error("a stage for nobody does not end")
	}
	if next := s.Step(nil, fleet.DefaultLimits, later); next.Stage != 0 {
		t.Error("a group of which nobody is known is rolled out to")
	}
	strangers := newCrowd(10)
	for i := range strangers.devices {
		strangers.devices[i].Reported.Groups, strangers.devices[i].Reported.Target = []string{"all"}, "group/all"
	}
	if next := s.Step(strangers.devices, fleet.DefaultLimits, later); next.Stage != 0 {
		t.Error("devices of other groups are counted")
	}
}

// A device with a document of its own is neither due nor in the way.
func TestApart(t *testing.T) {
	s, c := begin(t, 100), newCrowd(10)
	c.devices[3].Reported = &control.Reported{V: 1, Rev: 9, Target: "device/edge3", Groups: []string{"canary"}, Status: control.DesiredFailed}
	keep := *c.devices[3].Reported
	c.answer(s, always(control.DesiredCurrent))
	c.devices[3].Reported = &keep
	if n := s.Count(c.devices, 100); n.Apart != 1 || n.Due != 9 || n.OK != 9 {
		t.Errorf("counted %+v", n)
	}
	if next := s.Step(c.devices, fleet.DefaultLimits, later); next.Phase != fleet.Done {
		t.Errorf("it is %s", next.Phase)
	}
}

// A device that says that it is current with something else has not answered.
func TestCurrentOfWhat(t *testing.T) {
	s, c := begin(t, 100), newCrowd(4)
	c.answer(s, always(control.DesiredCurrent))
	c.devices[0].Reported.Models = models(document(41, 13))
	c.devices[1].Reported.Rev = s.Rev + 1
	c.devices[2].Reported.Rev = s.First - 1
	if n := s.Count(c.devices, 100); n.OK != 1 || n.Waiting != 3 {
		t.Errorf("counted %+v", n)
	}
}

func TestHold(t *testing.T) {
	s, c := begin(t, 10, 100), newCrowd(200)
	lim := fleet.DefaultLimits
	lim.Hold = time.Hour
	c.answer(s, always(control.DesiredCurrent))
	if s = s.Step(c.devices, lim, later); s.Stage != 0 || s.Passed.IsZero() {
		t.Fatal("the stage is not looked at")
	}
	if s = s.Step(c.devices, lim, later.Add(59*time.Minute)); s.Stage != 0 {
		t.Error("the stage is not looked at for long enough")
	}
	if next := s.Step(c.devices, lim, later.Add(time.Hour)); next.Stage != 1 {
		t.Error("the stage is looked at for ever")
	}
	for i := range c.devices { // what went well does so no longer
		if c.devices[i].Reported.Status == control.DesiredCurrent {
			c.devices[i].Reported.Status = control.DesiredFailed
		}
	}
	if next := s.Step(c.devices, lim, later.Add(time.Hour)); next.Phase != fleet.Aborting {
		t.Error("what fails while it is looked at does not count")
	}
}

// A roll-out that is taken back ends when everybody who is there has the document
// before, and says what has failed.
func TestAbort(t *testing.T) {
	s, c := begin(t), newCrowd(200)
	c.answer(s, always(control.DesiredCurrent))
	s = s.Step(c.devices, fleet.DefaultLimits, later)
	c.answer(s, always(control.DesiredFailed))
	s = s.Step(c.devices, fleet.DefaultLimits, later)
	if s.Phase != fleet.Aborting || s.Rev != 44 || !strings.Contains(s.Reason, "at 10 %") || !strings.Contains(s.Reason, "health_check_failed") {
		t.Fatalf("it is %s at document %d: %s", s.Phase, s.Rev, s.Reason)
	}
	if again := s.Abort("twice", c.devices, later); again.Rev != s.Rev || again.Reason != s.Reason {
		t.Error("it is taken back twice")
	}
	if next := s.Step(c.devices, fleet.DefaultLimits, later); next.Over() {
		t.Fatal("it is over before anybody has gone back")
	}
	if o := s.Outcome(c.devices[0]); o != fleet.Waiting {
		t.Errorf("a device that has not heard of it counts as %q", o)
	}
	c.answer(s, always(control.DesiredCurrent))
	s = s.Step(c.devices, fleet.DefaultLimits, later)
	v := fleet.ViewOf(s, c.devices)
	if s.Phase != fleet.Aborted || len(v.Stages) != 3 || !v.Stages[2].Back || v.Stages[2].OK != 200 || v.Stages[1].Failed == 0 || v.Stages[1].OK != 0 {
		t.Errorf("it is %s: %+v", s.Phase, v.Stages)
	}
	if len(v.Failures) != 1 || v.Failures[0].Code != "health_check_failed" || len(v.Failures[0].Devices) != v.Stages[1].Failed || len(v.NotBack) != 0 {
		t.Errorf("what failed: %+v, and did not go back: %+v", v.Failures, v.NotBack)
	}
	if next := s.Step(nil, fleet.DefaultLimits, later); next.Phase != fleet.Aborted {
		t.Error("what is over goes on")
	}
}

// A fleet of one device that fails is told of as one.
func TestOneDeviceFails(t *testing.T) {
	s, c := begin(t), newCrowd(1)
	for range 4 { // the first stages may reach nobody
		c.answer(s, always(control.DesiredFailed))
		s = s.Step(c.devices, fleet.DefaultLimits, later)
	}
	if !strings.Contains(s.Reason, "1 of 1 device failed") {
		t.Errorf("it is %s: %s", s.Phase, s.Reason)
	}
}
