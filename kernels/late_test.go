// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"slices"
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
	} {
		var l lateness
		at, out := l.stalls(0, c.period, c.wait, 10*time.Second)
		if out != c.out {
			t.Errorf("%s: left out %v, want %v", c.name, out, c.out)
		}
		if out && at > 100*ms {
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

// blameUntilOut charges worker i with waits until it is left out.
func blameUntilOut(t *testing.T, p *Pool, i int) {
	t.Helper()
	w := p.workers[i-1]
	for range 100 {
		w.pending = true
		p.blame(time.Since(p.born), lateLimit)
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
		before := threadSwitches(w.tid)
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
		w.late.watched, w.late.debt, w.late.moves = true, lateLimit, before
		w.pending = true
		p.blame(time.Since(p.born), lateLimit)
		m := w.late.moves // as blame has counted: the worker goes on meanwhile
		own, others := m.voluntary-before.voluntary, m.forced-before.forced
		if own > others && p.out != 0 {
			t.Fatalf("left out after %d switches of its own and %d others", own, others)
		}
		p.takeIn(w) // on a machine so busy that this says nothing
	}
}

func TestThreadSwitches(t *testing.T) {
	if s := threadSwitches(threadID()); s.voluntary+s.forced == 0 {
		t.Skip("this system does not count switches in /proc/self/task")
	}
	if s := threadSwitches(0); s != (switches{}) {
		t.Errorf("no thread: %+v", s)
	}
}

// TestPoolSwap: the caller changes places with a worker whose CPU is its own.
func TestPoolSwap(t *testing.T) {
	p := newTestPool(t, true)
	if err := p.Attach(); err != nil {
		t.Fatal(err)
	}
	defer p.Detach()
	before := p.CPUs()
	now := time.Hour
	check := func(caller, worker float64) {
		now += placeWindow
		p.place.at = now - placeWindow
		part := func(share float64) time.Duration { return time.Duration(share * float64(placeWindow)) }
		// The clocks of the threads go on meanwhile: what they show now is what
		// the window had plus some microseconds.
		p.place.used[0] = threadTime(p.attached.tid) - part(caller)
		p.place.used[1] = threadTime(p.workers[0].tid) - part(worker)
		p.checkPlace(now)
	}
	if check(1, 1); !slices.Equal(p.CPUs(), before) {
		t.Errorf("undisturbed: CPUs %v, want %v", p.CPUs(), before)
	}
	if check(0.5, 0.5); !slices.Equal(p.CPUs(), before) {
		t.Errorf("both disturbed: CPUs %v, want %v", p.CPUs(), before)
	}
	check(0.5, 1)
	if want := []int{before[1], before[0]}; !slices.Equal(p.CPUs(), want) {
		t.Errorf("caller disturbed: CPUs %v, want %v", p.CPUs(), want)
	}
	if err := p.CheckAffinity(); err != nil {
		t.Error(err)
	}
	if before[0] != before[1] {
		if got := threadMask(t); !slices.Equal(got, before[1:]) {
			t.Errorf("the caller may run on %v, want %v", got, before[1:])
		}
	}
}

func TestThreadTime(t *testing.T) {
	tid := threadID()
	before := threadTime(tid)
	eventually(t, "this thread's time grows", func() bool { return threadTime(tid) > before || threadID() != tid })
	if got := threadTime(1<<22 - 1); got != 0 {
		t.Errorf("no thread: %v", got)
	}
}
