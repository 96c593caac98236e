// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"windhover/internal/testmodel"
	"windhover/kernels"
)

// BenchmarkNeighbour is what is left of the speed of decoding when a process that
// only spins is on one of the CPUs, on each, or where the system puts it: the
// median ratio of runs without and with it, in turn, with two workers. To be run
// by hand, with nothing else on the machine, on a model of a real size:
//
//	WINDHOVER_BENCH_MODEL=0.6b-q8.vqf go test -run xxx -bench Neighbour -benchtime 5x ./engine
func BenchmarkNeighbour(b *testing.B) {
	path := os.Getenv("WINDHOVER_BENCH_MODEL")
	if path == "" {
		path = testmodel.Write(b, shape135M())
	}
	topo, err := kernels.DetectTopology()
	if err != nil {
		b.Fatal(err)
	}
	if len(topo.Big) < 2 {
		b.Skip("one CPU")
	}
	cpus := topo.Big[:2]
	m := load(b, path, Options{Threads: 2, Pin: true, NoTokenizer: true, Context: 512})
	for _, c := range []struct {
		name string
		on   [][]int // the CPUs of each neighbour
	}{
		{"worker", [][]int{cpus[1:]}}, {"caller", [][]int{cpus[:1]}},
		{"free", [][]int{cpus}}, {"both", [][]int{cpus[:1], cpus[1:]}},
	} {
		b.Run(c.name, func(b *testing.B) {
			var alone, beside []float64
			for b.Loop() {
				alone = append(alone, decodeFor(b, m, time.Second))
				var stop []func()
				for _, on := range c.on {
					stop = append(stop, spin(b, on))
				}
				beside = append(beside, decodeFor(b, m, time.Second))
				for _, f := range stop {
					f()
				}
			}
			slices.Sort(alone)
			slices.Sort(beside)
			b.ReportMetric(alone[len(alone)/2], "tok/s-alone")
			b.ReportMetric(beside[len(beside)/2]/alone[len(alone)/2], "of-alone")
		})
	}
}

// decodeFor decodes for about d and returns tokens a second.
func decodeFor(b *testing.B, m *Model, d time.Duration) float64 {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	n := 0
	start := time.Now()
	for ctx.Err() == nil {
		r, err := m.Generate(ctx, Request{Tokens: noise(8), MaxTokens: 256, IgnoreEOS: true}, nil)
		if err != nil {
			b.Fatal(err)
		}
		n += len(r.Tokens)
	}
	return float64(n) / time.Since(start).Seconds()
}

// spin starts a process that does nothing but use the CPUs it is bound to.
func spin(b *testing.B, cpus []int) (stop func()) {
	cmd := exec.Command("sh", "-c", "while :; do :; done")
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	var set unix.CPUSet
	for _, c := range cpus {
		set.Set(c)
	}
	if err := unix.SchedSetaffinity(cmd.Process.Pid, &set); err != nil {
		b.Fatal(err)
	}
	return func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed: that is its error
	}
}
