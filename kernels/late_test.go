// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const ms = time.Millisecond

// stalls gives an account waits of the given length, one every period, from now
// on, until the worker is to be left out or the time is over.
func (l *lateness) stalls(now, period, wait, end time.Duration) (at time.Duration, out bool) {
	for ; now < end; now += period {
		if !l.waited(now, wait) {
			continue
		}
		if l.watched {
			return now, true
		}
		l.watched = true
	}
	return now, false
}

func TestLateness(t *testing.T) {
	for _, c := range []struct {
		name         string
		period, wait time.Duration
		out          bool
	}{
		{"half of the time, by slices", 6 * ms, 3 * ms, true},
		{"half of the time, long slices", 16 * ms, 8 * ms, true},
		{"a third", 9 * ms, 3 * ms, true},
		{"uneven work", 200 * time.Microsecond, 30 * time.Microsecond, false},
		{"a slice now and then", 60 * ms, 4 * ms, false},
		{"a long one now and then", 500 * ms, 20 * ms, false},
		{"half of the time, by very long slices", 60 * ms, 30 * ms, true},
		{"nearly all of it, by a neighbour of high priority", 253 * ms, 250 * ms, true},
		{"less than a fourth, by long slices", 100 * ms, 24 * ms, false},
		{"a pause of the machine", time.Hour, 2 * time.Second, false},
	} {
		var l lateness
		at, out := l.stalls(0, c.period, c.wait, 10*time.Second)
		if out != c.out {
			t.Errorf("%s: left out %v, want %v", c.name, out, c.out)
		}
		if out && at > max(100*ms, c.period) {
			t.Errorf("%s: left out after %v", c.name, at)
		}
	}
}

// TestLatenessRests: who is late again at once rests longer and longer, so that
// trying costs little; who has been in time for long begins anew.
func TestLatenessRests(t *testing.T) {
	var l lateness
	now, lost := time.Duration(0), time.Duration(0)
	for _, want := range []time.Duration{20 * ms, 40 * ms, 80 * ms, 160 * ms, 320 * ms, 320 * ms, 320 * ms} {
		at, out := l.stalls(now, 6*ms, 3*ms, now+time.Second)
		if !out {
			t.Fatalf("at %v: not left out", now)
		}
		lost += (at - now) / 2
		l.leave(at)
		if l.rest != want {
			t.Errorf("at %v it rests for %v, want %v", at, l.rest, want)
		}
		now = l.back
		l.again(now)
		l.watched = true
	}
	if lost > now/20 {
		t.Errorf("trying took %v of %v", lost, now)
	}
	now += 2 * restMost
	at, out := l.stalls(now, 6*ms, 3*ms, now+time.Second)
	if !out {
		t.Fatal("not left out")
	}
	if l.leave(at); l.rest != restLeast {
		t.Errorf("after a long time without it rests for %v, want %v", l.rest, restLeast)
	}
}

// TestLatenessHiccup: one long wait, however long, does not make a worker one that
// small waits throw out, and two do so for a short time only.
func TestLatenessHiccup(t *testing.T) {
	for _, hiccup := range []time.Duration{20 * ms, 300 * ms, 10 * time.Second} {
		var l lateness
		if !l.waited(hiccup, hiccup) || l.watched {
			t.Fatalf("%v: it is to be watched", hiccup)
		}
		l.watched = true
		if at, out := l.stalls(hiccup, 200*time.Microsecond, 30*time.Microsecond, hiccup+2*time.Second); out {
			t.Errorf("%v, then uneven work: left out at %v", hiccup, at)
		}
		l = lateness{}
		l.waited(hiccup, hiccup)
		l.watched = true
		now := hiccup + 50*ms
		if !l.waited(now, 20*ms) {
			t.Fatalf("%v, then 20 ms: it may stay", hiccup)
		}
		if l.leave(now); l.rest > 3*restLeast {
			t.Errorf("%v, then 20 ms: out for %v", hiccup, l.rest)
		}
	}
}

// blameUntilOut charges worker i with waits until it is left out.
func blameUntilOut(t *testing.T, p *Pool, i int) {
	t.Helper()
	w := p.workers[i-1]
	for range 100 {
		w.pending = true
		p.blame(time.Since(p.born), lateLimit, lateLimit, 0)
		if w.leftOut.Load() {
			w.late.back = time.Hour
			return
		}
	}
	t.Fatalf("worker %d is never left out", i)
}

// TestPoolLeavesOut: a worker that is left out sleeps while the others run, its
// share is done all the same, and it comes back.
func TestPoolLeavesOut(t *testing.T) {
	for _, pin := range []bool{false, true} {
		p := newTestPool(t, pin)
		calls := make([]int, p.Size())
		run := func(task Task) {
			t.Helper()
			if err := p.Run(task); err != nil {
				t.Fatal(err)
			}
		}
		count := taskFunc(func(w, _ int) { calls[w]++ })
		run(count)
		blameUntilOut(t, p, 1)
		eventually(t, "the worker sleeps", func() bool { run(count); return asleep(p) })
		for range 100 {
			run(count)
		}
		if !asleep(p) {
			t.Error("a worker that is left out was woken")
		}
		if calls[0] != calls[1] {
			t.Errorf("shares were done %v times, want the same", calls)
		}

		p.workers[0].late.back = 0
		run(together(count)) // which ends only if the worker itself does its share
		if p.out != 0 {
			t.Error("the worker is not back")
		}
		blameUntilOut(t, p, 1)
		p.Close() // wakes it
	}
}

// TestPoolKeepsWaiters: a worker that sleeps by itself, as one does that waits for
// a page of a file, is not left out.
func TestPoolKeepsWaiters(t *testing.T) {
	p := newTestPool(t, true)
	w := p.workers[0]
	for range 20 {
		w.late = lateness{} // or it might be left out by chance, and together wait for it
		before := w.counts.read(p.status)
		if err := p.Run(together(taskFunc(func(worker, _ int) {
			if worker == 1 {
				// Three calls that sleep, so that they outnumber slices taken by others.
				for range 3 {
					ts := unix.NsecToTimespec(int64(time.Microsecond))
					_ = unix.Nanosleep(&ts, nil)
				}
			}
		}))); err != nil {
			t.Fatal(err)
		}
		w.late.watched, w.late.until, w.late.debt, w.late.moves = true, time.Hour, lateLimit, before
		w.pending = true
		p.blame(time.Since(p.born), lateLimit, lateLimit, 0)
		m := w.late.moves // as blame has counted: the worker goes on meanwhile
		own, others := m.voluntary-before.voluntary, m.forced-before.forced
		if own > others && p.out != 0 {
			t.Fatalf("left out after %d switches of its own and %d others", own, others)
		}
		p.takeIn(w) // on a machine so busy that this says nothing
	}
}

// TestPoolPunctual: of two workers that the caller sleeps for, only the last is
// charged with the sleep.
func TestPoolPunctual(t *testing.T) {
	const size, more = 3, 8 * time.Millisecond
	for last := 1; last < size; last++ {
		p := startTestPool(t, make([]int, size), false)
		for _, w := range p.workers { // so that what they are charged with is all there
			w.late.watched, w.late.until = true, time.Hour
		}
		if err := p.Run(together(taskFunc(func(w, _ int) {
			if w == 0 {
				return
			}
			eventually(t, "the caller sleeps", p.waiting.Load)
			if w != last {
				return
			}
			other := p.workers[size-last-1]
			eventually(t, "the other has ended", func() bool { return other.done.Load() == p.epoch.Load() })
			for start := time.Now(); time.Since(start) < more; {
				pause()
			}
		}))); err != nil {
			t.Fatal(err)
		}
		punctual, late := p.workers[size-last-1], p.workers[last-1]
		if d := late.late.debt - punctual.late.debt; d < more {
			t.Errorf("worker %d came %v after the other: charged with %v, the other with %v",
				last, more, late.late.debt, punctual.late.debt)
		}
		if punctual.late.debt == 0 {
			t.Errorf("worker %d was waited for as well, and is charged with nothing", size-last)
		}
	}
}
