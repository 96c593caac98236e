// SPDX-License-Identifier: Apache-2.0

package rollout_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"windhover/appliance/rollout"
	"windhover/control"
	"windhover/internal/testdisk"
)

// matrix interrupts an update from release 13 to 14 at every change of the disk, in
// every way, starts the device again, and asks once more, as a retained document does.
func matrix(t *testing.T, next func() *release, check func(trial string, old, new *release, b *box, s rollout.State)) {
	old := newRelease(13)
	fresh := next()
	count := &testdisk.Faults{FS: world(t, old)}
	life(t, count, nil, []*release{old, fresh}, fresh.want(42))
	if count.Changes < 60 {
		t.Fatalf("only %d changes of the disk", count.Changes)
	}
	trials := 0
	for x := range testdisk.Trials(count.Changes, testing.Short()) {
		trials++
		fresh, d := next(), world(t, old)
		all := []*release{old, fresh}
		faults := &testdisk.Faults{FS: d, At: x.At, Kind: x.Kind}
		b, whole := life(t, faults, nil, all, fresh.want(42))
		trial := fmt.Sprintf("%v at %s, loss %d", x.Kind, faults.Last, x.Loss)
		if whole == x.Kind.Ends() {
			t.Fatalf("%s: came to its end: %v", trial, whole)
		}
		if whole && b.serving != old.SHA256 && b.serving != fresh.SHA256 {
			t.Errorf("%s: %s serves", trial, b.serving)
		}
		if r := b.last(); whole && x.Kind == testdisk.Full && r.Status == rollout.Failure && r.Err.Code != control.InsufficientStore && fresh.bad == "" {
			t.Errorf("%s: %v, want insufficient_storage", trial, r.Err)
		}
		d.Restart(x.Loss, uint64(x.At))
		// The start alone: something serves, and nothing is under way for ever.
		b, whole = life(t, d, nil, all)
		s := load(t, d)
		if !whole || s.Running() || b.serving != old.SHA256 && b.serving != fresh.SHA256 {
			t.Fatalf("%s: after the start: whole %v, running %v, %s serves", trial, whole, s.Running(), b.serving)
		}
		if s.Memory.Floors[name] < old.Release {
			t.Errorf("%s: the floor is %d", trial, s.Memory.Floors[name])
		}
		b, _ = life(t, d, nil, all, fresh.want(42))
		check(trial, old, fresh, b, load(t, d))
		if names := d.Names(); len(names) > 3 { // the state and two versions
			t.Errorf("%s: left %v", trial, names)
		}
	}
	t.Logf("%d changes of the disk, %d trials", count.Changes, trials)
}

func TestCrashMatrixGoodRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		matrix(t, func() *release { return newRelease(14) }, func(trial string, old, fresh *release, b *box, s rollout.State) {
			m := s.Models[name]
			if b.serving != fresh.SHA256 || m.Tentative || m.Current.SHA256 != fresh.SHA256 || m.Previous.SHA256 != old.SHA256 || s.Memory.Floors[name] != 14 {
				t.Errorf("%s: asked again: %+v, floor %d, last report %+v", trial, m, s.Memory.Floors[name], b.last())
			}
		})
	})
}

// A release that does not hold on trial is taken back, wherever the power goes.
func TestCrashMatrixBadRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := func() *release { r := newRelease(14); r.bad = rollout.Observe; return r }
		matrix(t, bad, func(trial string, old, fresh *release, b *box, s rollout.State) {
			m := s.Models[name]
			if b.serving != old.SHA256 || m.Tentative || m.Current.SHA256 != old.SHA256 || s.Memory.Floors[name] != 13 {
				t.Errorf("%s: asked again: %+v, floor %d", trial, m, s.Memory.Floors[name])
			}
			if len(m.Refused) != 1 || !m.Refused[0].Final || m.Refused[0].SHA256 != fresh.SHA256 {
				t.Errorf("%s: refused %+v", trial, m.Refused)
			}
		})
	})
}

// The process ends before and after every step, and each of its later lives too, so
// often that nothing but the old version is left to serve, or not.
func TestKilledAtSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, fresh := newRelease(13), newRelease(14)
		all := []*release{old, fresh}
		for at := 1; at <= 18; at++ {
			d := world(t, old)
			life(t, d, func(b *box) { b.before = func(n int) bool { return n == at } }, all, fresh.want(42))
			d.Restart(testdisk.Everything, 0)
			b, whole := life(t, d, nil, all)
			if s := load(t, d); !whole || s.Running() || b.serving != old.SHA256 && b.serving != fresh.SHA256 {
				t.Errorf("half step %d: whole %v, running %v, %s serves", at, whole, s.Running(), b.serving)
			}
		}
	})
}

// A version that takes the process down is given up after few starts, whether that is
// while it is loaded, probed or watched.
func TestCrashLoop_P162(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, phase := range []rollout.Phase{rollout.Load, rollout.Probe, rollout.Switch, rollout.Observe} {
			old, fresh := newRelease(13), newRelease(14)
			fresh.kills = phase
			all := []*release{old, fresh}
			d := world(t, old)
			b, whole := life(t, d, nil, all, fresh.want(42))
			lives := 1
			for ; !whole && lives < 10; lives++ {
				d.Restart(testdisk.Everything, 0)
				b, whole = life(t, d, nil, all)
			}
			if !whole || lives > 4 || b.serving != old.SHA256 {
				t.Errorf("%s: %d lives, the last one whole %v, %s serves", phase, lives, whole, b.serving)
			}
			if r := b.last(); r.Status != rollout.Failure || !errors.Is(r.Err, control.HealthCheckFailed) && !errors.Is(r.Err, control.LoadFailed) || !r.RolledBack {
				t.Errorf("%s: the last report %+v", phase, r)
			}
			// The document that is still there does not bring it back, a later one neither.
			for _, rev := range []int64{42, 43} {
				if b, _ = life(t, d, nil, all, fresh.want(rev)); b.last().Status != rollout.Rejected || b.serving != old.SHA256 {
					t.Errorf("%s: asked for again: %+v", phase, b.last())
				}
			}
			if s := load(t, d); s.Memory.Floors[name] != 13 {
				t.Errorf("%s: the floor is %d", phase, s.Memory.Floors[name])
			}
		}
	})
}
