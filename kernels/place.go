// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"time"

	"golang.org/x/sys/unix"
)

// The caller cannot be left out when another process has its CPU half of the
// time. But it can change places with a worker whose CPU is its own: what is
// late then is a worker.
const (
	runsPerCheck = 16                    // Run calls from one look at the clock to the next
	placeWindow  = 12 * time.Millisecond // over which the use of CPUs is measured: some time slices
	placeStale   = 5 * placeWindow       // a window that was not computed through
	shareLow     = 0.8                   // of the window: somebody else is there
	shareFull    = 0.95                  // nobody is
)

// placing is when the caller's place was looked at, and how much CPU time each
// worker had had then.
type placing struct {
	at   time.Duration
	used []time.Duration // [size]
}

// checkPlace moves the caller if its CPU is taken from it and one of the others
// is not.
func (p *Pool) checkPlace(now time.Duration) {
	window := now - p.place.at
	if window < placeWindow {
		return
	}
	p.place.at = now
	target, low := 0, false
	for i := range p.cpus {
		tid := p.attached.tid
		if i > 0 {
			tid = p.workers[i-1].tid
		}
		used := threadTime(tid)
		share := float64(used-p.place.used[i]) / float64(window)
		p.place.used[i] = used
		switch {
		case i == 0:
			low = share < shareLow
		case target == 0 && share > shareFull:
			target = i
		}
	}
	if low && target > 0 && window < placeStale {
		p.swap(target)
	}
}

// swap lets the caller and worker i change CPUs. If the system does not let them
// they stay where they are.
func (p *Pool) swap(i int) {
	w := p.workers[i-1]
	if setCPU(p.attached.tid, p.cpus[i]) != nil {
		return
	}
	if setCPU(w.tid, p.cpus[0]) != nil {
		_ = setCPU(p.attached.tid, p.cpus[0]) // where it was until now
		return
	}
	p.cpus[0], p.cpus[i] = p.cpus[i], p.cpus[0]
}

// threadTime is the CPU time that a thread of this process has had, 0 if it is
// not there.
func threadTime(tid int) time.Duration {
	// As pthread_getcpuclockid makes it: the complement of the thread's number
	// over three bits, of which 4 means a thread and 2 what the scheduler counts.
	clock := int32(^tid)<<3 | 6
	var ts unix.Timespec
	if err := unix.ClockGettime(clock, &ts); err != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}
