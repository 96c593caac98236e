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
	// A trial that cost much, since time slices are long there, is followed by a
	// rest of restTimes that, up to restLong.
	restTimes = 3
	restLong  = time.Second
	// watchMost is how long a worker is watched for one long wait: time slices
	// that come less often are not connected.
	watchMost = lateForgiven * restMost
)

// lateness is the account of a worker that others wait for. Times are since the
// pool began.
type lateness struct {
	// Waiting for it, less what is forgiven. A single wait is not held against it:
	// debt is lateWatch at most, unless the worker is watched.
	debt  time.Duration
	noted time.Duration // when debt was brought up to date
	until time.Duration // when all of it, however long a wait was, is forgiven
	rest  time.Duration // how long it is, or was, left out
	back  time.Duration // when it is to be tried again, or was

	watched bool     // the debt has been large since moves was read, and until is ahead
	moves   switches // of its thread
}

// waited adds a wait that ends now. It reports true if the worker is to be
// watched from now on, or if it has been watched and may be left out.
func (l *lateness) waited(now, wait time.Duration) bool {
	l.debt = max(0, l.debt-(now-l.noted)/lateForgiven) + wait
	l.noted = now
	l.watched = l.watched && now < l.until
	l.until = max(l.until, now+min(lateForgiven*l.debt, watchMost))
	if l.watched {
		return l.debt >= lateLimit
	}
	l.debt = min(l.debt, lateWatch)
	return l.debt >= lateWatch
}

// spared is told of a wait for others: time in which this worker has proved
// nothing does not forgive it anything.
func (l *lateness) spared(wait time.Duration) {
	l.noted += wait
	l.until += wait
}

// leave is the beginning of a rest, again the end.
func (l *lateness) leave(now time.Duration) {
	rest := restLeast
	if l.rest > 0 && now-l.back < 2*l.rest {
		rest = min(2*l.rest, restMost)
	}
	l.rest = max(rest, min(restTimes*l.debt, restLong))
	l.back = now + l.rest
	l.until += l.rest
}

func (l *lateness) again(now time.Duration) {
	l.back = now
	l.excuse(now)
}

// excuse leaves the worker watched, with a debt that a wait or two make too much.
func (l *lateness) excuse(now time.Duration) {
	l.noted, l.debt = now, lateWatch
	l.until = max(l.until, now+lateForgiven*lateWatch)
}

// blame charges a wait that ends now to the workers that were at work at the last
// look, and leaves out those that have cost too much. If the caller has slept
// since, only the one that woke it, by its number, is known to have been at work
// until the end; the others are charged with the time up to the look. woke is 0 if
// the caller has not slept.
func (p *Pool) blame(now, wait, looked time.Duration, woke int) {
	for i, w := range p.workers {
		if !w.pending {
			w.late.spared(wait)
			continue
		}
		w.pending = false
		cost := wait
		if woke != 0 && woke != i+1 {
			cost = looked
		}
		if !w.leftOut.Load() && w.late.waited(now, cost) {
			p.judge(w, now)
		}
	}
}

// judge watches a worker, or leaves it out.
func (p *Pool) judge(w *worker, now time.Duration) {
	moves := w.counts.read(p.status)
	m := moves.since(w.late.moves)
	w.late.moves = moves
	switch {
	case !w.late.watched:
		w.late.watched = true
	case m.voluntary > m.forced:
		// A thread that went to sleep by itself waits for storage, and then the
		// more of them do the better.
		w.late.excuse(now)
	default:
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
		if w.leftOut.Load() && !w.barred && !w.resting && now >= w.late.back {
			w.late.again(now)
			w.late.watched, w.late.moves = true, w.counts.read(p.status)
			p.takeIn(w)
		}
	}
}
