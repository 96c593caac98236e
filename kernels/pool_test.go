// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

type taskFunc func(worker, workers int)

func (f taskFunc) Run(worker, workers int) { f(worker, workers) }

// newTestPool has a worker on every allowed CPU, at least two workers: where
// there is one CPU, they share it.
func newTestPool(t testing.TB, pin bool) *Pool {
	t.Helper()
	cpus, err := AllowedCPUs()
	if err != nil {
		t.Fatal(err)
	}
	if len(cpus) == 1 {
		cpus = append(cpus, cpus[0])
	}
	return startTestPool(t, cpus[:2], pin)
}

func startTestPool(t testing.TB, cpus []int, pin bool) *Pool {
	t.Helper()
	p, err := startPool(cpus, pin)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// eventually polls for what another goroutine or the kernel is about to do.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

func asleep(p *Pool) bool {
	return !slices.ContainsFunc(p.workers, func(w *worker) bool { return !w.asleep.Load() })
}

func TestPoolRun(t *testing.T) {
	for _, size := range []int{1, 2, 3, 4} {
		cpus := make([]int, size) // all on CPU 0's account, not pinned
		p := startTestPool(t, cpus, false)
		if p.Size() != size {
			t.Fatalf("Size = %d, want %d", p.Size(), size)
		}
		calls := make([]int, size) // written by its worker only: the race detector watches
		total := 0
		rounds := 300
		for range rounds {
			if err := p.Run(taskFunc(func(w, n int) {
				if n != size {
					t.Errorf("workers = %d, want %d", n, size)
				}
				calls[w]++
			})); err != nil {
				t.Fatal(err)
			}
			total++
			for w, c := range calls {
				if c != total {
					t.Fatalf("size %d: worker %d ran %d times after %d runs", size, w, c, total)
				}
			}
		}
	}
}

// TestPoolSleeps: after spinFor no worker polls, no time is used, and the next
// task wakes them.
func TestPoolSleeps(t *testing.T) {
	p := newTestPool(t, false)
	var n atomic.Int32
	count := taskFunc(func(int, int) { n.Add(1) })
	for round := int32(1); round <= 3; round++ {
		if err := p.Run(count); err != nil {
			t.Fatal(err)
		}
		if got := n.Load(); got != 2*round {
			t.Fatalf("%d calls, want %d", got, 2*round)
		}
		eventually(t, "the workers sleep", func() bool { return asleep(p) })
	}
	runtime.GC() // no background work of the collector in what follows
	before := cpuTime(t)
	const idle = 200 * time.Millisecond
	time.Sleep(idle) // what is measured, not what is waited for
	if used := cpuTime(t) - before; used > idle/10 {
		t.Errorf("an idle pool used %v of CPU time in %v", used, idle)
	}
}

func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err != nil {
		t.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// together makes every share wait until all have begun, so that each is done by
// its own worker: the caller takes none over.
func together(t Task) Task {
	var begun atomic.Int32
	return taskFunc(func(w, n int) {
		for begun.Add(1); int(begun.Load())%n != 0; {
			runtime.Gosched()
		}
		t.Run(w, n)
	})
}

// TestPoolLateWorker: a worker that gets no CPU holds nobody up.
func TestPoolLateWorker(t *testing.T) {
	p := &Pool{cpus: []int{0, 0, 0}, joined: make(chan int, 1)}
	for range 2 {
		p.workers = append(p.workers, &worker{wake: make(chan struct{}, 1)}) // and no goroutine
	}
	calls := make([]int, 3)
	for round := 1; round <= 3; round++ {
		if err := p.Run(taskFunc(func(w, _ int) { calls[w]++ })); err != nil {
			t.Fatal(err)
		}
		if want := []int{round, round, round}; !slices.Equal(calls, want) {
			t.Fatalf("calls %v, want %v", calls, want)
		}
	}
	err := p.Run(taskFunc(func(w, _ int) {
		if w == 2 {
			panic("late")
		}
	}))
	var f *FaultError
	if !errors.As(err, &f) || f.Worker != 2 {
		t.Errorf("error %v, want the panic of worker 2", err)
	}
	// Now it comes, for an epoch that is over.
	w := p.workers[0]
	for _, stale := range []uint32{1, p.epoch.Load() - 1, p.epoch.Load()} {
		if w.take(stale) {
			t.Errorf("the share of epoch %d was given out again", stale)
		}
	}
	if !w.take(p.epoch.Load()+1) || w.take(p.epoch.Load()+1) {
		t.Error("the share of the next epoch must be given out once")
	}
	w.taken.Store(1<<32 - 1) // epochs wrap around
	if w.take(1<<32-2) || !w.take(0) || !w.take(1) {
		t.Error("epoch 0 must follow the last one")
	}
}

// TestPoolLongTask: the caller goes to sleep while a worker is still at it.
func TestPoolLongTask(t *testing.T) {
	p := newTestPool(t, false)
	for slow := range 2 {
		done := false
		if err := p.Run(together(taskFunc(func(w, _ int) {
			if w != slow {
				return
			}
			if w == 1 {
				eventually(t, "the caller sleeps", p.waiting.Load)
			}
			done = true
		}))); err != nil || !done {
			t.Errorf("worker %d slow: done %v, error %v", slow, done, err)
		}
	}
}

func TestPoolPanic(t *testing.T) {
	p := newTestPool(t, false)
	cause := errors.New("boom")
	for bad := range 2 {
		err := p.Run(taskFunc(func(w, _ int) {
			if w == bad {
				panic(cause)
			}
		}))
		var f *FaultError
		if !errors.As(err, &f) || f.Worker != bad || f.HasAddr || !errors.Is(err, cause) {
			t.Errorf("worker %d: error %v", bad, err)
		}
		if err := p.Run(taskFunc(func(int, int) {})); err != nil {
			t.Errorf("after the panic: %v", err)
		}
	}
}

func TestPoolPin(t *testing.T) {
	p := newTestPool(t, true)
	before, err := AllowedCPUs()
	if err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread() // to see that Detach gives this thread its mask back
	defer runtime.UnlockOSThread()
	if err := p.Attach(); err != nil {
		t.Fatal(err)
	}
	if err := p.Attach(); err != nil {
		t.Errorf("second Attach: %v", err)
	}
	masks := make([][]int, 2)
	look := together(taskFunc(func(w, _ int) { masks[w] = threadMask(t) }))
	if err := p.Run(look); err != nil {
		t.Fatal(err)
	}
	for w, cpu := range p.CPUs() {
		if want := []int{cpu}; !slices.Equal(masks[w], want) {
			t.Errorf("worker %d may run on %v, want %v", w, masks[w], want)
		}
	}
	if err := p.CheckAffinity(); err != nil {
		t.Error(err)
	}
	if all, err := AllowedCPUs(); err != nil || !slices.Equal(all, before) {
		t.Errorf("allowed while attached: %v %v, want %v", all, err, before)
	}
	p.Detach()
	p.Detach()
	if got := threadMask(t); !slices.Equal(got, before) {
		t.Errorf("after Detach the caller may run on %v, want %v", got, before)
	}
	if len(before) > 1 {
		var all unix.CPUSet
		for _, c := range before {
			all.Set(c)
		}
		if err := unix.SchedSetaffinity(p.workers[0].tid, &all); err != nil {
			t.Fatal(err)
		}
		if err := p.CheckAffinity(); err == nil {
			t.Error("CheckAffinity does not see a worker that was moved")
		}
	}
}

func threadMask(t *testing.T) []int {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		t.Error(err)
	}
	return cpuList(&set)
}

func TestPoolMisuse(t *testing.T) {
	p := newTestPool(t, false)
	err := p.Run(taskFunc(func(w, _ int) {
		if w == 0 {
			_ = p.Run(taskFunc(func(int, int) {}))
		}
	}))
	var f *FaultError
	if !errors.As(err, &f) || !strings.Contains(err.Error(), "while the pool is running") {
		t.Errorf("nested Run: %v", err)
	}
}

func TestPoolAllocs(t *testing.T) {
	p := newTestPool(t, true)
	if err := p.Attach(); err != nil {
		t.Fatal(err)
	}
	defer p.Detach()
	task := taskFunc(func(int, int) {})
	if n := testing.AllocsPerRun(100, func() { _ = p.Run(task) }); n != 0 {
		t.Errorf("%v allocations a Run", n)
	}
	// What a Run does now and then: a worker is watched, left out and taken in
	// again, and the caller moves or cannot.
	w, now := p.workers[0], time.Hour
	swaps := 0
	if n := testing.AllocsPerRun(100, func() {
		now += time.Second
		for range 2 {
			w.late.moves.voluntary = 1 << 40 // it has not slept by itself
			w.pending = true
			p.blame(now, lateLimit, lateLimit, 0)
		}
		if p.out != 1 {
			t.Errorf("%d left out, want 1", p.out)
		}
		now += time.Second
		p.readmit(now)
		if p.out != 0 {
			t.Errorf("%d left out, want 0", p.out)
		}
		before := p.cpus[0]
		for range 2 { // then it is a trial
			p.place.ready, p.place.moves.forced = true, -1<<40
			now += time.Second
			p.checkPlace(now)
		}
		if p.cpus[0] != before {
			swaps++
		}
		cpu := p.cpus[1]
		p.cpus[1] = maxCPUs - 1
		if p.swap(1) {
			t.Error("moved to a CPU that is not there")
		}
		p.cpus[1] = cpu
	}); n != 0 {
		t.Errorf("%v allocations for a worker that is late", n)
	}
	if swaps == 0 && p.cpus[0] != p.cpus[1] {
		t.Error("the caller never moved")
	}
}

// TestPoolBusy: more goroutines than processors want to run, and the garbage
// collector; runs still finish.
func TestPoolBusy(t *testing.T) {
	p := newTestPool(t, false)
	var stop atomic.Bool
	defer stop.Store(true)
	for range 2 * runtime.GOMAXPROCS(0) {
		go func() {
			for !stop.Load() {
				_ = make([]byte, 1<<12)
			}
		}()
	}
	start := time.Now()
	const rounds = 50
	for range rounds {
		if err := p.Run(taskFunc(func(int, int) {})); err != nil {
			t.Fatal(err)
		}
	}
	// A lost wake-up would hang; a time slice for each worker is the worst
	// that is expected.
	if d := time.Since(start); d > rounds*200*time.Millisecond {
		t.Errorf("%d runs took %v", rounds, d)
	}
}

func TestUsableCPUs(t *testing.T) {
	type ints = []int
	for _, c := range []struct {
		cpus, allowed ints
		quota         float64
		procs         int
		want          ints
	}{
		{ints{4, 5, 6, 7}, ints{0, 1, 2, 3, 4, 5, 6, 7}, 0, 8, ints{4, 5, 6, 7}},
		{ints{4, 5, 6, 7}, ints{5, 7}, 0, 8, ints{5, 7}},
		{ints{4, 5, 6, 7}, ints{4, 5, 6, 7}, 2.5, 8, ints{4, 5}},
		{ints{4, 5}, ints{4, 5}, 0.5, 8, ints{4}},
		{ints{4, 5, 6}, ints{4, 5, 6}, 9, 2, ints{4, 5}},
		{ints{1, 1, 0}, ints{0, 1}, 0, 8, ints{1, 0}},
		{ints{3}, ints{0}, 0, 8, nil},
		{nil, ints{0}, 1, 1, nil},
	} {
		if got := usableCPUs(c.cpus, c.allowed, c.quota, c.procs); !slices.Equal(got, c.want) {
			t.Errorf("usableCPUs(%v, %v, %g, %d) = %v, want %v", c.cpus, c.allowed, c.quota, c.procs, got, c.want)
		}
	}
}

func TestNewPool(t *testing.T) {
	topo, err := DetectTopology()
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewPool(topo.Big, true)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if p.Size() < 1 || p.Size() > len(topo.Big) {
		t.Errorf("size %d on the CPUs %v", p.Size(), topo.Big)
	}
	for _, cpus := range [][]int{nil, {maxCPUs - 1}} {
		if p, err := NewPool(cpus, false); err == nil {
			p.Close()
			t.Errorf("NewPool(%v): no error", cpus)
		}
	}
	if _, err := startPool([]int{0, maxCPUs - 1}, true); err == nil {
		t.Error("pinning to a CPU that is not there: no error")
	}
}
