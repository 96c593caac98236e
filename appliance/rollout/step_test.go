// SPDX-License-Identifier: Apache-2.0

package rollout_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"testing"

	"windhover/appliance/rollout"
	"windhover/control"
	"windhover/control/ota"
	"windhover/internal/testdisk"
)

// anyEvent makes one of few versions of few models, so that they meet.
func anyEvent(rnd *rand.Rand, running []rollout.Run) rollout.Event {
	v := func() rollout.Version {
		n := rnd.Int64N(4)
		return rollout.Version{Version: "v", Release: 10 + n, SHA256: ota.Digest{byte(n)}}
	}
	model := []string{"a", "b"}[rnd.IntN(2)]
	if len(running) > 0 && rnd.IntN(3) > 0 { // mostly what was asked for is carried out
		r := running[rnd.IntN(len(running))]
		d := rollout.Done{Model: r.Model, Phase: r.Phase, SHA256: r.Version.SHA256}
		if rnd.IntN(6) > 0 {
			return d
		}
		codes := control.Codes()
		return rollout.Failed{Done: d, Err: control.Errorf(codes[rnd.IntN(len(codes))], "x")}
	}
	switch rnd.IntN(10) {
	case 0:
		return rollout.Boot{}
	case 1:
		return rollout.Cancel{Model: model}
	case 2:
		return rollout.Rollback{Model: model}
	case 3:
		return rollout.Forgive{Model: model, SHA256: v().SHA256}
	case 4:
		return rollout.Remove{Model: model}
	case 5:
		return rollout.Stopping{}
	case 6:
		return rollout.Seen{Memory: ota.Memory{Floors: map[string]int64{model: rnd.Int64N(12)}}}
	}
	return rollout.Want{Model: model, Update: rollout.Update{Version: v(), Rev: rnd.Int64N(3), Keep: rnd.IntN(4)}}
}

// Whatever happens in whatever order: Step changes nothing that it was given, gives the
// same twice, stores first, keeps what can be read again, and lowers no floor.
func TestStepInvariants(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	commits, lives := 0, 2000
	if testing.Short() {
		lives = 500
	}
	for range lives {
		s, running := rollout.State{V: 1}, []rollout.Run(nil)
		for range 60 {
			e := anyEvent(rnd, running)
			before, err := json.Marshal(s)
			if err != nil {
				t.Fatal(err)
			}
			next, actions := s.Step(e)
			same, sameActions := s.Step(e)
			if after, _ := json.Marshal(s); !bytes.Equal(after, before) {
				t.Fatalf("%T%+v changed %s to %s", e, e, before, after)
			}
			a, _ := json.Marshal([]any{next, actions})
			if b, _ := json.Marshal([]any{same, sameActions}); !bytes.Equal(a, b) {
				t.Fatalf("%T%+v: %s, and the second time %s", e, e, a, b)
			}
			for i, a := range actions {
				switch a := a.(type) {
				case rollout.Save:
					if i > 0 {
						t.Fatalf("%T%+v: stored after %v", e, e, actions[:i])
					}
				case rollout.Stop:
					running = nil
				case rollout.Run:
					running = append(running, a)
				case rollout.Report:
					if a.Status == rollout.Succeeded && a.Job == "" && !a.RolledBack {
						commits++
					}
				}
			}
			for model, floor := range s.Memory.Floors {
				if next.Memory.Floors[model] < floor {
					t.Fatalf("%T%+v lowers the floor of %s from %d to %d", e, e, model, floor, next.Memory.Floors[model])
				}
			}
			for model, m := range next.Models {
				if versions := len(m.Kept) + 2; m.Previous != nil && len(installed(m)) != versions {
					t.Fatalf("%T%+v: a version of %s is there twice: %+v", e, e, model, m)
				}
			}
			d := &testdisk.Disk{}
			if err := store(d).Save(next); err != nil {
				t.Fatal(err)
			}
			load(t, d) // holds it to what a state has to be
			s = next
			if _, boot := e.(rollout.Boot); boot { // what ran before a start is gone
				running = running[max(0, len(running)-4):]
			}
		}
	}
	if commits < 100 {
		t.Errorf("only %d versions were committed: the events are no good", commits)
	}
}

// installed are the digests of a model.
func installed(m *rollout.Slot) map[ota.Digest]bool {
	one := *m
	one.Update, one.Next = nil, nil
	return rollout.State{Models: map[string]*rollout.Slot{"m": &one}}.Installed()
}

// Versions on trial stay on trial over an orderly restart, and what is kept is what keep
// says.
func TestKeep_P151(t *testing.T) {
	for _, keep := range []int{1, 2, 3, 4} {
		d := &testdisk.Disk{}
		var all []*release
		var b *box
		for n := int64(11); n <= 15; n++ {
			r := newRelease(n)
			all = append(all, r)
			w := r.want(n)
			w.Update.Keep = keep
			if b, _ = life(t, d, nil, all, w); b.last().Status != rollout.Succeeded {
				t.Fatalf("release %d: %+v", n, b.last())
			}
		}
		names, err := d.List("/state/store")
		if err != nil || len(names) != keep || b.serving != all[4].SHA256 {
			t.Errorf("keep %d: %d versions in the store, %v", keep, len(names), err)
		}
		// Back as far as there is something, and never below what is refused.
		for back := 1; back < keep; back++ {
			if b, _ = life(t, d, nil, all, rollout.Rollback{Model: name, Job: "r"}); b.last().Status != rollout.Succeeded || b.serving != all[4-back].SHA256 {
				t.Errorf("keep %d: %d versions back: %+v", keep, back, b.last())
			}
		}
		if b, _ = life(t, d, nil, all, rollout.Rollback{Model: name}); b.last().Status != rollout.Rejected || b.serving != all[5-keep].SHA256 {
			t.Errorf("keep %d: further back: %+v", keep, b.last())
		}
		if s := load(t, d); s.Memory.Floors[name] != 15 {
			t.Errorf("keep %d: the floor is %d", keep, s.Memory.Floors[name])
		}
		// What was rolled back by hand is not installed by the document that wants it.
		if b, _ = life(t, d, nil, all, all[4].want(15)); keep > 1 && b.last().Status != rollout.Rejected {
			t.Errorf("keep %d: installed again: %+v", keep, b.last())
		}
		if b, _ = life(t, d, nil, all, rollout.Forgive{Model: name, SHA256: all[4].SHA256}, all[4].want(15)); b.last().Status != rollout.Succeeded || b.serving != all[4].SHA256 {
			t.Errorf("keep %d: forgiven: %+v", keep, b.last())
		}
	}
}

// Documents that were judged by an older memory take nothing away.
func TestMemoryNeverFalls(t *testing.T) {
	s := rollout.State{V: 1}
	s, _ = s.Step(rollout.Seen{Memory: ota.Memory{Targets: map[string]ota.Seen{"group/a": {Rev: 7}, "group/b": {Rev: 2}}, Floors: map[string]int64{"m": 5}}})
	s, _ = s.Step(rollout.Want{Model: "m", Update: rollout.Update{Version: rollout.Version{Release: 6}}, Memory: &ota.Memory{Targets: map[string]ota.Seen{"group/a": {Rev: 6}, "device/x": {Rev: 1}}, Floors: map[string]int64{"m": 4}}})
	if got := s.Memory; got.Targets["group/a"].Rev != 7 || got.Targets["group/b"].Rev != 2 || got.Targets["device/x"].Rev != 1 || got.Floors["m"] != 5 {
		t.Errorf("remembered %+v", got)
	}
}
