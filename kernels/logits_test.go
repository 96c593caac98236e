// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"math"
	"testing"
)

// extremes are put among the random values, one at a time.
var extremes = []float32{
	0, float32(math.Copysign(0, -1)), math.MaxFloat32, -math.MaxFloat32, math.SmallestNonzeroFloat32,
	float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()),
}

// TestMaxBlocks: the largest of each block, wherever it is, and NaN wherever one is.
func TestMaxBlocks(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		for _, n := range []int{0, 1, 3, 63, 64, 65, 127, 128, 200, 64*5 + 63} {
			for seed := range uint64(2) {
				x := guardedCopy(t, randFloats(newRand(seed), n, "normal"), seed == 0)
				dst := guarded[float32](t, (n+MaxBlock-1)/MaxBlock, seed == 0)
				check := func(what string) {
					t.Helper()
					MaxBlocks(dst, x)
					for b, got := range dst {
						block := x[b*MaxBlock : min(n, (b+1)*MaxBlock)]
						want := float32(math.Inf(-1))
						for _, v := range block {
							if want == want && (v > want || v != v) {
								want = v
							}
						}
						if got != want && (got == got || want == want) {
							t.Fatalf("%d values, %s: block %d: %v, want %v", n, what, b, got, want)
						}
					}
				}
				check("random")
				for i := range x {
					old := x[i]
					for _, v := range extremes {
						x[i] = v
						check("an extreme")
					}
					x[i] = old
				}
			}
		}
	})
}

func TestExps(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		for n := range 4*8 + 4 {
			for i, temperature := range []float32{1, 0.7, 0.01, 2.5} {
				x := randFloats(newRand(uint64(n*7+i)), n, "normal")
				for j := range x {
					x[j] *= 30
				}
				if n > 0 {
					x[n-1] = extremes[n%len(extremes)]
				}
				want := make([]float32, n)
				expsGeneric(want, x, 3.25, temperature)
				got := guardedCopy(t, x, i&1 == 0)
				Exps(got, got, 3.25, temperature)
				for j := range got {
					if math.Float32bits(got[j]) != math.Float32bits(want[j]) && (got[j] == got[j] || want[j] == want[j]) {
						t.Fatalf("%d values, t %v: [%d] of %v: %v, want %v", n, temperature, j, x[j], got[j], want[j])
					}
				}
			}
		}
	})
}

func TestLogitsPanics(t *testing.T) {
	for name, f := range map[string]func(){
		"MaxBlocks": func() { MaxBlocks(make([]float32, 1), make([]float32, 65)) },
		"Exps":      func() { Exps(make([]float32, 1), make([]float32, 2), 0, 1) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic on wrong lengths", name)
				}
			}()
			f()
		}()
	}
}

func BenchmarkLogits(b *testing.B) {
	x := randFloats(newRand(1), 151936, "normal")
	dst := make([]float32, len(x))
	b.Run("max", func(b *testing.B) {
		for b.Loop() {
			MaxBlocks(dst[:len(x)/MaxBlock], x)
		}
	})
	b.Run("exps", func(b *testing.B) {
		for b.Loop() {
			Exps(dst, x, 4, 0.7)
		}
	})
}
