// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"time"

	"golang.org/x/sys/unix"
)

// The caller cannot be left out when another process has its CPU half of the
// time. But it can change places with a worker whose CPU is its own: what is
// late then is a worker. That a worker's CPU is its own shows while it polls, but
// not of one that sleeps, since it is left out or the caller kept it waiting;
// there it is tried.
const (
	runsPerCheck = 16                    // Run calls from one look at the clock to the next
	placeWindow  = 12 * time.Millisecond // over which the use of CPUs is measured: some time slices
	shareLow     = 0.8                   // of the window: somebody else is there
	shareFull    = 0.95                  // nobody is
	shareMore    = 0.1                   // what a place must be better by to be kept
	tryAfter     = 2                     // windows that are low before another place is tried
	tryLeast     = 100 * time.Millisecond
	tryMost      = 1600 * time.Millisecond
)

// placing is when the caller's place was looked at, what had been counted then,
// and what follows from it. Times are since the pool began.
type placing struct {
	at     time.Duration
	ready  bool            // what was counted is of this caller
	used   []time.Duration // [size] CPU time
	moves  switches        // of the caller's thread
	shares []float64       // [size] CPU time in the last window, as part of it

	low   int           // windows in a row in which others took CPU time from the caller
	trial int           // the worker whose place the caller tries, 0 if none
	was   float64       // the caller's share before the trial
	last  int           // the worker whose place was tried last
	pause time.Duration // after the next trial in vain
	next  time.Duration // when a trial is allowed
}

// begin is the beginning of a series of Run calls, maybe on another thread.
func (s *placing) begin() {
	s.at, s.ready, s.trial, s.low = -placeWindow, false, 0, 0
}

// checkPlace moves the caller if its CPU is taken from it and another may be its
// own.
func (p *Pool) checkPlace(now time.Duration) {
	s := &p.place
	window := now - s.at
	if window < placeWindow {
		return
	}
	for i := range p.cpus {
		tid := p.attached.tid
		if i > 0 {
			tid = p.workers[i-1].tid
		}
		used := threadTime(tid)
		s.shares[i] = float64(used-s.used[i]) / float64(window)
		s.used[i] = used
	}
	moves := ownSwitches()
	m := moves.since(s.moves)
	// A caller that slept by itself, as in a callback, has not been disturbed.
	taken := m.forced > m.voluntary
	if s.ready {
		if to := s.choose(now, taken); to > 0 && !p.swap(to) {
			s.trial = 0
		} else if to > 0 {
			moves = ownSwitches() // moving is one
		}
	}
	s.at, s.ready, s.moves = now, true, moves
}

// choose returns the worker that the caller is to change places with, 0 for none.
// taken tells whether others took the CPU from the caller in the last window.
func (s *placing) choose(now time.Duration, taken bool) int {
	low := taken && s.shares[0] < shareLow
	if to := s.trial; to > 0 {
		s.trial = 0
		if low && s.shares[0] < s.was+shareMore {
			s.low = 0
			s.pause = min(max(2*s.pause, tryLeast), tryMost)
			s.next = now + s.pause
			return to // back
		}
		s.pause = 0
	}
	if !low {
		s.low = 0
		return 0
	}
	s.low++
	for i := 1; i < len(s.shares); i++ {
		if s.shares[i] > shareFull {
			s.low = 0
			return i
		}
	}
	if s.low < tryAfter || now < s.next || len(s.shares) == 1 {
		return 0
	}
	s.low, s.was = 0, s.shares[0]
	s.last = s.last%(len(s.shares)-1) + 1
	s.trial = s.last
	return s.trial
}

// swap lets the caller and worker i change CPUs. It reports false if they stay
// where they are, since the system does not let them or somebody else has moved
// them.
func (p *Pool) swap(i int) bool {
	w := p.workers[i-1]
	caller, worker := p.cpus[0], p.cpus[i]
	if !isOn(p.attached.tid, caller) || !isOn(w.tid, worker) || setCPU(p.attached.tid, worker) != nil {
		return false
	}
	if setCPU(w.tid, caller) != nil {
		_ = setCPU(p.attached.tid, caller) // where it was until now
		return false
	}
	p.cpus[0], p.cpus[i] = worker, caller
	return true
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
