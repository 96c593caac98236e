// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"bytes"
	"fmt"
	"math"
	"testing"
)

// finite gives nb blocks of values of a kind, without infinities and NaN, and
// some blocks of nothing but zeros, of one value, or of subnormal ones.
func finite(seed uint64, nb int, kind string) []float32 {
	r := newRand(seed)
	x := randFloats(r, nb*BlockLen, kind)
	for b := range nb {
		blk := x[b*BlockLen:][:BlockLen]
		switch r.IntN(8) {
		case 0:
			clear(blk)
		case 1:
			for i := range blk {
				blk[i] = 0x1p-140 * float32(r.IntN(9)-4)
			}
		case 2: // equal magnitudes: the first decides
			for i := range blk {
				blk[i] = float32(1 - 2*r.IntN(2))
			}
		}
		for i, v := range blk {
			if v != v || math.IsInf(float64(v), 0) {
				blk[i] = -0.75
			}
		}
	}
	return x
}

// Weights are quantised to the same bytes by every implementation.
func TestQuantizeWeights(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		for _, nb := range []int{0, 1, 2, 3, 7, 64, 129} {
			for _, kind := range floatKinds {
				for seed := range uint64(8) {
					x := guardedCopy(t, finite(seed*31+uint64(nb), nb, kind), seed&1 == 0)
					for _, c := range []struct {
						name       string
						size       int
						f, generic func([]byte, []float32)
					}{{"q8", Q8BlockBytes, QuantizeQ8, quantizeQ8Generic}, {"q4", Q4BlockBytes, QuantizeQ4, quantizeQ4Generic}} {
						want := make([]byte, nb*c.size)
						c.generic(want, x)
						got := guarded[byte](t, nb*c.size, seed&1 == 0)
						c.f(got, x)
						if !bytes.Equal(got, want) {
							at := 0
							for got[at] == want[at] {
								at++
							}
							b := at / c.size
							t.Fatalf("%s, %d %s blocks, seed %d: block %d of %v is\n%x, want\n%x", c.name, nb, kind, seed, b,
								x[b*BlockLen:][:BlockLen], got[b*c.size:][:c.size], want[b*c.size:][:c.size])
						}
					}
				}
			}
		}
	})
}

// Errors of blocks are the same bits by every implementation, and near those
// that float64 gives.
func TestBlockError(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		for _, l := range []Layout{Q8Row, Q4Row} {
			for _, nb := range []int{0, 1, 2, 5, 64, 192} {
				for _, kind := range weightKinds {
					for seed := range uint64(6) {
						name := fmt.Sprintf("%v, %d %s blocks, seed %d", l, nb, kind, seed)
						r := newRand(seed + uint64(nb))
						blocks := guardedCopy(t, randBlocks(r, nb, l == Q8Row, kind), seed&1 == 0)
						x := guardedCopy(t, randFloats(r, nb*BlockLen, "wide"), seed&1 == 0)
						want := blockLossGeneric(blocks, x, l)
						lost, all, most := BlockError(blocks, x, l)
						sameBits(t, name, []float32{lost, all, most}, want[:])
						exact := exactError(t, blocks, x, l)
						for i, v := range []float32{lost, all, most} {
							if math.Abs(float64(v)-exact[i]) > 1e-5*exact[i] {
								t.Errorf("%s: sum %d is %g, in float64 %g", name, i, v, exact[i])
							}
						}
					}
				}
			}
		}
	})
}

func exactError(t *testing.T, blocks []byte, x []float32, l Layout) (out [3]float64) {
	t.Helper()
	if len(x) == 0 {
		return out
	}
	m, err := NewMatrix(blocks, 1, len(x), l)
	if err != nil {
		t.Fatal(err)
	}
	w := make([]float32, len(x))
	m.DequantizeRow(w, 0)
	for i, v := range x {
		gone := float64(v) - float64(w[i])
		out[0] += gone * gone
		out[1] += float64(v) * float64(v)
		out[2] = max(out[2], math.Abs(gone))
	}
	return out
}

// The largest magnitude, NaN above infinity, at every length.
func TestMaxAbs(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		for _, n := range lengths() {
			for _, kind := range floatKinds {
				for seed := range uint64(4) {
					x := guardedCopy(t, randFloats(newRand(seed+uint64(n)), n, kind), seed&1 == 0)
					sameBits(t, fmt.Sprintf("%d %s values", n, kind), []float32{MaxAbs(x)}, []float32{maxMagnitudeGeneric(x)})
				}
			}
			x := make([]float32, n)
			for i := range x {
				x[i] = -3
				if got := MaxAbs(x); got != 3 {
					t.Fatalf("-3 at %d of %d: got %v", i, n, got)
				}
				x[i] = 0
			}
		}
	})
}

func BenchmarkQuantizeWeights(b *testing.B) {
	x := finite(1, 4096, "normal")
	for _, c := range []struct {
		name string
		size int
		f    func([]byte, []float32)
	}{{"q8", Q8BlockBytes, QuantizeQ8}, {"q4", Q4BlockBytes, QuantizeQ4}} {
		dst := make([]byte, 4096*c.size)
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(4 * len(x)))
			for b.Loop() {
				c.f(dst, x)
			}
		})
		l := Q8Row
		if c.size == Q4BlockBytes {
			l = Q4Row
		}
		b.Run(c.name+" error", func(b *testing.B) {
			b.SetBytes(int64(4 * len(x)))
			for b.Loop() {
				BlockError(dst, x, l)
			}
		})
		b.Run(c.name+" repack", func(b *testing.B) {
			out := make([]byte, len(dst))
			to := Q8x8
			if l == Q4Row {
				to = Q4x4
			}
			b.SetBytes(int64(4 * len(x)))
			for b.Loop() {
				Repack(out, dst, 64, len(x)/64, to)
			}
		})
	}
	b.Run("largest", func(b *testing.B) {
		b.SetBytes(int64(4 * len(x)))
		for b.Loop() {
			MaxAbs(x)
		}
	})
}
