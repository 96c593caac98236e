// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"testing"

	"golang.org/x/sys/unix"
)

// What reads and copies a dropped file has a low I/O priority, and nobody keeps it.
func TestPolitely(t *testing.T) {
	prio := func() uintptr {
		p, _, errno := unix.Syscall(unix.SYS_IOPRIO_GET, ioprioWhoProcess, 0, 0)
		if errno != 0 {
			t.Skip("no I/O priorities here:", errno)
		}
		return p
	}
	before := prio()
	var inside uintptr
	politely(func() { inside = prio() })
	if inside != ioprioLow {
		t.Errorf("priority %#x, want %#x", inside, ioprioLow)
	}
	for range 20 { // on whatever thread
		if got := prio(); got != before {
			t.Fatalf("priority %#x afterwards, %#x before", got, before)
		}
	}
}
