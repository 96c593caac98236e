// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A Task is work that a [Pool] splits. Run is called once for each worker from
// 0 to workers-1, at the same time or, where a worker is late, one after the
// other; it takes its share by that number, and does not call the pool.
type Task interface {
	Run(worker, workers int)
}

// ErrPoolClosed is returned by Run after Close.
var ErrPoolClosed = errors.New("kernels: pool is closed")

// spinFor is how long a worker polls for the next task, and the caller for the
// last worker, before sleeping: longer than the work between two tasks of a
// token, short against the pause between two requests. A sleeping worker
// takes 40 to 230 microseconds to come back, a polling one under 1.
const spinFor = 2 * time.Millisecond

// yieldAfter is when a goroutine that is free to move begins to let others run
// between its polls. Not sooner, since it may cost a sleep of the scheduler, 70
// microseconds; and never by one that is locked to its thread, for which it is
// two switches of threads.
const yieldAfter = 200 * time.Microsecond

// pollsPerLook is how many polls pass between two looks at the clock, some 10
// microseconds.
const pollsPerLook = 256

// Pool runs tasks on a fixed set of workers, one a core. The calling goroutine
// is worker 0; the others are goroutines on threads of their own. They poll
// between the tasks of a token and sleep when no task comes for a while: an
// idle pool uses no CPU time.
//
// One goroutine at a time uses a pool: Attach, Run, Detach and Close are not to
// be called concurrently.
type Pool struct {
	cpus []int // [size], cpus[i] is where worker i belongs
	pin  bool

	workers  []*worker // 1 to size-1
	ended    sync.WaitGroup
	closed   bool
	attached savedThread

	task  Task // set before epoch moves on
	fault atomic.Pointer[FaultError]

	// What the workers poll and what they count down are on cache lines of
	// their own.
	_       [128]byte
	epoch   atomic.Uint32
	_       [124]byte
	pending atomic.Int32
	waiting atomic.Bool // the caller sleeps on joined
	_       [116]byte
	busy    atomic.Bool
	closing atomic.Bool
	joined  chan int // who ended last, capacity 1
	runs    atomic.Uint64

	born   time.Time
	out    int          // workers that are left out, late.go
	pace   atomic.Int32 // pace.go
	paced  int32        // the pace that is kept
	place  placing
	status []byte // [statusLen]
}

type worker struct {
	tid     int           // of its thread, 0 unless pinned
	counts  switchReader  // of its thread
	taken   atomic.Uint32 // the last epoch whose share somebody began
	done    atomic.Uint32 // the last epoch whose share somebody ended
	asleep  atomic.Bool   // it waits, or is about to wait, on wake
	leftOut atomic.Bool   // it is to sleep, whatever the epoch
	wake    chan struct{} // capacity 1

	// The caller's alone.
	late    lateness
	pending bool // in join: it was at work at the last look
	barred  bool // left out until Attach finds it a CPU again
	resting bool // left out until the pace lets it work again
	_       [64]byte
}

// take claims the worker's share of an epoch; the second to ask gets false, and
// so does a worker that comes when later ones are over.
func (w *worker) take(epoch uint32) bool {
	last := w.taken.Load()
	return int32(epoch-last) > 0 && w.taken.CompareAndSwap(last, epoch)
}

// NewPool starts a pool on the given CPUs, of which those count that the
// affinity mask of the process allows; it is never larger than the cgroup's CPU
// quota or GOMAXPROCS, since polling threads that share a CPU wait for each
// other for milliseconds. With pin each worker is bound to its CPU, worker 0 by
// Attach. Close must be called.
func NewPool(cpus []int, pin bool) (*Pool, error) {
	allowed, err := AllowedCPUs()
	if err != nil {
		return nil, err
	}
	use := usableCPUs(cpus, allowed, CPUQuota(), runtime.GOMAXPROCS(0))
	if len(use) == 0 {
		return nil, fmt.Errorf("kernels: pool: none of the CPUs %v is allowed (mask %v)", cpus, allowed)
	}
	return startPool(use, pin)
}

func startPool(cpus []int, pin bool) (*Pool, error) {
	p := &Pool{cpus: cpus, pin: pin, joined: make(chan int, 1), born: time.Now()}
	p.place.used = make([]time.Duration, len(cpus))
	p.place.shares = make([]float64, len(cpus))
	p.status = make([]byte, statusLen)
	started := make(chan error, len(cpus))
	for i := 1; i < len(cpus); i++ {
		w := &worker{wake: make(chan struct{}, 1)}
		p.workers = append(p.workers, w)
		p.ended.Add(1)
		go p.work(i, w, started)
	}
	var err error
	for range p.workers {
		err = errors.Join(err, <-started)
	}
	if err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// usableCPUs are the CPUs that get a worker.
func usableCPUs(cpus, allowed []int, quota float64, procs int) []int {
	var use []int
	for _, c := range cpus {
		if slices.Contains(allowed, c) && !slices.Contains(use, c) {
			use = append(use, c)
		}
	}
	return use[:granted(len(use), quota, procs)]
}

// Size is the number of workers, the caller included.
func (p *Pool) Size() int { return len(p.cpus) }

// CPUs lists where the workers belong, worker 0 first.
func (p *Pool) CPUs() []int { return slices.Clone(p.cpus) }

// Runs counts the tasks that were started. That it grows is proof that work
// moves; it may be read at any time.
func (p *Pool) Runs() uint64 { return p.runs.Load() }

// Run calls t.Run once for every worker and returns when all have returned. The
// share of a worker that has not begun when the caller is through with its own
// is done by the caller: on a busy machine a worker may be without a CPU for
// many milliseconds, and a token waits for it hundreds of times. One that is late
// again and again is left out for a while (late.go). A panic
// or a fault on a mapped page in any of them comes back as a *[FaultError], the
// first one if there are several; the pool stays usable. Run allocates nothing.
func (p *Pool) Run(t Task) error {
	if p.closed {
		return ErrPoolClosed
	}
	if !p.busy.CompareAndSwap(false, true) {
		panic("kernels: Pool.Run while the pool is running")
	}
	runs := p.runs.Add(1)
	if len(p.workers) > 0 {
		if p.pace.Load() != p.paced {
			p.rest()
		}
		if p.out > 0 {
			p.readmit(time.Since(p.born))
		}
		if p.attached.locked && runs%runsPerCheck == 0 {
			p.checkPlace(time.Since(p.born))
		}
		p.task = t
		p.pending.Store(int32(len(p.workers)))
		p.release()
	}
	old := debug.SetPanicOnFault(true)
	p.call(t, 0)
	epoch := p.epoch.Load()
	for i, w := range p.workers {
		if w.take(epoch) {
			p.call(t, i+1)
			w.done.Store(epoch)
			p.pending.Add(-1)
		}
	}
	debug.SetPanicOnFault(old)
	p.join(epoch)
	p.task = nil
	f := p.fault.Swap(nil)
	p.busy.Store(false)
	if f != nil {
		return f
	}
	return nil
}

// Close ends the workers and waits for them. It may be called twice.
func (p *Pool) Close() {
	if p.closed {
		return
	}
	p.closed = true
	p.closing.Store(true)
	for _, w := range p.workers {
		w.leftOut.Store(false)
	}
	p.release()
	p.ended.Wait()
	for _, w := range p.workers {
		w.counts.close()
	}
}

// release lets every worker that is not left out see the next epoch.
func (p *Pool) release() {
	p.epoch.Add(1)
	for _, w := range p.workers {
		if !w.leftOut.Load() && w.asleep.CompareAndSwap(true, false) {
			w.wake <- struct{}{}
		}
	}
}

// call runs one worker's share.
func (p *Pool) call(t Task, worker int) {
	defer func() {
		if r := recover(); r != nil {
			p.fault.CompareAndSwap(nil, newFaultError(worker, r))
		}
	}()
	t.Run(worker, len(p.cpus))
}

// work is the life of worker i.
func (p *Pool) work(i int, w *worker, started chan<- error) {
	defer p.ended.Done()
	if p.pin {
		// Never unlocked: the thread ends with the goroutine, and its mask
		// with it.
		runtime.LockOSThread()
		w.tid = threadID()
		w.counts = openSwitches(w.tid)
		if err := pinThread(p.cpus[i]); err != nil {
			started <- err
			return
		}
	}
	debug.SetPanicOnFault(true)
	started <- nil
	for epoch := uint32(0); ; {
		epoch = p.nextEpoch(epoch, w)
		if p.closing.Load() {
			return
		}
		if !w.take(epoch) {
			continue // the caller was faster
		}
		p.call(p.task, i)
		w.done.Store(epoch)
		if p.pending.Add(-1) == 0 && p.waiting.CompareAndSwap(true, false) {
			p.joined <- i
		}
	}
}

// nextEpoch polls, then sleeps, until the epoch is another than last and the
// worker is not left out.
func (p *Pool) nextEpoch(last uint32, w *worker) uint32 {
	var start time.Time
	for polls := 1; ; polls++ {
		e, out := p.epoch.Load(), w.leftOut.Load()
		if e != last && !out {
			return e
		}
		pause()
		if !out && (polls%pollsPerLook != 0 || !spent(&start, p.pin)) {
			continue
		}
		w.asleep.Store(true)
		// A release that came before asleep was set has not seen it; one that
		// came after takes it back and sends.
		if p.epoch.Load() == last || w.leftOut.Load() || !w.asleep.CompareAndSwap(true, false) {
			<-w.wake
		}
		start = time.Time{}
	}
}

// join polls, then sleeps, until no worker is pending.
func (p *Pool) join(epoch uint32) {
	var first, start time.Time
	var looked time.Duration // since first
	woke := 0                // the worker that ended a sleep after the last look, or 0
	for polls := 1; p.pending.Load() != 0; polls++ {
		pause()
		if polls%pollsPerLook != 0 {
			continue
		}
		if first.IsZero() {
			first = time.Now()
		}
		looked, woke = time.Since(first), 0
		for _, w := range p.workers {
			w.pending = w.done.Load() != epoch
		}
		if !spent(&start, p.attached.locked) {
			continue
		}
		// The wake-up may be a late one of an earlier task's last worker, for
		// which nobody was waiting then: pending decides.
		p.waiting.Store(true)
		if p.pending.Load() != 0 || !p.waiting.CompareAndSwap(true, false) {
			woke = <-p.joined
		}
		start = time.Time{}
	}
	if !first.IsZero() {
		p.blame(time.Since(p.born), time.Since(first), looked, woke)
	}
}

// spent tells whether spinFor has passed since the first call.
func spent(start *time.Time, locked bool) bool {
	if start.IsZero() {
		*start = time.Now()
		return false
	}
	d := time.Since(*start)
	if d > yieldAfter && !locked {
		runtime.Gosched()
	}
	return d > spinFor
}
