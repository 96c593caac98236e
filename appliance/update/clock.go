// SPDX-License-Identifier: Apache-2.0

package update

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"windhover/control/ota"
)

// SystemClock is the time of this machine by the zone of now, and whether it can be
// believed. A box without a battery starts somewhere in the past and is not in step until
// the network has set it; what it thinks meanwhile expires nothing.
func SystemClock() ota.Clock {
	now := time.Now().In(system.zone.now())
	return ota.Clock{Now: now, Sane: inStep() || followed("/") || kept("/", now) || system.chrony.hasSet()}
}

// system is what is known of the clock of this machine.
var system = struct {
	zone   zone
	chrony chrony
}{zone{path: "/etc/localtime"}, chrony{addr: chronyAddr}}

// inStep asks the kernel whether something (chrony, timesyncd, a GPS receiver) keeps
// its clock in step. The daemon's unit forbids that question with all others about
// clocks; the ones below are left then.
func inStep() bool {
	var t unix.Timex // Modes 0: only asked
	state, err := unix.Adjtimex(&t)
	return err == nil && state != unix.TIME_ERROR && t.Status&unix.STA_UNSYNC == 0
}

// followed says whether systemd-timesyncd has set the clock since the start.
func followed(root string) bool {
	_, err := os.Stat(filepath.Join(root, "run/systemd/timesync/synchronized"))
	return err == nil
}

// firstYear is one that a clock which was never set does not show.
const firstYear = 2025

// kept says whether the kernel took the time from a clock on the board when it started,
// and that clock had kept it: one without a battery begins long ago.
func kept(root string, now time.Time) bool {
	list, err := filepath.Glob(filepath.Join(root, "sys/class/rtc/rtc*/hctosys"))
	if err != nil || now.Year() < firstYear {
		return false
	}
	for _, path := range list {
		if data, err := os.ReadFile(path); err == nil && strings.TrimSpace(string(data)) == "1" {
			return true
		}
	}
	return false
}
