// SPDX-License-Identifier: Apache-2.0

package rollout_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"windhover/appliance/rollout"
	"windhover/control"
	"windhover/control/ota"
	"windhover/internal/testdisk"
)

func TestUpdate(t *testing.T) {
	old, fresh := newRelease(13), newRelease(14)
	d := world(t, old)
	b, _ := life(t, d, nil, []*release{old, fresh}, fresh.want(42))
	want := []rollout.Phase{rollout.Restore, rollout.Download, rollout.Verify, rollout.Stage, rollout.Load, rollout.Probe, rollout.Switch, rollout.Observe}
	if !slices.Equal(b.steps, want) || b.serving != fresh.SHA256 {
		t.Errorf("steps %v, %s serves", b.steps, b.serving)
	}
	for i, r := range b.reports[:len(b.reports)-1] {
		if r.Status != rollout.Running || r.Phase != want[i+1] || r.Job != "j" || r.Rev != 42 || r.Model != name {
			t.Errorf("report %d: %+v", i, r)
		}
	}
	// Again: it is there.
	if b, _ = life(t, d, nil, []*release{old, fresh}, fresh.want(43)); b.last().Status != rollout.Succeeded || len(b.steps) != 1 {
		t.Errorf("again: %+v, steps %v", b.last(), b.steps)
	}
	// An older one is not taken.
	if b, _ = life(t, d, nil, []*release{old, fresh}, old.want(44)); !errors.Is(b.last().Err, control.RollbackRejected) {
		t.Errorf("an older release: %+v", b.last())
	}
	if b, _ = life(t, d, nil, []*release{old, fresh}, rollout.Remove{Model: name}); b.last().Status != rollout.Succeeded || b.serving != (ota.Digest{}) || len(d.Names()) != 1 {
		t.Errorf("removed: %+v, left %v", b.last(), d.Names())
	}
	if b, _ = life(t, d, nil, []*release{old, fresh}, rollout.Remove{Model: name}, old.want(45)); !errors.Is(b.last().Err, control.RollbackRejected) {
		t.Errorf("after the removal, an older release: %+v", b.last())
	}
}

// Each phase that fails leaves the old version, with the code of the failure, or of the
// phase.
func TestFailures_P161(t *testing.T) {
	for _, phase := range []rollout.Phase{rollout.Download, rollout.Verify, rollout.Stage, rollout.Load, rollout.Probe, rollout.Switch, rollout.Observe} {
		old, fresh := newRelease(13), newRelease(14)
		fresh.bad = phase
		d := world(t, old)
		b, _ := life(t, d, nil, []*release{old, fresh}, fresh.want(42))
		r := b.last()
		if back := !slices.Contains([]rollout.Phase{rollout.Download, rollout.Verify, rollout.Stage}, phase); r.Status != rollout.Failure || r.RolledBack != back || !errors.Is(r.Err, control.HealthCheckFailed) {
			t.Errorf("%s: %+v", phase, r)
		}
		if s := load(t, d); b.serving != old.SHA256 || s.Running() || s.Models[name].Tentative || len(d.Names()) != 2 {
			t.Errorf("%s: %s serves, %v", phase, b.serving, d.Names())
		}
	}
	// Without an old version nothing serves, and nothing is left.
	fresh := newRelease(14)
	fresh.bad = rollout.Observe
	d := &testdisk.Disk{}
	if b, _ := life(t, d, nil, []*release{fresh}, fresh.want(1)); b.serving != (ota.Digest{}) || len(d.Names()) != 1 || b.last().Status != rollout.Failure {
		t.Errorf("the first version: %s serves, %v", b.serving, d.Names())
	}
}

// running starts a machine whose box waits in a phase, and lets the test send events.
func running(t *testing.T, d *testdisk.Disk, phase rollout.Phase, releases ...*release) (b *box, events chan<- rollout.Event, end func()) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	b = newBox(d, stop, releases...)
	b.hold = map[rollout.Phase]chan struct{}{phase: make(chan struct{})}
	m, err := rollout.Open(store(d), b)
	if err != nil {
		t.Fatal(err)
	}
	queue, ended := make(chan rollout.Event), make(chan error, 1)
	go func() { ended <- m.Run(ctx, queue, nil) }()
	return b, queue, func() {
		t.Helper()
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the machine ended: %v", err)
		}
	}
}

// An update is given up at once in any phase, the old version serves, and a canceled
// version may be asked for again.
func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, phase := range []rollout.Phase{rollout.Download, rollout.Load, rollout.Probe, rollout.Observe} {
			old, fresh := newRelease(13), newRelease(14)
			d := world(t, old)
			b, events, end := running(t, d, phase, old, fresh)
			events <- fresh.want(42)
			synctest.Wait()
			events <- rollout.Cancel{Model: name}
			synctest.Wait()
			if r := b.last(); r.Status != rollout.Canceled || b.serving != old.SHA256 {
				t.Errorf("%s: %+v, %s serves", phase, r, b.serving)
			}
			close(b.hold[phase])
			events <- fresh.want(42)
			synctest.Wait()
			if r := b.last(); r.Status != rollout.Succeeded || b.serving != fresh.SHA256 {
				t.Errorf("%s: again: %+v", phase, r)
			}
			end()
		}
	})
}

// Another version is asked for: a download is given up for it, a trial is not.
func TestAskedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, phase := range []rollout.Phase{rollout.Download, rollout.Load, rollout.Observe} {
			old, fresh, later := newRelease(13), newRelease(14), newRelease(15)
			d := world(t, old)
			b, events, end := running(t, d, phase, old, fresh, later)
			events <- fresh.want(42)
			synctest.Wait()
			events <- later.want(43)
			synctest.Wait()
			status := map[bool]rollout.Status{true: rollout.Queued, false: rollout.Canceled}[phase == rollout.Observe]
			if r := b.last(); r.Status != status {
				t.Errorf("%s: %+v, want %s", phase, r, status)
			}
			close(b.hold[phase])
			synctest.Wait()
			if r := b.last(); r.Status != rollout.Succeeded || r.Rev != 43 || b.serving != later.SHA256 {
				t.Errorf("%s: in the end: %+v", phase, r)
			}
			end()
			if s := load(t, d); s.Models[name].Next != nil || s.Memory.Floors[name] != 15 {
				t.Errorf("%s: %+v", phase, s.Models[name])
			}
		}
	})
}

// A roll-out is taken back while it is under way: the version before serves at once,
// nothing is condemned, and the floor is not raised.
func TestTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, phase := range []rollout.Phase{rollout.Download, rollout.Load, rollout.Observe} {
			old, fresh := newRelease(13), newRelease(14)
			d := world(t, old)
			b, events, end := running(t, d, phase, old, fresh)
			events <- fresh.want(42)
			synctest.Wait()
			events <- old.want(43)
			synctest.Wait()
			if r := b.last(); r.Status != rollout.Succeeded || r.Rev != 43 || b.serving != old.SHA256 {
				t.Errorf("%s: %+v, %s serves", phase, r, b.serving)
			}
			end()
			s := load(t, d)
			if m := s.Models[name]; s.Running() || m.Current.SHA256 != old.SHA256 || m.Next != nil || len(m.Refused) != 0 || s.Memory.Floors[name] != 13 {
				t.Errorf("%s: %+v, floor %d", phase, m, s.Memory.Floors[name])
			}
		}
	})
}

// The end of a step back is told when it has been made, not before; if the older version
// does not load, that is what is told.
func TestBackIsToldAtItsEnd_P180(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, loads := range []bool{true, false} {
			old, fresh := newRelease(13), newRelease(14)
			d := world(t, old)
			b, events, end := running(t, d, rollout.Restore, old, fresh)
			close(b.hold[rollout.Restore]) // of the start
			events <- fresh.want(42)
			synctest.Wait()
			if b.serving != fresh.SHA256 {
				t.Fatalf("%s serves", b.serving)
			}
			b.mu.Lock()
			b.hold[rollout.Restore] = make(chan struct{})
			b.mu.Unlock()
			events <- rollout.Rollback{Model: name, Job: "back"}
			synctest.Wait()
			if r := b.last(); r.Job == "back" || b.serving != fresh.SHA256 {
				t.Errorf("told before it is so: %+v", r)
			}
			if !loads {
				old.bad = rollout.Restore
			}
			close(b.hold[rollout.Restore])
			synctest.Wait()
			var r rollout.Report
			for _, told := range b.reports {
				if told.Job == "back" {
					r = told
				}
			}
			if want := map[bool]rollout.Status{true: rollout.Succeeded, false: rollout.Failure}[loads]; r.Status != want || loads != (b.serving == old.SHA256) || loads != (r.Err == nil) {
				t.Errorf("loads %v: %+v, %s serves", loads, r, b.serving)
			}
			end()
		}
	})
}

// What waits for the end of a trial begins after a start too.
func TestAskedMeanwhileAndRestarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, fresh, later := newRelease(13), newRelease(14), newRelease(15)
		d := world(t, old)
		_, events, end := running(t, d, rollout.Observe, old, fresh, later)
		events <- fresh.want(42)
		synctest.Wait()
		events <- later.want(43)
		synctest.Wait()
		if load(t, d).Models[name].Next == nil {
			t.Fatal("nothing waits")
		}
		end()
		if b, _ := life(t, d, nil, []*release{old, fresh, later}); b.serving != later.SHA256 {
			t.Errorf("%s serves", b.serving)
		}
	})
}

// An orderly stop is not the fault of the version on trial; going down is.
func TestOrderlyStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, fresh := newRelease(13), newRelease(14)
		d := world(t, old)
		for range 5 {
			b, events, end := running(t, d, rollout.Observe, old, fresh)
			if !load(t, d).Running() {
				events <- fresh.want(42)
			}
			synctest.Wait()
			if b.serving != fresh.SHA256 {
				t.Fatalf("%s serves", b.serving)
			}
			end()
			if m := load(t, d).Models[name]; !m.Tentative || m.BootsLeft != 2 {
				t.Fatalf("after the stop: %+v", m)
			}
			d.Restart(testdisk.Everything, 0)
		}
	})
}

// An installed version that does not load: the one before serves for this time, and the
// next start tries again.
func TestInstalledDoesNotLoad(t *testing.T) {
	old, fresh := newRelease(13), newRelease(14)
	d := world(t, old)
	life(t, d, nil, []*release{old, fresh}, fresh.want(42))
	fresh.bad = rollout.Restore
	b, _ := life(t, d, nil, []*release{old, fresh})
	if r := b.last(); b.serving != old.SHA256 || r.Status != rollout.Failure || !r.RolledBack {
		t.Errorf("%s serves, %+v", b.serving, r)
	}
	fresh.bad = ""
	if b, _ = life(t, d, nil, []*release{old, fresh}); b.serving != fresh.SHA256 {
		t.Errorf("at the next start %s serves", b.serving)
	}
}

// A state of a later program, or a damaged one, stays as it is.
func TestStateRefused(t *testing.T) {
	for _, c := range []struct {
		text string
		want control.Code
		says string
	}{
		{`{"v":2,"slots":[]}`, control.Incompatible, "version 2"},
		{`{"v":0}`, control.Internal, "no program wrote"},
		{`{"v":1,"models":{"m":null}}`, control.Internal, "is null"},
		{`{"v":1,"models":{"m":{"tentative":true}}}`, control.Internal, "boots_left"},
		{`{"v":1,"models":{"m":{"tentative":true,"boots_left":1}}}`, control.Internal, "not the update"},
		{`{"v":1,"models":{"m":{"previous":{}}}}`, control.Internal, "no current"},
		{`{"v":1,"models":{"m":{"current":{},"kept":[{}]}}}`, control.Internal, "no previous"},
		{`{"v":1,`, control.Internal, "damaged"},
		{``, control.Internal, "damaged"},
	} {
		d := &testdisk.Disk{}
		d.Put(statedir+"/active.json", []byte(c.text), 0o600)
		_, err := rollout.Open(store(d), newBox(d, nil))
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "active.json") {
			t.Errorf("%s: %v, want %s and %q", c.text, err, c.want.Name, c.says)
		}
		if got := d.Get(statedir + "/active.json"); !bytes.Equal(got, []byte(c.text)) || len(d.Names()) != 1 {
			t.Errorf("%s became %s, %v", c.text, got, d.Names())
		}
	}
}

func TestHealthy_P155(t *testing.T) {
	h := ota.Health{MinTPSRatio: 0.7, MaxErrorRatio: 0.05}
	for _, c := range []struct {
		name   string
		before float64
		s      rollout.Sample
		ok     bool
	}{
		{"idle", 10, rollout.Sample{}, true},
		{"as before", 10, rollout.Sample{Requests: 100, TPS: 10}, true},
		{"slower, but enough", 10, rollout.Sample{Requests: 100, TPS: 7.1}, true},
		{"too slow", 10, rollout.Sample{Requests: 100, TPS: 6.9}, false},
		{"slow, and nobody knows how it was", 0, rollout.Sample{Requests: 100, TPS: 1}, true},
		{"two of two failed", 10, rollout.Sample{Requests: 2, Errors: 2}, true},
		{"three of three failed", 10, rollout.Sample{Requests: 3, Errors: 3}, false},
		{"five in a hundred", 10, rollout.Sample{Requests: 100, Errors: 5, TPS: 10}, true},
		{"six in a hundred", 10, rollout.Sample{Requests: 100, Errors: 6, TPS: 10}, false},
	} {
		err := rollout.Healthy(h, c.before, c.s)
		if (err == nil) != c.ok || err != nil && !errors.Is(err, control.HealthCheckFailed) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// What a state file says is refused or can be lived with.
func FuzzState(f *testing.F) {
	f.Add([]byte(`{"v":1,"memory":{},"models":{"m":{"current":{"version":"1","release":13,"sha256":"1111111111111111111111111111111111111111111111111111111111111111"}}}}`))
	f.Add([]byte(`{"v":1,"models":{"m":{"update":{"version":"1","keep":9}}}}`))
	f.Add([]byte(`{"v":2}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		d := &testdisk.Disk{}
		d.Put(statedir+"/active.json", data, 0o600)
		s, err := store(d).Load()
		if err != nil {
			return
		}
		for _, e := range []rollout.Event{rollout.Boot{}, newRelease(14).want(1), rollout.Rollback{Model: "m"}, rollout.Cancel{Model: "m"}, rollout.Stopping{}, rollout.Remove{Model: "m"}} {
			s, _ = s.Step(e)
			if err := store(d).Save(s); err != nil {
				t.Fatal(err)
			}
			if _, err := store(d).Load(); err != nil {
				t.Fatalf("after %T: %v", e, err)
			}
		}
	})
}
