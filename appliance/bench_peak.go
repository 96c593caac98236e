// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"slices"
	"time"

	"windhover/kernels"
)

// PeakSpeed is what so many threads calculate at most, from registers alone.
type PeakSpeed struct {
	Threads int     `json:"threads"`
	Int8    float64 `json:"int8_gops"`
	F32     float64 `json:"f32_gflops"`
}

// peakTask calculates steps on every worker.
type peakTask struct {
	run   func(steps int) (ops int64)
	steps int
	ops   []int64 // [workers][8]: a cache line each
}

// newPeakTask takes about half a millisecond.
func newPeakTask(run func(int) int64, workers int) *peakTask {
	const about, try = 500 * time.Microsecond, 1 << 10
	run(try) // wakes what the CPU had put to sleep
	start := time.Now()
	run(try)
	took := max(time.Since(start), time.Microsecond)
	steps := int(try * float64(about) / float64(took))
	return &peakTask{run: run, steps: min(max(steps, 1), kernels.PeakSteps), ops: make([]int64, 8*workers)}
}

func (t *peakTask) Run(worker, _ int) { t.ops[8*worker] = t.run(t.steps) }

// total is how many operations a run does.
func (t *peakTask) total() float64 {
	var sum int64
	for _, n := range t.ops {
		sum += n
	}
	return float64(sum)
}

// peak measures the best of many short runs of either kind, in turn.
func (b *bench) peak(ctx context.Context, pool *kernels.Pool) (PeakSpeed, error) {
	n := pool.Size()
	whole, float := newPeakTask(kernels.PeakInt8, n), newPeakTask(kernels.PeakF32, n)
	seconds, err := bestOf(ctx, b.duration(), func() error { return pool.Run(whole) }, func() error { return pool.Run(float) })
	if err != nil {
		return PeakSpeed{}, err
	}
	return PeakSpeed{Threads: n, Int8: round1(whole.total() / seconds[0] / 1e9), F32: round1(float.total() / seconds[1] / 1e9)}, nil
}

// peakOf is the integer peak measured with n threads, 0 if it was not.
func (b *bench) peakOf(n int) float64 {
	i := slices.IndexFunc(b.report.Peak, func(p PeakSpeed) bool { return p.Threads == n })
	if i < 0 {
		return 0
	}
	return b.report.Peak[i].Int8
}
