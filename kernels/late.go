// SPDX-License-Identifier: Apache-2.0

package kernels

import "time"

// On a CPU that another process uses too, a worker loses it for a time slice,
// some milliseconds, again and again, often in the middle of a piece of work
// that nobody can take from it: everybody waits. A token of a small model is
// computed in less than 30 ms and joins hundreds of times; it then goes at the
// pace of two time slices. The others alone are faster. So a worker that cost
// much waiting is left out for a while, and then tried again. Its share is done
// by the caller, like that of any worker that is late, and its CPU is free for
// the other process.
const (
	// lateForgiven is the part of the time in which waiting for a worker is
	// taken to be worth it. Of two workers one is half of the computing, but
	// less than a third of the speed where memory is what bounds it.
	lateForgiven = 4 // a fourth
	// lateLimit is how much waiting beyond that a worker is left out for: more
	// than one time slice that some kernel thread or the collector takes.
	lateLimit = 6 * time.Millisecond
	// lateWatch is the debt from which the worker's thread is looked at, and that
	// it begins with when it is tried again. It is left out for twice as long if
	// it uses up the rest soon.
	lateWatch = 3 * time.Millisecond
	restLeast = 20 * time.Millisecond
	restMost  = 320 * time.Millisecond
)

// lateness is the account of a worker that others wait for. Times are since the
// pool began.
type lateness struct {
	debt  time.Duration // waiting for it, less what is forgiven
	noted time.Duration // when debt was brought up to date
	rest  time.Duration // how long it is, or was, left out
	back  time.Duration // when it is to be tried again, or was

	watched bool     // the debt has been large since moves was read
	moves   switches // of its thread
}

// waited adds a wait that ends now. It reports true if the worker is to be
// watched from now on, or if it has been watched and may be left out.
func (l *lateness) waited(now, wait time.Duration) bool {
	l.debt = max(0, l.debt-(now-l.noted)/lateForgiven)
	l.watched = l.watched && l.debt > 0
	l.debt += wait
	l.noted = now
	if l.watched {
		return l.debt >= lateLimit
	}
	l.debt = min(l.debt, lateLimit)
	return l.debt >= lateWatch
}

// leave is the beginning of a rest, again the end.
func (l *lateness) leave(now time.Duration) {
	if l.rest > 0 && now-l.back < 2*l.rest {
		l.rest = min(2*l.rest, restMost)
	} else {
		l.rest = restLeast
	}
	l.back = now + l.rest
}

func (l *lateness) again(now time.Duration) {
	l.back, l.noted = now, now
	l.debt = lateWatch
}

// blame charges a wait that ends now to the workers that were at work until the
// end, and leaves out those that have cost too much.
func (p *Pool) blame(now, wait time.Duration) {
	for _, w := range p.workers {
		if !w.pending {
			continue
		}
		w.pending = false
		if !w.late.waited(now, wait) {
			continue
		}
		before := w.late.moves
		w.late.moves = threadSwitches(w.tid)
		if !w.late.watched {
			w.late.watched = true
			continue
		}
		// A thread that went to sleep by itself waits for storage, and then the
		// more of them do the better.
		if m := w.late.moves; m.voluntary-before.voluntary > m.forced-before.forced {
			w.late.debt = lateWatch
			continue
		}
		w.late.leave(now)
		p.leaveOut(w)
	}
}

func (p *Pool) leaveOut(w *worker) {
	if !w.leftOut.Swap(true) {
		p.out++
	}
}

func (p *Pool) takeIn(w *worker) {
	if w.leftOut.Swap(false) {
		p.out--
	}
}

// readmit takes in who has been left out for long enough.
func (p *Pool) readmit(now time.Duration) {
	for _, w := range p.workers {
		if w.leftOut.Load() && !w.barred && now >= w.late.back {
			w.late.again(now)
			w.late.watched, w.late.moves = true, threadSwitches(w.tid)
			p.takeIn(w)
		}
	}
}
