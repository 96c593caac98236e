// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"testing"
	"time"

	"windhover/control"
	"windhover/control/fleet"
	"windhover/control/ota"
)

// judge is a device that has what memory says.
func judge(t *testing.T, name string) ota.Judge {
	return ota.Judge{Device: ota.Device{Name: name, Groups: []string{"canary"}, Arch: "arm64", RAMBytes: 1 << 30}, Keys: ota.Keyring{Desired: role(t), Index: role(t)}}
}

// Taking a roll-out back is a document that every device takes: one that has committed
// the new release, whose floor an older number would be below, and one that has not.
func TestGoingBack_P192(t *testing.T) {
	s := begin(t)
	j := judge(t, "edge1")
	at := func(d *ota.Desired) ota.Clock { return ota.Clock{Now: d.IssuedAt.Add(time.Minute), Sane: true} }
	before := document(41, 13)
	_, m, err := j.Accept(sign(before), ota.Memory{}, at(before))
	if err != nil {
		t.Fatal(err)
	}
	d := s.Document()
	if _, m, err = j.Accept(sign(d), m, at(d)); err != nil {
		t.Fatal(err)
	}
	committed := m.Raise("m", 14)
	s = s.Abort("by hand", nil, later)
	back := s.Document()
	for what, m := range map[string]ota.Memory{"committed": committed, "held": m} {
		a, _, err := j.Accept(sign(back), m, at(back))
		if err != nil {
			t.Errorf("a device that has %s the new release refuses to go back: %v", what, err)
			continue
		}
		got := a.Desired.Models[0]
		if a.Held || got.SHA256 != before.Models[0].SHA256 || got.Version != "1.13.0" || got.Release != 14 {
			t.Errorf("it goes back to %+v, held %v", got, a.Held)
		}
		if w := a.Desired.Rollout; w.Window != "" || w.JitterS != 0 || w.MaxBPS != 4000000 {
			t.Errorf("going back waits, or knows no limits: %+v", w)
		}
	}
	if s.Before.Models[0].Release != 13 {
		t.Error("the document before was changed")
	}
	// The next release is above what devices have now.
	if _, err := fleet.Begin(document(50, 13), back, 44, fleet.DefaultStages, later); !errors.Is(err, control.RollbackRejected) {
		t.Errorf("a release below is rolled out: %v", err)
	}
	next, err := fleet.Begin(document(1, 15), back, 44, fleet.DefaultStages, later)
	if err != nil || next.First != 45 || !next.Since.After(back.IssuedAt) && next.Since.Before(later) {
		t.Errorf("the next roll-out is %+v, %v", next, err)
	}
}

// Release records say numbers that nobody here may change.
func TestGoingBackWithRecords(t *testing.T) {
	before := document(41, 13)
	before.Models[0].Record = ota.Sign(ota.TypeRelease, ota.ReleaseOf(&before.Models[0], noon).Encode(), key)
	s, err := fleet.Begin(document(42, 14), before, 0, fleet.DefaultStages, later)
	if err != nil {
		t.Fatal(err)
	}
	if d := s.Abort("by hand", nil, later).Document(); d.Models[0].Release != 13 {
		t.Errorf("the release of a record became %d", d.Models[0].Release)
	}
	if names := s.OneWay(); len(names) != 1 || names[0] != "m" {
		t.Errorf("it does not say that committed devices stay: %q", names)
	}
	if names := begin(t).OneWay(); len(names) != 0 {
		t.Errorf("without records: %q", names)
	}
}

// Without a document before, taking back reaches nobody any more.
func TestAbortFirst(t *testing.T) {
	s, err := fleet.Begin(document(1, 14), nil, 0, []float64{10, 100}, later)
	if err != nil || s.First != 1 {
		t.Fatal(err, s.First)
	}
	c := newCrowd(200)
	c.answer(s, always(control.DesiredFailed))
	s = s.Step(c.devices, fleet.DefaultLimits, later)
	d := s.Document()
	if s.Phase != fleet.Aborting || d.Rollout.Percent != 0 || d.Rev != 2 {
		t.Fatalf("it is %s, document %+v", s.Phase, d)
	}
	c.answer(s, always(control.DesiredCurrent)) // whom it reaches, which is nobody
	if s = s.Step(c.devices, fleet.DefaultLimits, later); s.Phase != fleet.Aborted {
		t.Errorf("it is %s", s.Phase)
	}
}

// A state that was stored is the same state, whose document has the same bytes.
func TestStateIsStored_P195(t *testing.T) {
	s, c := begin(t), newCrowd(200)
	states := []fleet.State{s}
	for i := range 4 {
		c.answer(s, always([]string{control.DesiredCurrent, control.DesiredFailed, control.DesiredCurrent, control.DesiredCurrent}[i]))
		s = s.Step(c.devices, fleet.DefaultLimits, later.Add(time.Duration(i)*time.Minute))
		states = append(states, s)
	}
	for _, s := range states {
		again, err := fleet.ParseState(s.Encode())
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(again.Encode(), s.Encode()) || !bytes.Equal(sign(again.Document()), sign(s.Document())) {
			t.Errorf("%s at document %d is another one when it was stored", s.Phase, s.Rev)
		}
	}
	for name, c := range map[string]struct {
		change func(*fleet.State)
		code   control.Code
	}{
		"later program": {func(s *fleet.State) { s.V = 2 }, control.Incompatible},
		"no phase":      {func(s *fleet.State) { s.Phase = "lost" }, control.BadRequest},
		"no stage":      {func(s *fleet.State) { s.Stage = 4 }, control.BadRequest},
		"no document":   {func(s *fleet.State) { s.Wanted = nil }, control.BadRequest},
		"rev below":     {func(s *fleet.State) { s.Rev = 1 }, control.BadRequest},
		"bad document":  {func(s *fleet.State) { s.Before = &ota.Desired{} }, control.BadRequest},
		"bad stages":    {func(s *fleet.State) { s.Stages = []float64{50, 10, 60, 70} }, control.BadRequest},
	} {
		bad := begin(t)
		c.change(&bad)
		if _, err := fleet.ParseState(bad.Encode()); !errors.Is(err, c.code) {
			t.Errorf("%s: %v, want %s", name, err, c.code.Name)
		}
	}
}

// Whom the fleet's side counts as reached is whom the device's side holds not.
func TestReachedIsNotHeld(t *testing.T) {
	s := begin(t, 10, 37.5, 100)
	for range 2 {
		d := s.Document()
		for i := range 300 {
			name := fmt.Sprintf("edge%d", i)
			a, _, err := judge(t, name).Accept(sign(d), ota.Memory{}, ota.Clock{Now: d.IssuedAt, Sane: true})
			if err != nil {
				t.Fatal(err)
			}
			if a.Held == fleet.Reached(d.Rollout.Salt, name, d.Rollout.Percent) {
				t.Fatalf("%s at %v %%: held %v and reached", name, d.Rollout.Percent, a.Held)
			}
		}
		s.Stage++
	}
}

// What a broker retains is signed anew when a roll-out is taken back, so that it has to
// have the signature of the fleet.
func TestPublished_P196(t *testing.T) {
	d := document(41, 13)
	if got, err := fleet.Published(sign(d), canary, role(t)); err != nil || got.Rev != 41 {
		t.Errorf("%+v, %v", got, err)
	}
	other := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{'b'}, ed25519.SeedSize))
	if _, err := fleet.Published(ota.Sign(ota.TypeDesired, d.Encode(), other).Encode(), canary, role(t)); !errors.Is(err, control.KeyUnknown) {
		t.Errorf("signed by somebody else: %v", err)
	}
	if _, err := fleet.Published(sign(d), ota.Target{Group: "all"}, role(t)); !errors.Is(err, control.WrongTarget) {
		t.Errorf("of another group: %v", err)
	}
}

// A roll-out whose state was lost goes on from what is published.
func TestResume(t *testing.T) {
	s := begin(t)
	s.Stage, s.Rev = 1, 43
	published := s.Document()
	r, ok := fleet.Resume(s.Wanted, s.Before, published, fleet.DefaultStages)
	if !ok || r.Stage != 1 || r.Rev != 43 || r.First != 42 || !bytes.Equal(sign(r.Document()), sign(published)) {
		t.Errorf("%v: it goes on as %+v", ok, r)
	}
	if _, ok := fleet.Resume(document(1, 15), s.Before, published, fleet.DefaultStages); ok {
		t.Error("it goes on with another document")
	}
	if _, ok := fleet.Resume(s.Wanted, s.Before, published, []float64{5, 100}); ok {
		t.Error("it goes on with other stages")
	}
}

// No stored state, however broken, breaks the program.
func FuzzParseState(f *testing.F) {
	f.Add([]byte(`{"v":1}`))
	f.Add(begin(f).Encode())
	f.Add(begin(f).Abort("x", newCrowd(3).devices, later).Encode())
	devices := newCrowd(20).devices
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := fleet.ParseState(data)
		if err != nil {
			return
		}
		for range 3 {
			s = s.Step(devices, fleet.DefaultLimits, later)
			_, _ = s.Document(), fleet.ViewOf(s, devices)
		}
		if _, err := fleet.ParseState(s.Encode()); err != nil {
			t.Errorf("a state that Step made cannot be read: %v", err)
		}
	})
}
