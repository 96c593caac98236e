// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"errors"
	"os"
	"runtime"
	"slices"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// TestPoolFits: CPUs go and come back between two series of Run calls.
func TestPoolFits(t *testing.T) {
	const gone = maxCPUs - 1
	p := newTestPool(t, true)
	cpus := p.CPUs()
	series := func(what string, out int) {
		t.Helper()
		if err := p.Attach(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		defer p.Detach()
		calls := make([]int, p.Size())
		for range 3 {
			if err := p.Run(taskFunc(func(w, _ int) { calls[w]++ })); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		}
		if !slices.Equal(calls, []int{3, 3}) || p.out != out {
			t.Errorf("%s: shares done %v, %d left out, want %d", what, calls, p.out, out)
		}
		if err := p.CheckAffinity(); (err != nil) != (out > 0) {
			t.Errorf("%s: CheckAffinity: %v", what, err)
		}
	}
	if granted(2, CPUQuota(), 2) < 2 {
		t.Skip("the CPU quota leaves one worker")
	}
	series("as made", 0)
	p.cpus[1] = gone
	series("the worker's CPU is gone", 1)
	p.cpus[1] = cpus[1]
	series("it is back", 0)
	p.cpus[0] = gone
	series("the caller's CPU is gone", 1)
	if want := []int{cpus[1], gone}; !slices.Equal(p.cpus, want) {
		t.Errorf("CPUs %v, want %v", p.cpus, want)
	}
	p.cpus[1] = cpus[0]
	series("it is back", 0)
	p.cpus[0], p.cpus[1] = gone, gone
	series("no CPU at all", 1)
	p.cpus[0], p.cpus[1] = cpus[0], cpus[1]
	series("both are back", 0)

	var all unix.CPUSet
	for _, c := range cpus {
		all.Set(c)
	}
	if err := unix.SchedSetaffinity(p.workers[0].tid, &all); err != nil {
		t.Fatal(err)
	}
	series("the worker was moved", 0)
}

// moveAll gives all threads of the process a mask, as taskset -a does.
func moveAll(t *testing.T, cpus ...int) {
	t.Helper()
	var set unix.CPUSet
	for _, c := range cpus {
		set.Set(c)
	}
	for range 100 { // until none has begun meanwhile
		list, err := os.ReadDir("/proc/self/task")
		if err != nil {
			t.Fatal(err)
		}
		moved := false
		for _, e := range list {
			tid, err := strconv.Atoi(e.Name())
			if err != nil {
				t.Fatal(err)
			}
			var was unix.CPUSet
			if unix.SchedGetaffinity(tid, &was) != nil || was == set {
				continue // one that has ended, or that is there
			}
			if err := unix.SchedSetaffinity(tid, &set); err != nil && !errors.Is(err, unix.ESRCH) {
				t.Fatal(err)
			}
			moved = true
		}
		if !moved {
			return
		}
	}
	t.Fatal("threads keep beginning")
}

// TestPoolMoved: who gives the process other CPUs, between two series of Run calls
// or in the middle of one, is obeyed from the next on.
func TestPoolMoved(t *testing.T) {
	p := newTestPool(t, true)
	cpus := p.CPUs()
	if cpus[0] == cpus[1] || granted(2, CPUQuota(), 2) < 2 {
		t.Skip("one CPU")
	}
	before, err := AllowedCPUs()
	if err != nil {
		t.Fatal(err)
	}
	// Set by hand, or the runtime sets it when it notices the new mask.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0))))
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer moveAll(t, before...)
	series := func(what string, allowed []int, out int, during func()) {
		t.Helper()
		if err := p.Attach(); err != nil {
			t.Fatal(err)
		}
		calls := make([]int, 2)
		task := taskFunc(func(w, _ int) { calls[w]++ })
		run := func() {
			for range 10 * runsPerCheck {
				p.workers[0].late = lateness{} // or it might be left out by chance
				if err := p.Run(task); err != nil {
					t.Fatal(err)
				}
			}
		}
		if run(); p.out != out {
			t.Errorf("%s: %d left out, want %d", what, p.out, out)
		}
		if out > 0 && !slices.Contains(allowed, p.cpus[0]) {
			t.Errorf("%s: the caller is on CPU %d", what, p.cpus[0])
		}
		during()
		run()
		if calls[0] != 20*runsPerCheck || calls[1] != calls[0] {
			t.Errorf("%s: shares done %v", what, calls)
		}
		p.Detach()
		if got, err := AllowedCPUs(); err != nil || !slices.Equal(got, allowed) {
			t.Errorf("%s: may run on %v %v, want %v", what, got, err, allowed)
		}
		if got := threadMask(t); !slices.Equal(got, allowed) {
			t.Errorf("%s: the caller may run on %v, want %v", what, got, allowed)
		}
	}
	nothing := func() {}
	for _, c := range cpus {
		moveAll(t, c)
		series("one CPU, in between", []int{c}, 1, nothing)
		moveAll(t, before...)
		series("all CPUs, in between", before, 0, nothing)
		series("one CPU, meanwhile", []int{c}, 0, func() { moveAll(t, c) })
		series("still the one", []int{c}, 1, nothing)
		series("all CPUs, meanwhile", before, 1, func() { moveAll(t, before...) })
		series("all CPUs still", before, 0, nothing)
	}
}

func TestGranted(t *testing.T) {
	for _, c := range []struct {
		n     int
		quota float64
		procs int
		want  int
	}{
		{8, 0, 8, 8}, {8, 0, 2, 2}, {8, 1.5, 8, 1}, {8, 0.25, 8, 1}, {8, 2, 8, 2}, {8, 3.99, 8, 3}, {2, 16, 8, 2},
	} {
		if got := granted(c.n, c.quota, c.procs); got != c.want {
			t.Errorf("granted(%d, %g, %d) = %d, want %d", c.n, c.quota, c.procs, got, c.want)
		}
	}
}

func BenchmarkAttach(b *testing.B) {
	p := newTestPool(b, true)
	for b.Loop() {
		if err := p.Attach(); err != nil {
			b.Fatal(err)
		}
		p.Detach()
	}
}
