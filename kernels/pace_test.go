// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// TestPoolPace: at a pace of n nobody but the caller and the first n-1 workers does a
// share, all shares are done all the same, and all workers come back.
func TestPoolPace(t *testing.T) {
	runtime.LockOSThread() // so that a share that has this thread is the caller's
	defer runtime.UnlockOSThread()
	const size = 4
	caller := unix.Gettid()
	p := startTestPool(t, make([]int, size), false)
	own := make([]bool, size) // the caller did the share
	task := taskFunc(func(w, n int) {
		if n != size {
			t.Errorf("%d shares, want %d", n, size)
		}
		own[w] = unix.Gettid() == caller
		for range 50 {
			pause() // long enough that a worker may come
		}
	})
	run := func(pace int) {
		t.Helper()
		p.Pace(pace)
		for range 50 {
			clear(own)
			if err := p.Run(task); err != nil {
				t.Fatal(err)
			}
			for w := range size {
				if w >= pace && pace > 0 && !own[w] {
					t.Fatalf("pace %d: worker %d did its share", pace, w)
				}
			}
			if !own[0] {
				t.Fatal("share 0 was not done by the caller")
			}
		}
	}
	for pace := size; pace > 0; pace-- {
		run(pace)
		eventually(t, "who rests sleeps", func() bool {
			return !slices.ContainsFunc(p.workers[pace-1:], func(w *worker) bool { return !w.asleep.Load() })
		})
	}
	for _, pace := range []int{2, 0} {
		run(pace)
		last := size - 1
		if pace > 0 {
			last = pace - 1
		}
		eventually(t, "a worker that may work does", func() bool {
			for _, w := range p.workers {
				w.late.back = 0 // whatever a busy machine made of it
			}
			if err := p.Run(task); err != nil {
				t.Fatal(err)
			}
			return !own[last]
		})
	}
	if p.Pace(-3); p.Run(task) != nil || p.paced != 0 || p.Size() != size {
		t.Errorf("a pace below none: paced %d, size %d; want 0, %d", p.paced, p.Size(), size)
	}
}

// TestPoolPaceWithoutCPU: a worker whose CPU is gone does not count as one that works.
func TestPoolPaceWithoutCPU(t *testing.T) {
	p := startTestPool(t, make([]int, 4), false)
	p.workers[0].barred = true
	p.leaveOut(p.workers[0])
	p.Pace(2)
	if err := p.Run(taskFunc(func(int, int) {})); err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{false, false, true} {
		if got := p.workers[i].resting; got != want {
			t.Errorf("worker %d of 4, the first without a CPU: resting %v, want %v", i+1, got, want)
		}
	}
	if !p.workers[0].leftOut.Load() || p.workers[1].leftOut.Load() || !p.workers[2].leftOut.Load() || p.out != 2 {
		t.Errorf("%d left out, want the first and the last", p.out)
	}
}
