// SPDX-License-Identifier: Apache-2.0

package rollout_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"windhover/appliance/rollout"
	"windhover/control"
	"windhover/control/ota"
	"windhover/internal/testdisk"
)

// The disk is full when a version that holds is to be committed: it serves on, and is
// committed when there is room. What has to go back goes back all the same.
func TestFullAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, bad := range []rollout.Phase{"", rollout.Observe} {
			old, fresh := newRelease(13), newRelease(14)
			fresh.bad = bad
			d := world(t, old)
			b, events, end := running(t, d, rollout.Observe, old, fresh)
			events <- fresh.want(42)
			synctest.Wait()
			fill(d)
			close(b.hold[rollout.Observe])
			time.Sleep(10 * time.Minute)
			synctest.Wait()
			if s := load(t, d); !s.Models[name].Tentative || s.Memory.Floors[name] != 13 {
				t.Fatalf("stored on a full disk: %+v", s)
			}
			if b.last().Status == rollout.Succeeded {
				t.Error("a version is reported as committed that is not")
			}
			if want := map[bool]ota.Digest{true: fresh.SHA256, false: old.SHA256}[bad == ""]; b.serving != want {
				t.Errorf("%q: on a full disk %s serves, want %s", bad, b.serving, want)
			}
			d.Resize(0)
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			s := load(t, d)
			if m := s.Models[name]; m.Tentative || m.Current.SHA256 != b.serving || s.Memory.Floors[name] != m.Current.Release {
				t.Errorf("%q: with room again: %+v", bad, s)
			}
			end()
		}
	})
}

// fill leaves no room on a disk.
func fill(d *testdisk.Disk) {
	used := int64(0)
	for _, n := range d.Names() {
		used += int64(len(d.Get(n)))
	}
	d.Resize(used)
}

// What somebody asks for is not said to be done before it would outlast a restart.
func TestFullForCommands(t *testing.T) {
	for _, command := range []rollout.Event{rollout.Rollback{Model: name, Job: "c"}, rollout.Remove{Model: name, Job: "c"}} {
		old, fresh := newRelease(13), newRelease(14)
		d := world(t, old)
		if b, _ := life(t, d, nil, []*release{old, fresh}, fresh.want(42)); b.serving != fresh.SHA256 {
			t.Fatalf("%s serves", b.serving)
		}
		fill(d)
		if b, _ := life(t, d, nil, []*release{old, fresh}, command); !errors.Is(b.last().Err, control.InsufficientStore) || b.last().Job != "c" || b.serving != fresh.SHA256 {
			t.Errorf("%T: %+v, %s serves", command, b.last(), b.serving)
		}
		d.Resize(0)
		if b, _ := life(t, d, nil, []*release{old, fresh}, command); b.last().Status != rollout.Succeeded || b.serving == fresh.SHA256 {
			t.Errorf("%T with room again: %+v, %s serves", command, b.last(), b.serving)
		}
	}
}

// A version is not switched to before the disk says that it is on trial: a power cut
// would let it serve for ever without.
func TestFullBeforeTheSwitch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, fresh := newRelease(13), newRelease(14)
		d := world(t, old)
		b, events, end := running(t, d, rollout.Probe, old, fresh)
		defer end()
		events <- fresh.want(42)
		synctest.Wait()
		fill(d)
		close(b.hold[rollout.Probe])
		synctest.Wait()
		if r := b.last(); !errors.Is(r.Err, control.InsufficientStore) || b.serving != old.SHA256 || slices.Contains(b.steps, rollout.Switch) {
			t.Errorf("%+v, steps %v", r, b.steps)
		}
	})
}

// A start that cannot be counted is not given to a version on trial.
func TestFullAtTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, fresh := newRelease(13), newRelease(14)
		all := []*release{old, fresh}
		d := world(t, old)
		_, events, end := running(t, d, rollout.Observe, all...)
		events <- fresh.want(42)
		synctest.Wait()
		end()
		fill(d)
		b, _ := life(t, d, nil, all)
		if r := b.last(); !errors.Is(r.Err, control.InsufficientStore) || b.serving != old.SHA256 || !slices.Equal(b.steps, []rollout.Phase{rollout.Restore}) {
			t.Errorf("%+v, steps %v", r, b.steps)
		}
		d.Resize(0)
		if b, _ = life(t, d, nil, all, fresh.want(42)); b.serving != fresh.SHA256 {
			t.Errorf("with room again: %+v", b.last())
		}
	})
}
