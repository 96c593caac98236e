// SPDX-License-Identifier: Apache-2.0

package kernels

import "testing"

// TestPeak: the sums of the registers hold every multiplication of every step.
func TestPeak(t *testing.T) {
	int8Step := map[string]int64{"vnni": 16 * 64, "avx2": 8 * 32, "sdot": 16 * 16, "neon": 8 * 16, generic: 4}
	f32Step := map[string]int64{"avx512": 16 * 16, "avx2": 12 * 8, "neon": 16 * 4, generic: 4}
	eachImplementation(t, func(t *testing.T) {
		for _, c := range []struct {
			op   string
			run  func(int) int64
			step map[string]int64
		}{{"peak int8", PeakInt8, int8Step}, {"peak f32", PeakF32, f32Step}} {
			var impl string
			for _, s := range Selected() {
				if s.Op == c.op {
					impl = s.Impl
				}
			}
			for _, n := range []struct{ steps, done int }{{0, 1}, {1, 1}, {2, 2}, {1000, 1000}, {1 << 40, PeakSteps}} {
				if got, want := c.run(n.steps), 2*c.step[impl]*int64(n.done); got != want {
					t.Errorf("%s, %s, %d steps: %d operations, want %d", c.op, impl, n.steps, got, want)
				}
			}
		}
	})
}

// BenchmarkPeak: the most this CPU computes.
func BenchmarkPeak(b *testing.B) {
	for _, c := range []struct {
		name string
		run  func(int) int64
	}{{"int8", PeakInt8}, {"f32", PeakF32}} {
		b.Run(c.name, func(b *testing.B) {
			eachImplementationB(b, func(b *testing.B) {
				var ops int64
				for b.Loop() {
					ops += c.run(1 << 14)
				}
				b.ReportMetric(float64(ops)/b.Elapsed().Seconds()/1e9, "GOPS")
				b.ReportMetric(0, "ns/op")
			})
		})
	}
}
