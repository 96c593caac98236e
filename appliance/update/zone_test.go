// SPDX-License-Identifier: Apache-2.0

package update

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"windhover/control/ota"
)

// A window is of the zone that the machine has now, on days on which clocks are changed
// too.
func TestZoneOfNow(t *testing.T) {
	t.Setenv("TZ", "")
	const zones = "/usr/share/zoneinfo"
	if _, err := os.Stat(filepath.Join(zones, "Europe/Berlin")); err != nil {
		t.Skip("no time zones here: install tzdata")
	}
	z := &zone{path: filepath.Join(t.TempDir(), "localtime")}
	if z.now() != time.Local {
		t.Error("a machine without a zone has another one than at the start")
	}
	w, err := ota.ParseWindow("02:00-05:00")
	if err != nil {
		t.Fatal(err)
	}
	move := func(name string) { // as timedatectl does
		t.Helper()
		next := z.path + ".next"
		if err := os.Symlink(filepath.Join(zones, name), next); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, z.path); err != nil {
			t.Fatal(err)
		}
	}
	at := time.Date(2026, 7, 1, 1, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		zone string
		open bool
	}{{"Europe/Berlin", true}, {"Etc/UTC", false}, {"Asia/Tokyo", false}, {"Europe/Berlin", true}} {
		move(c.zone)
		for range 2 {
			if got := w.Open(at.In(z.now())); got != c.open {
				t.Errorf("in %s at %v: open %v", c.zone, at.In(z.now()), got)
			}
		}
	}
	// Berlin, 2026-03-29: after 01:59 comes 03:00. 2026-10-25: after 02:59 comes 02:00.
	open := func(at time.Time, for_ time.Duration) (minutes int) {
		for end := at.Add(for_); at.Before(end); at = at.Add(time.Minute) {
			if w.Open(at.In(z.now())) {
				minutes++
			}
		}
		return minutes
	}
	for day, want := range map[string]int{"2026-03-29": 120, "2026-10-25": 240, "2026-06-01": 180} {
		at, err := time.ParseInLocation(time.DateOnly, day, z.now())
		if err != nil {
			t.Fatal(err)
		}
		if got := open(at, 12*time.Hour); got != want {
			t.Errorf("on %s the window is open for %d minutes, want %d", day, got, want)
		}
	}
	if err := os.Remove(z.path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(z.path, []byte("no zone"), 0o644); err != nil {
		t.Fatal(err)
	}
	if z.now() != time.Local {
		t.Error("a file that is no zone is one")
	}
}
