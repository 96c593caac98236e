// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestPlacing: where the caller goes, window by window.
func TestPlacing(t *testing.T) {
	type window struct {
		taken  bool
		shares []float64
		want   int
	}
	full, half, asleep := 1.0, 0.5, 0.0
	for _, c := range []struct {
		name    string
		windows []window
	}{
		{"undisturbed", []window{{false, []float64{full, full}, 0}, {true, []float64{0.9, full}, 0}}},
		{"a worker has its CPU", []window{{true, []float64{half, half, full}, 2}}},
		{"the caller waits in a callback", []window{
			{false, []float64{half, full}, 0}, {false, []float64{half, full}, 0}, {false, []float64{half, asleep}, 0}}},
		{"a slice now and then", []window{
			{true, []float64{half, half}, 0}, {false, []float64{full, half}, 0}, {true, []float64{half, half}, 0}}},
		{"the worker is left out, its CPU free", []window{
			{true, []float64{half, asleep}, 0}, {true, []float64{half, asleep}, 1},
			{false, []float64{full, asleep}, 0}, {true, []float64{half, asleep}, 0}, {true, []float64{half, asleep}, 1}}},
		{"the worker is left out, its CPU less taken", []window{
			{true, []float64{0.3, asleep}, 0}, {true, []float64{0.3, asleep}, 1}, {true, []float64{half, asleep}, 0}}},
		{"both are disturbed", []window{
			{true, []float64{half, asleep}, 0}, {true, []float64{half, asleep}, 1}, {true, []float64{half, asleep}, 1},
			{true, []float64{half, asleep}, 0}, {true, []float64{half, asleep}, 0}}},
		{"all are, of three", []window{
			{true, []float64{half, half, asleep}, 0}, {true, []float64{half, half, asleep}, 1},
			{true, []float64{half, half, asleep}, 1}}},
		{"alone", []window{{true, []float64{half}, 0}, {true, []float64{half}, 0}, {true, []float64{half}, 0}}},
	} {
		var s placing
		now := time.Minute
		for i, w := range c.windows {
			s.shares = w.shares
			if got := s.choose(now, w.taken); got != w.want {
				t.Errorf("%s: window %d: changes with %d, want %d", c.name, i, got, w.want)
			}
			now += placeWindow
		}
	}
}

// TestPlacingTries: in vain the caller tries less and less often, and all places.
func TestPlacingTries(t *testing.T) {
	s := placing{shares: []float64{0.5, 0, 0, 0}}
	var tried []int
	away, now := 0, time.Minute
	for ; now < 2*time.Minute; now += placeWindow {
		to := s.choose(now, true)
		if to > 0 && s.trial > 0 {
			tried = append(tried, to)
			away++
		}
	}
	if len(tried) < 10 || time.Duration(away)*placeWindow > time.Minute/50 {
		t.Errorf("%d trials in a minute", len(tried))
	}
	for i, w := range tried {
		if want := i%3 + 1; w != want {
			t.Fatalf("trials %v, want each worker in turn", tried)
		}
	}
}

// TestPlacingTwo: the callers of two pools on the same two CPUs, whose workers are
// left out, end up on different ones and stay there.
func TestPlacingTwo(t *testing.T) {
	type caller struct {
		placing
		cpu  int
		had  float64
		from time.Duration
	}
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 0))
		var callers [2]caller
		for i := range callers {
			callers[i].shares = make([]float64, 2)
			callers[i].from = time.Duration(rng.IntN(int(placeWindow/ms))) * ms
		}
		apart := time.Duration(0)
		const end = 10 * time.Second
		for now := time.Duration(0); now < end; now += ms {
			together := callers[0].cpu == callers[1].cpu
			if together {
				apart = now
			}
			running := (int(now/(3*ms)) + rng.IntN(2)) % 2 // slices of about 3 ms
			for i := range callers {
				c := &callers[i]
				if !together || running == i {
					c.had++
				}
				// A caller looks when it has the CPU.
				if now-c.from < placeWindow || together && running != i {
					continue
				}
				c.shares[0] = c.had / float64((now-c.from)/ms)
				if c.choose(now, c.shares[0] < shareFull) > 0 {
					c.cpu = 1 - c.cpu
				}
				c.had, c.from = 0, now
			}
		}
		if apart > end/2 {
			t.Errorf("seed %d: on the same CPU after %v", seed, apart)
		}
	}
}

// TestPoolSwap: the caller changes places with a worker whose CPU is its own, and
// tries that of one of which nothing is known.
func TestPoolSwap(t *testing.T) {
	p := newTestPool(t, true)
	if err := p.Attach(); err != nil {
		t.Fatal(err)
	}
	defer p.Detach()
	before := p.CPUs()
	swapped := []int{before[1], before[0]}
	now := time.Hour
	check := func(what string, moves switches, caller, worker float64, want []int) {
		t.Helper()
		now += placeWindow
		p.place.at, p.place.ready = now-placeWindow, true
		part := func(share float64) time.Duration { return time.Duration(share * float64(placeWindow)) }
		// The clocks of the threads go on meanwhile: what they show now is what
		// the window had plus some microseconds.
		p.place.used[0] = threadTime(p.attached.tid) - part(caller)
		p.place.used[1] = threadTime(p.workers[0].tid) - part(worker)
		p.place.moves = ownSwitches()
		p.place.moves.voluntary -= moves.voluntary
		p.place.moves.forced -= moves.forced
		if p.checkPlace(now); !slices.Equal(p.CPUs(), want) {
			t.Errorf("%s: CPUs %v, want %v", what, p.CPUs(), want)
		}
		if err := p.CheckAffinity(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if got := threadMask(t); before[0] != before[1] && !slices.Equal(got, want[:1]) {
			t.Errorf("%s: the caller may run on %v, want %v", what, got, want[:1])
		}
	}
	slept, pushed := switches{voluntary: 5}, switches{forced: 5}
	check("undisturbed", pushed, 1, 1, before)
	check("it slept in a callback", slept, 0.5, 1, before)
	check("it is disturbed, the worker is not", pushed, 0.5, 1, swapped)
	check("both are disturbed", pushed, 0.5, 0.5, swapped)
	check("both are disturbed for long", pushed, 0.5, 0.5, before)
	check("it is no better there", pushed, 0.5, 0.5, swapped)
	check("no trial yet", pushed, 0.5, 0, swapped)
	check("no trial yet", pushed, 0.5, 0, swapped)
	now += tryLeast
	check("a trial", pushed, 0.5, 0, before)
	check("it is better there", slept, 1, 0, before)
}

// TestPoolSwapMoved: threads that somebody else has moved stay where they are.
func TestPoolSwapMoved(t *testing.T) {
	p := newTestPool(t, true)
	cpus := p.CPUs()
	if cpus[0] == cpus[1] {
		t.Skip("one CPU")
	}
	if err := p.Attach(); err != nil {
		t.Fatal(err)
	}
	defer p.Detach()
	for i := range 2 {
		if p.fit(); !p.swap(1) {
			t.Fatal("they do not change places")
		}
		tid := []int{p.attached.tid, p.workers[0].tid}[i]
		if err := setCPU(tid, p.cpus[1-i]); err != nil {
			t.Fatal(err)
		}
		if p.swap(1) || isOn(tid, p.cpus[i]) {
			t.Errorf("the thread of worker %d was moved, and is moved back", i)
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
