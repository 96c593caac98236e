// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"maps"
	"slices"

	"windhover/control"
	"windhover/control/ota"
)

// boot is the start of the device. A version on trial costs one of its starts, and that
// is on the disk before it is touched; if it cannot be, as full says, the version is
// taken back for now. Then everything that was installed serves again, and what was
// under way begins again.
func (t *turn) boot(full *control.Error) {
	for _, name := range slices.Sorted(maps.Keys(t.Models)) {
		m := t.Models[name]
		if m.Update != nil {
			m.Update.phase = ""
		}
		if m.Tentative {
			m.BootsLeft--
			switch {
			case full != nil:
				t.fail(name, m, full)
				continue
			case m.BootsLeft <= 0:
				t.fail(name, m, control.Errorf(control.HealthCheckFailed, "the device went down again while it tried version %s", m.Current.Version))
				continue
			}
			t.mustSave()
		}
		switch {
		case m.Current != nil:
			t.add(Run{name, Restore, *m.Current})
		case m.Update != nil:
			t.run(name, m, Download)
		}
		if m.Update == nil {
			t.next(name, m)
		}
	}
	t.add(Collect{})
}

// restored goes on after an installed version serves again.
func (t *turn) restored(name string, m *Slot, sum ota.Digest) {
	if m.Current != nil && m.Current.SHA256 == sum {
		t.settleUp(m)
	}
	switch {
	case m.Update == nil || m.Update.phase != "":
	case m.Tentative && m.Current.SHA256 == sum:
		t.run(name, m, Observe)
	case !m.Tentative:
		t.run(name, m, Download)
	}
}

// unrestored is an installed version that does not serve. On trial it is taken back;
// otherwise the one before serves in its place for this time, since what failed may have
// been the moment's fault.
func (t *turn) unrestored(name string, m *Slot, e Failed) {
	switch {
	case m.Current == nil:
		return
	case m.Tentative && m.Current.SHA256 == e.SHA256:
		t.fail(name, m, e.Err)
		return
	case m.Current.SHA256 == e.SHA256:
		for i := range m.owed { // they do not hold now
			m.owed[i].Status, m.owed[i].RolledBack = Failure, false
			if m.owed[i].Err == nil {
				m.owed[i].Err = e.Err
			}
		}
		t.settleUp(m)
		t.report(name, &Update{Version: *m.Current}, Report{Status: Failure, Err: e.Err, RolledBack: m.Previous != nil})
		if m.Previous != nil {
			t.add(Run{name, Restore, *m.Previous})
			return
		}
	}
	if m.Update != nil && m.Update.phase == "" && !m.Tentative {
		t.run(name, m, Download)
	}
}
