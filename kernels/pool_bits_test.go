// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// stall is what may happen to a share, by its number.
func stall(kind int) {
	switch kind {
	case 0: // a share that takes long
		for start := time.Now(); time.Since(start) < 300*time.Microsecond; {
			pause()
		}
	case 1: // one that waits for storage
		ts := unix.NsecToTimespec(int64(50 * time.Microsecond))
		_ = unix.Nanosleep(&ts, nil)
	case 2: // one for which the caller goes to sleep
		for start := time.Now(); time.Since(start) < spinFor+time.Millisecond; {
			pause()
		}
	}
}

// TestPoolSameBits: whatever the number of workers, whoever is late, left out,
// resting or moved, and with two pools on the same CPUs, a product has the same bits.
func TestPoolSameBits(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 1))
	const rows, cols = 8 * 24, 4 * BlockLen
	m := arrange(t, randBlocks(rng, rows*cols/BlockLen, true, "random"), rows, cols, Q8x8)
	a := NewActs(1, cols)
	a.Quantize(randFloats(rng, cols, "normal"), 1)
	want := make([]float32, rows)
	MatMul(want, rows, &m, a, 0, rows)

	cpus := make([]int, 0, 4)
	allowed, err := AllowedCPUs()
	if err != nil {
		t.Fatal(err)
	}
	for range 4 {
		cpus = append(cpus, allowed[len(cpus)%len(allowed)])
	}
	series := func(seed uint64, done *sync.WaitGroup) {
		defer done.Done()
		rng := rand.New(rand.NewPCG(seed, 2))
		size, pin := 1+rng.IntN(4), rng.IntN(2) == 0
		p, err := startPool(slices.Clone(cpus[:size]), pin)
		if err != nil {
			t.Error(err)
			return
		}
		defer p.Close()
		defer p.Detach()
		got := make([]float32, rows)
		kinds := make([]int, size)
		task := taskFunc(func(w, n int) {
			stall(kinds[w])
			MatMul(got, rows, &m, a, rows/8*w/n*8, rows/8*(w+1)/n*8)
		})
		for run := range 60 {
			if run%20 == 0 {
				p.Detach()
				if rng.IntN(3) > 0 {
					if err := p.Attach(); err != nil {
						t.Error(err)
						return
					}
				}
			}
			for i := range kinds {
				kinds[i] = rng.IntN(24)
			}
			if rng.IntN(8) == 0 {
				p.Pace(rng.IntN(size + 1))
			}
			if size > 1 && rng.IntN(4) == 0 {
				i := 1 + rng.IntN(size-1)
				switch w := p.workers[i-1]; rng.IntN(3) {
				case 0:
					p.leaveOut(w)
				case 1:
					w.late.back = 0
				case 2:
					if p.attached.locked {
						p.swap(i)
					}
				}
			}
			clear(got)
			if err := p.Run(task); err != nil {
				t.Error(err)
			}
			for i := range got {
				if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
					t.Errorf("seed %d, %d workers, pinned %v, run %d: row %d is %g, want %g", seed, size, pin, run, i, got[i], want[i])
					return
				}
			}
		}
	}
	for seed := uint64(0); seed < 8; seed += 2 {
		var done sync.WaitGroup
		done.Add(2)
		go series(seed, &done)
		go series(seed+1, &done)
		done.Wait()
	}
}
