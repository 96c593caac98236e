// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"slices"
	"testing"
)

// schedule lets workers of the given speeds, in units a second, take the units of
// a phase, by the clock. A worker whose speed is negative stops for good in the
// middle of its first unit. It returns who did each unit and when the last ended.
func schedule(t *testing.T, speeds []float64, total int) (by []int, end float64) {
	t.Helper()
	q := unitsOf{shares: make([]share, len(speeds))}
	q.begin(total)
	by = slices.Repeat([]int{-1}, total)
	from, clock := make([]int, len(speeds)), make([]float64, len(speeds))
	for running := len(speeds); running > 0; {
		w := -1
		for i, c := range clock {
			if c >= 0 && (w < 0 || c < clock[w]) {
				w = i
			}
		}
		u, ok := q.take(w, len(speeds), &from[w])
		if !ok {
			clock[w] = -1
			running--
			continue
		}
		if by[u] >= 0 {
			t.Fatalf("unit %d was given out twice", u)
		}
		by[u] = w
		if speeds[w] < 0 {
			clock[w] = -1
			running--
			continue
		}
		clock[w] += 1 / speeds[w]
		end = max(end, clock[w])
	}
	return by, end
}

// TestUnitsEvenOut: whatever the speeds, a phase takes no longer than it would if
// work could be cut at will, and one unit of the slowest more.
func TestUnitsEvenOut(t *testing.T) {
	for _, c := range []struct {
		name   string
		speeds []float64
	}{
		{"one", []float64{1}},
		{"equal", []float64{1, 1, 1, 1}},
		{"RK3588", []float64{1, 1, 1, 1, 0.38, 0.38, 0.38, 0.38}},
		{"RK3588, memory bound", []float64{1, 1, 1, 1, 0.8, 0.8, 0.8, 0.8}},
		{"one little core", []float64{1, 1, 1, 1, 0.25}},
		{"half of a CPU", []float64{1, 0.5}},
		{"the caller is slow", []float64{0.3, 1, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			sum, slowest := 0.0, c.speeds[0]
			for _, s := range c.speeds {
				sum += s
				slowest = min(slowest, s)
			}
			for total := 1; total < 100; total++ {
				by, end := schedule(t, c.speeds, total)
				if u := slices.Index(by, -1); u >= 0 {
					t.Fatalf("%d units: unit %d was not done", total, u)
				}
				if limit := float64(total)/sum + 1/slowest; end > limit+1e-9 {
					t.Errorf("%d units: %.2f, want at most %.2f", total, end, limit)
				}
			}
		})
	}
}

// TestUnitsAreStreams: cores of the same speed do what is next to each other.
func TestUnitsAreStreams(t *testing.T) {
	by, _ := schedule(t, []float64{1, 1, 1}, 12)
	if want := []int{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2}; !slices.Equal(by, want) {
		t.Errorf("units were done by %v, want %v", by, want)
	}
}

// TestUnitsOfStalledWorker: a worker that stops in the middle of a unit keeps that
// one unit, and nothing else waits for it.
func TestUnitsOfStalledWorker(t *testing.T) {
	for workers := 2; workers <= 4; workers++ {
		for stalled := range workers {
			t.Run(fmt.Sprintf("%d of %d", stalled, workers), func(t *testing.T) {
				speeds := slices.Repeat([]float64{1}, workers)
				speeds[stalled] = -1
				const total = 24
				by, end := schedule(t, speeds, total)
				kept := 0
				for u, w := range by {
					if w < 0 {
						t.Fatalf("unit %d was not begun", u)
					}
					if w == stalled {
						kept++
					}
				}
				if kept != 1 {
					t.Errorf("the stalled worker has %d units, want 1", kept)
				}
				if limit := float64(total-1)/float64(workers-1) + 1; end > limit {
					t.Errorf("the others took %.2f, want at most %.2f", end, limit)
				}
			})
		}
	}
}
