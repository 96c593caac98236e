// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"slices"
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
