// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// TestSwitches: what a thread counts of itself is what another reads of it.
func TestSwitches(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r := openSwitches(threadID())
	defer r.close()
	buf := make([]byte, statusLen)
	before := r.read(buf)
	if before == (switches{}) {
		t.Skip("this system does not count switches in /proc/self/task")
	}
	for range 3 {
		ts := unix.NsecToTimespec(1000)
		_ = unix.Nanosleep(&ts, nil)
	}
	own, after := ownSwitches(), r.read(buf)
	if n := after.since(before).voluntary; n < 3 {
		t.Errorf("%d switches of its own in three sleeps", n)
	}
	if own.voluntary > after.voluntary || own.voluntary < before.voluntary+3 ||
		own.forced > after.forced || own.forced < before.forced {
		t.Errorf("the thread itself counts %+v, its file %+v before and %+v after", own, before, after)
	}
	if s := openSwitches(1<<22 - 1).read(buf); s != (switches{}) {
		t.Errorf("no thread: %+v", s)
	}
}

func TestStatusNumber(t *testing.T) {
	status := []byte("Name:\tx\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t345")
	if n := statusNumber(status, voluntaryLine); n != 12 {
		t.Errorf("voluntary %d, want 12", n)
	}
	if n := statusNumber(status, forcedLine); n != 345 {
		t.Errorf("forced %d, want 345", n)
	}
	for _, s := range []string{"", "Name:\tx\n", "\nvoluntary_ctxt_switches:\t", "\nvoluntary_ctxt_switches:\tx"} {
		if n := statusNumber([]byte(s), voluntaryLine); n != 0 {
			t.Errorf("%q: %d, want 0", s, n)
		}
	}
}
