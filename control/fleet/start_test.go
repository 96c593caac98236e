// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"errors"
	"testing"

	"windhover/control"
	"windhover/control/fleet"
	"windhover/control/ota"
)

// Where a roll-out begins, goes on, or is refused.
func TestStart(t *testing.T) {
	under := begin(t)
	under.Stage, under.Rev = 1, 43
	aborted := begin(t).Abort("at 10 %: bad", nil, later)
	aborted.Phase = fleet.Aborted
	done := begin(t)
	done.Phase, done.Stage, done.Rev = fleet.Done, 3, 45
	partial := *document(43, 14)
	partial.Rollout.Percent, partial.Rollout.Salt = 10, "r42"
	forNobody := *document(43, 14)
	forNobody.Rollout.Percent = 0
	forged := ota.Sign(ota.TypeDesired, document(41, 3).Encode()).Encode()

	for name, c := range map[string]struct {
		wanted *ota.Desired
		known  fleet.Known
		code   control.Code // of the error; the zero value: none
		rev    int64
		before string // version that is gone back to
		stage  int
	}{
		"the first of all":             {document(1, 14), fleet.Known{}, control.Code{}, 1, "", 0},
		"devices know later documents": {document(1, 14), fleet.Known{Seen: 60}, control.Code{}, 61, "", 0},
		"after what is retained":       {document(1, 14), fleet.Known{Retained: sign(document(41, 13))}, control.Code{}, 42, "1.13.0", 0},
		"the number of the file":       {document(70, 14), fleet.Known{Retained: sign(document(41, 13))}, control.Code{}, 70, "1.13.0", 0},
		"retained, signed by nobody":   {document(1, 14), fleet.Known{Retained: forged}, control.SignatureMissing, 0, "", 0},
		"… but somebody says what":     {document(1, 14), fleet.Known{Retained: forged, Back: document(40, 12)}, control.Code{}, 41, "1.12.0", 0},
		"a lower release":              {document(1, 12), fleet.Known{Retained: sign(document(41, 13))}, control.RollbackRejected, 0, "", 0},
		"goes on":                      {document(1, 14), fleet.Known{Stored: &under}, control.Code{}, 43, "1.13.0", 1},
		"another one is under way":     {document(1, 15), fleet.Known{Stored: &under}, control.BadRequest, 0, "", 0},
		"was taken back":               {document(1, 14), fleet.Known{Stored: &aborted}, control.RollbackRejected, 0, "", 0},
		"the next one":                 {document(1, 15), fleet.Known{Stored: &aborted}, control.Code{}, 44, "1.13.0", 0},
		"is done":                      {document(1, 14), fleet.Known{Stored: &done}, control.Code{}, 45, "1.13.0", 3},
		"the one after":                {document(1, 15), fleet.Known{Stored: &done}, control.Code{}, 46, "1.14.0", 0},
		"an old one is replayed":       {document(1, 15), fleet.Known{Stored: &done, Retained: sign(document(7, 3))}, control.Code{}, 46, "1.14.0", 0},
		"somebody else came between":   {document(1, 16), fleet.Known{Stored: &done, Retained: sign(document(50, 15))}, control.Code{}, 51, "1.15.0", 0},
		"its file is lost":             {document(1, 14), fleet.Known{Retained: sign(&partial)}, control.BadRequest, 0, "", 0},
		"… but somebody says":          {document(1, 14), fleet.Known{Retained: sign(&partial), Back: document(41, 13)}, control.Code{}, 43, "1.13.0", 1},
		"what was for nobody":          {document(1, 15), fleet.Known{Retained: sign(&forNobody)}, control.Code{}, 44, "", 0},
	} {
		c.known.Keys = role(t)
		s, err := fleet.Start(c.wanted, c.known, fleet.DefaultStages, later)
		if c.code.Name != "" || err != nil {
			if c.code.Name == "" || !errors.Is(err, c.code) {
				t.Errorf("%s: %v, want %q", name, err, c.code.Name)
			}
			continue
		}
		before := ""
		if s.Before != nil {
			before = s.Before.Models[0].Version
		}
		if s.Rev != c.rev || before != c.before || s.Stage != c.stage {
			t.Errorf("%s: document %d in stage %d before which was %q, want %d, %d, %q", name, s.Rev, s.Stage, before, c.rev, c.stage, c.before)
		}
	}
	elsewhere := document(1, 14)
	elsewhere.Target = ota.Target{Group: "all"}
	if _, err := fleet.Start(elsewhere, fleet.Known{Stored: &under, Keys: role(t)}, fleet.DefaultStages, later); !errors.Is(err, control.BadRequest) {
		t.Errorf("the file of another group is taken: %v", err)
	}
	if _, err := fleet.Start(document(1, 14), fleet.Known{Keys: role(t)}, []float64{10, 5}, later); !errors.Is(err, control.BadRequest) {
		t.Errorf("stages that fall are taken: %v", err)
	}
}

// What is heard of devices, in whatever order and however broken.
func TestRoster(t *testing.T) {
	r := fleet.NewRoster()
	hear := func(topic, payload string) { r.Hear(topic, []byte(payload)) }
	hear("windhover/v1/edge10/status", `{"v":1,"state":"online","session":3}`)
	hear("windhover/v1/edge10/status", `{"v":1,"state":"offline","session":2}`) // a late will
	hear("windhover/v1/edge9/status", `{"v":1,"state":"offline","session":2}`)
	hear("windhover/v1/edge10/reported", `{"v":1,"rev":7,"target":"group/canary","groups":["canary"],"status":"current"}`)
	hear("windhover/v1/edge10/reported", `not JSON`)
	hear("windhover/v1/edge9/reported", `{"v":1,"rev":9,"target":"group/all","groups":["all"],"status":"held"}`)
	hear("windhover/v1/edge11/info", `{}`)
	hear("windhover/v1/BAD/status", `{"state":"online"}`)
	hear("something/else", `{}`)
	hear("windhover/v1/_group/canary/desired", "envelope")
	devices := r.Devices()
	if len(devices) != 2 || devices[0].Name != "edge9" || devices[1].Name != "edge10" || devices[0].Online() || !devices[1].Online() {
		t.Fatalf("heard of %+v", devices)
	}
	if m := r.Members(canary); len(m) != 1 || m[0].Name != "edge10" || m[0].Reported.Rev != 7 {
		t.Errorf("members %+v", m)
	}
	if r.Seen(canary) != 7 || string(r.Desired(canary)) != "envelope" || r.Desired(ota.Target{Group: "all"}) != nil {
		t.Errorf("seen %d, desired %q", r.Seen(canary), r.Desired(canary))
	}
	hear("windhover/v1/edge10/reported", "")
	if len(r.Members(canary)) != 0 {
		t.Error("a report that was taken away still counts")
	}
}
