// SPDX-License-Identifier: Apache-2.0

package update

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A clock is believed if timesyncd has set it, or if the board kept it over the night.
func TestClock(t *testing.T) {
	root := t.TempDir()
	set := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, path), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	now, epoch := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC), time.Date(1970, 1, 1, 0, 0, 9, 0, time.UTC)
	if followed(root) || kept(root, now) {
		t.Error("a board with nothing is believed")
	}
	set("sys/class/rtc/rtc0/hctosys", "0\n")
	if kept(root, now) {
		t.Error("a clock that the kernel did not ask is believed")
	}
	set("sys/class/rtc/rtc1/hctosys", "1\n")
	if !kept(root, now) || kept(root, epoch) {
		t.Error("a board with a battery is not believed, or one whose battery is empty is")
	}
	set("run/systemd/timesync/synchronized", "")
	if !followed(root) {
		t.Error("timesyncd is not believed")
	}
	if c := SystemClock(); time.Since(c.Now) > time.Minute {
		t.Errorf("the time is %v", c.Now)
	}
}
