// SPDX-License-Identifier: Apache-2.0

package testboard_test

import (
	"io/fs"
	"testing"
	"testing/fstest"

	"windhover/internal/testboard"
)

// A board has the files of its text, in lines, and they can be changed in one copy alone.
func TestOpen(t *testing.T) {
	root := testboard.Open(t, "rk3588")
	if err := fstest.TestFS(root, "sys/class/thermal/thermal_zone1/type", "sys/class/devfreq/dmc/cur_freq"); err != nil {
		t.Fatal(err)
	}
	const path = "sys/class/thermal/thermal_zone1/temp"
	testboard.Set(root, path, "90000")
	for want, root := range map[string]fs.FS{"90000\n": root, "47153\n": testboard.Open(t, "rk3588")} {
		if got, err := fs.ReadFile(root, path); err != nil || string(got) != want {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
	if got, err := fs.ReadFile(root, "proc/meminfo"); err != nil || len(got) < 80 {
		t.Errorf("a file of three lines: %q, %v", got, err)
	}
}
