// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"math/rand/v2"
	"testing"
	"time"
)

// neighbour is another process on a CPU: it has it from from for slice, once a
// period.
type neighbour struct{ period, slice, from time.Duration }

// free returns when the CPU is free at or after now, and when it is taken next.
func (n neighbour) free(now time.Duration) (from, until time.Duration) {
	if n.slice == 0 {
		return now, 1<<63 - 1
	}
	k := (now - n.from) / n.period * n.period
	taken := n.from + k
	if taken > now {
		taken -= n.period
	}
	if now < taken+n.slice {
		return taken + n.slice, taken + n.period
	}
	return now, taken + n.period
}

// speedBeside plays Run calls whose work is a tenth of a millisecond of all CPUs,
// with no time passing but that of the work and of the neighbours, and returns the
// speed as part of that without neighbours. Who is not through takes units of
// others, as in the engine; a unit that has begun is waited for.
func speedBeside(neighbours []neighbour, length time.Duration) float64 {
	size := len(neighbours) + 1
	p := &Pool{cpus: make([]int, size)}
	for range neighbours {
		p.workers = append(p.workers, &worker{})
	}
	const look, share = 10 * time.Microsecond, 100 * time.Microsecond
	runs := 0
	ends := make([]time.Duration, size-1)
	for now := time.Duration(0); now < length; runs++ {
		if p.out > 0 {
			p.readmit(now)
		}
		at := 1
		for i, w := range p.workers {
			ends[i] = 0
			if from, _ := neighbours[i].free(now); !w.leftOut.Load() && from == now {
				at++
				ends[i] = 1
			}
		}
		took := share * time.Duration(size) / time.Duration(at)
		end := now + took
		for i, w := range p.workers {
			if ends[i] == 0 {
				continue
			}
			ends[i] = now + took
			if _, until := neighbours[i].free(now); until < ends[i] {
				from, _ := neighbours[i].free(until)
				ends[i] = from + ends[i] - until
			}
			end = max(end, ends[i])
			w.pending = false
		}
		if first := now + took + look; end > first {
			looked, woke := end-first, 0
			if end > first+spinFor {
				looked = spinFor
			}
			for i, w := range p.workers {
				w.pending = ends[i] > first+looked-look
				if ends[i] == end && looked == spinFor {
					woke = i + 1
				}
			}
			p.blame(end, end-first, looked, woke)
		}
		now = end
	}
	return float64(runs) * float64(share) / float64(length)
}

// TestSpeedBeside: beside busy processes a pool goes nearly at the speed of the CPUs
// that are free, however many they are; where time slices are long, trying costs
// more.
func TestSpeedBeside(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		period, slice time.Duration
		busy          [][2]int // of how many CPUs
		least         float64  // of the speed of the free ones
	}{
		{6 * ms, 3 * ms, [][2]int{{1, 2}, {1, 4}, {2, 4}, {3, 4}, {3, 8}, {7, 8}}, 0.9},
		{9 * ms, 3 * ms, [][2]int{{1, 2}, {1, 4}, {2, 4}, {3, 4}, {3, 8}, {7, 8}}, 0.9},
		{16 * ms, 8 * ms, [][2]int{{1, 2}, {1, 4}, {2, 4}, {3, 4}, {3, 8}, {7, 8}}, 0.9},
		{60 * ms, 30 * ms, [][2]int{{1, 2}, {1, 4}, {2, 4}, {3, 4}, {3, 8}}, 0.7},
		{253 * ms, 250 * ms, [][2]int{{1, 2}, {1, 4}, {1, 8}}, 0.6},
		{1000 * ms, 950 * ms, [][2]int{{1, 2}, {1, 4}, {1, 8}}, 0.45},
	} {
		for _, busy := range c.busy {
			n := make([]neighbour, busy[1]-1)
			for i := range busy[0] {
				n[i] = neighbour{c.period, c.slice, time.Duration(rng.Int64N(int64(c.period)))}
			}
			free := float64(busy[1]-busy[0]) / float64(busy[1])
			got := speedBeside(n, time.Minute) / free
			t.Logf("%v of %v on %d of %d CPUs: %.2f of the speed of the others", c.slice, c.period, busy[0], busy[1], got)
			if got < c.least {
				t.Errorf("%v of %v on %d of %d CPUs: %.2f of the speed of the others, want %.2f",
					c.slice, c.period, busy[0], busy[1], got, c.least)
			}
		}
	}
}
