// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"errors"
	"os"
	"runtime"
	"slices"
	"testing"
)

func TestPoolClose(t *testing.T) {
	for _, pin := range []bool{false, true} {
		before := runtime.NumGoroutine()
		p := newTestPool(t, pin)
		if err := p.Run(taskFunc(func(int, int) {})); err != nil {
			t.Fatal(err)
		}
		if pin {
			eventually(t, "the workers sleep", func() bool { return asleep(p) })
		}
		p.Close()
		p.Close()
		if err := p.Run(taskFunc(func(int, int) {})); !errors.Is(err, ErrPoolClosed) {
			t.Errorf("Run after Close: %v", err)
		}
		if err := p.CheckAffinity(); err != nil {
			t.Errorf("CheckAffinity after Close: %v", err)
		}
		eventually(t, "the goroutines are gone", func() bool { return runtime.NumGoroutine() <= before })
	}
}

// TestPoolCloseLate: a pool is closed while workers have not yet come for the last
// tasks, or not even begun to poll; nothing stays behind.
func TestPoolCloseLate(t *testing.T) {
	cpus, err := AllowedCPUs()
	if err != nil {
		t.Fatal(err)
	}
	goroutines, files := runtime.NumGoroutine(), openFiles(t)
	for round := range 100 {
		p := startTestPool(t, []int{cpus[0], cpus[0], cpus[0]}, round%2 == 0)
		calls := make([]int, 3)
		for range round % 3 {
			if err := p.Run(taskFunc(func(w, _ int) { calls[w]++ })); err != nil {
				t.Fatal(err)
			}
		}
		if round%5 == 0 {
			p.leaveOut(p.workers[round%2])
		}
		p.Close()
		if n := round % 3; !slices.Equal(calls, []int{n, n, n}) {
			t.Fatalf("round %d: shares done %v", round, calls)
		}
	}
	eventually(t, "the goroutines are gone", func() bool { return runtime.NumGoroutine() <= goroutines })
	if n := openFiles(t); n > files {
		t.Errorf("%d open files, %d before", n, files)
	}
}

func openFiles(t *testing.T) int {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}
