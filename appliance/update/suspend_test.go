// SPDX-License-Identifier: Apache-2.0

package update_test

import (
	"testing"
	"testing/synctest"
	"time"

	"windhover/appliance/update"
	"windhover/control"
	"windhover/control/ota"
	"windhover/internal/testclock"
)

// A box is suspended for a night while an update waits for its share of the jitter, and
// again while its version is on trial: neither is shorter by that. A document that was
// accepted before is carried out although its time ran out in the night; one that comes
// too late is not.
func TestSuspend(t *testing.T) {
	const night = 8 * time.Hour
	synctest.Test(t, func(t *testing.T) {
		var c testclock.Clock
		one, two := newRelease(t, 1), newRelease(t, 2)
		r := start(t, newDisk(), newCDN(one, two), func(_ *rig, cfg *update.Config) {
			cfg.Clock = func() ota.Clock { return ota.Clock{Now: c.Now().In(time.UTC), Sane: true} }
		})
		defer r.stop()
		short := func(d *ota.Desired) {
			jittered(d)
			d.ExpiresAt, d.Health.ObserveS = d.IssuedAt.Add(night), 600
		}
		first, second := document(1, one, short), document(2, two, short)
		begun := time.Now()
		r.Desired(group, first)
		time.Sleep(share / 2)
		c.Step(night)
		time.Sleep(share/2 - 10*time.Minute)
		synctest.Wait()
		if r.web.count() != 0 {
			t.Error("asked before its share of the jitter is over")
		}
		r.wait("the trial", func() bool { return len(r.last().Models) == 1 && r.last().Models[0].Phase == "observing" })
		if took := time.Since(begun); took > share+10*time.Minute {
			t.Errorf("begun after %v, and its share is %v", took, share)
		}
		begun = time.Now()
		c.Step(night)
		r.wait("the end of it", func() bool { return r.last().Status == control.DesiredCurrent })
		if took := time.Since(begun); took < 9*time.Minute || took > 11*time.Minute {
			t.Errorf("on trial for %v", took)
		}
		r.Desired(group, second)
		r.wait("expired", func() bool { return r.last().Error != nil })
		if e := r.last().Error; e.Code != control.ManifestExpired || !r.serves(one.SHA256) {
			t.Errorf("refused by %v", e)
		}
	})
}

// A box that is suspended over the whole of its window waits for the next one, and one
// that wakes in it begins.
func TestSuspendOverWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c testclock.Clock
		one := newRelease(t, 1)
		r := start(t, newDisk(), newCDN(one), func(_ *rig, cfg *update.Config) {
			cfg.Clock = func() ota.Clock { return ota.Clock{Now: c.Now().In(time.UTC), Sane: true} }
		})
		defer r.stop()
		r.Desired(group, document(1, one, func(d *ota.Desired) { d.Rollout.Window, d.ExpiresAt = "04:00-05:00", d.IssuedAt.Add(72*time.Hour) }))
		c.Step(8 * time.Hour) // the bubble begins at midnight UTC
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if r.web.count() != 0 {
			t.Fatal("asked outside of the window")
		}
		c.Step(20 * time.Hour) // 04:10 of the next day
		time.Sleep(time.Minute)
		synctest.Wait()
		if r.web.count() == 0 {
			t.Error("not asked within the window")
		}
	})
}
