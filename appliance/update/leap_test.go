// SPDX-License-Identifier: Apache-2.0

package update_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"windhover/appliance/update"
	"windhover/control"
	"windhover/control/ota"
	"windhover/internal/testclock"
)

const year = 365 * 24 * time.Hour

// jittered wants a release a good while after it is asked for, as long for each as share.
func jittered(d *ota.Desired) { d.Rollout.JitterS, d.Rollout.Salt = 6*3600, "c" }

// share is how long that is for the box: three hours and some minutes.
var share = ota.Rollout{Salt: "c", Percent: 100, JitterS: 6 * 3600}.Delay("box")

// Each box waits its share of the jitter, whatever becomes of its clock meanwhile: the
// clocks of all boxes of a site are set in the same minute.
func TestJitterOutlastsLeaps_P153(t *testing.T) {
	for _, by := range []time.Duration{0, 20 * year, -25 * year, time.Hour, -time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			var c testclock.Clock
			one := newRelease(t, 1)
			r := start(t, newDisk(), newCDN(one), func(_ *rig, cfg *update.Config) {
				cfg.Clock = func() ota.Clock { return ota.Clock{Now: c.Now().In(time.UTC)} }
			})
			defer r.stop()
			begun := time.Now()
			r.Desired(group, document(1, one, jittered))
			synctest.Wait()
			c.Step(by)
			time.Sleep(share - 10*time.Minute)
			synctest.Wait()
			if r.web.count() != 0 {
				t.Errorf("a step of %v: asked before its share of the jitter is over", by)
			}
			r.wait("current", func() bool { return r.last().Status == control.DesiredCurrent })
			if took := time.Since(begun); took > share+10*time.Minute {
				t.Errorf("a step of %v: %v, and its share is %v", by, took, share)
			}
		})
	}
}

// Over a restart what has passed of it counts, where both clocks can say that; else the
// share is waited for anew, and no longer.
func TestJitterOverRestart_P153(t *testing.T) {
	for _, c := range []struct {
		name         string
		before, sane bool // the clock before and after the restart is known to be right
		step         time.Duration
		anew         bool
	}{
		{"both are right", true, true, 0, false},
		{"an unset clock goes on", false, false, 0, false},
		{"set meanwhile", false, true, 20 * year, true},
		{"the battery is empty", true, false, -25 * year, true},
		{"off for a month", true, true, year / 12, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var clock testclock.Clock
				sane := c.before
				setup := func(_ *rig, cfg *update.Config) {
					cfg.Clock = func() ota.Clock { return ota.Clock{Now: clock.Now().In(time.UTC), Sane: sane} }
				}
				fs, one := newDisk(), newRelease(t, 1)
				r := start(t, fs, newCDN(one), setup)
				r.Desired(group, document(1, one, func(d *ota.Desired) { jittered(d); d.ExpiresAt = d.IssuedAt.Add(9 * year) }))
				half := share / 2
				time.Sleep(half)
				synctest.Wait()
				r.stop()
				clock.Step(c.step)
				sane = c.sane
				r = start(t, fs, newCDN(one), setup)
				defer r.stop()
				again := time.Now()
				for end := again.Add(2 * share); time.Now().Before(end); time.Sleep(time.Minute) {
					if synctest.Wait(); r.web.count() > 0 {
						break
					}
				}
				took, want := time.Since(again), half
				if c.anew {
					want = share
				}
				if c.step == year/12 {
					want = 0
				}
				if took < want-2*time.Minute || took > want+5*time.Minute {
					t.Errorf("begins %v after the restart, want %v; the share is %v", took, want, share)
				}
			})
		})
	}
}

// A clock that is put far ahead expires what comes then, and nothing that came before;
// when it is right again so is everything.
func TestExpiryOverLeaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c testclock.Clock
		one, two := newRelease(t, 1), newRelease(t, 2)
		r := start(t, newDisk(), newCDN(one, two), func(_ *rig, cfg *update.Config) {
			cfg.Clock = func() ota.Clock { return ota.Clock{Now: c.Now().In(time.UTC), Sane: true} }
		})
		defer r.stop()
		r.Desired(group, document(1, one, nil))
		r.wait("the first", func() bool { return r.last().Status == control.DesiredCurrent })
		c.Step(20 * year)
		r.Desired(group, document(2, two, nil))
		r.wait("expired", func() bool { return r.last().Error != nil })
		if e := r.last().Error; e.Code != control.ManifestExpired || !r.serves(one.SHA256) {
			t.Errorf("refused by %v", e)
		}
		for _, by := range []time.Duration{-20 * year, -25 * year, 25 * year} {
			c.Step(by)
			r.wait("the second", func() bool { return r.last().Rev == 2 && r.last().Status == control.DesiredCurrent })
		}
		r.d.mu.Lock()
		defer r.d.mu.Unlock()
		if slices.Contains(r.d.events, "rolled_back") || r.d.serving[name] != two.SHA256 {
			t.Errorf("events %q, serving %v", r.d.events, r.d.serving)
		}
	})
}

// Downloads keep to their window by the clock of now, also when that is moved into it and
// out of it; a version on trial is on trial for as long as it should be.
func TestWindowAndTrialOverLeaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c testclock.Clock
		one := newRelease(t, 1)
		r := start(t, newDisk(), newCDN(one), func(_ *rig, cfg *update.Config) {
			cfg.Clock = func() ota.Clock { return ota.Clock{Now: c.Now().In(time.UTC), Sane: true} }
		})
		defer r.stop()
		r.Desired(group, document(1, one, func(d *ota.Desired) { d.Rollout.Window, d.Health.ObserveS = "04:00-05:00", 600 }))
		time.Sleep(10 * time.Minute) // the bubble begins at midnight UTC
		c.Step(8 * time.Hour)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if r.web.count() != 0 {
			t.Fatal("asked outside of the window")
		}
		c.Step(-4 * time.Hour) // 04:20
		r.wait("the trial", func() bool { return len(r.last().Models) == 1 && r.last().Models[0].Phase == "observing" })
		begun := time.Now()
		c.Step(20 * year)
		c.Step(-21 * year)
		r.wait("the end of it", func() bool { return r.last().Status == control.DesiredCurrent })
		if took := time.Since(begun); took < 9*time.Minute || took > 11*time.Minute {
			t.Errorf("on trial for %v", took)
		}
	})
}
