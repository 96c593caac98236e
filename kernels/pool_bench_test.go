// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"slices"
	"sync"
	"testing"
	"time"
)

// BenchmarkForkJoin is what splitting work costs: the median and the 99th
// percentile of how much longer a Run takes than its longest share. Every Run is
// timed by itself, in the caller; the shares are nothing, or poll the clock until
// 20 microseconds are over. It includes the reading of the clocks, some 50 ns,
// and with 20 microseconds the worker's later start. Best under a high priority:
//
//	chrt -f 20 go test -run xxx -bench ForkJoin ./kernels
func BenchmarkForkJoin(b *testing.B) {
	for _, share := range []time.Duration{0, 20 * time.Microsecond} {
		for _, pin := range []bool{false, true} {
			name := share.String() + "/free"
			if pin {
				name = share.String() + "/pinned"
			}
			b.Run(name, func(b *testing.B) {
				p := newTestPool(b, pin)
				if err := p.Attach(); err != nil {
					b.Fatal(err)
				}
				defer p.Detach()
				task := Task(taskFunc(func(int, int) {
					if share == 0 {
						return
					}
					for start := time.Now(); time.Since(start) < share; {
						pause()
					}
				}))
				over := make([]time.Duration, 0, 1<<20)
				for b.Loop() {
					start := time.Now()
					if err := p.Run(task); err != nil {
						b.Fatal(err)
					}
					if d := time.Since(start); len(over) < cap(over) {
						over = append(over, d-share)
					}
				}
				slices.Sort(over)
				b.ReportMetric(over[len(over)/2].Seconds()*1e6, "us/join-p50")
				b.ReportMetric(over[len(over)*99/100].Seconds()*1e6, "us/join-p99")
			})
		}
	}
}

// BenchmarkTwoPools is what two pools on the same two CPUs, each with a caller of
// its own, do together as part of what one does alone: the median. Best under a
// high priority, as [BenchmarkForkJoin].
func BenchmarkTwoPools(b *testing.B) {
	runs := func(pools int) float64 {
		counts := make([]int, pools)
		var done sync.WaitGroup
		for i := range counts {
			p := newTestPool(b, true)
			done.Go(func() {
				defer p.Close()
				if err := p.Attach(); err != nil {
					b.Error(err)
					return
				}
				defer p.Detach()
				task := taskFunc(func(int, int) {
					for range 1000 {
						pause()
					}
				})
				for start := time.Now(); time.Since(start) < time.Second; counts[i]++ {
					if err := p.Run(task); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		done.Wait()
		sum := 0
		for _, n := range counts {
			sum += n
		}
		return float64(sum)
	}
	var parts []float64
	for b.Loop() {
		parts = append(parts, runs(2)/runs(1))
	}
	slices.Sort(parts)
	b.ReportMetric(parts[len(parts)/2], "of-one")
}
