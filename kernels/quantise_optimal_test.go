// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"encoding/binary"
	"math"
	"testing"
)

// blockError is the weighted squared error of a row-major Q4_0 block, in
// float64; w nil: all 1.
func blockError(block []byte, x, w []float32) float64 {
	d := float64(F16ToF32(binary.LittleEndian.Uint16(block)))
	var sum float64
	for j, v := range x {
		c := block[2+j%16] >> (j / 16 * 4) & 15
		e := float64(v) - d*(float64(c)-8)
		weight := 1.0
		if w != nil {
			weight = float64(w[j])
		}
		sum += weight * e * e
	}
	return sum
}

// bruteForce is the smallest error of any half and the codes nearest for it.
func bruteForce(x, w []float32) float64 {
	best := math.Inf(1)
	for h := range 0x10000 {
		d := float64(F16ToF32(uint16(h)))
		if math.IsInf(d, 0) || math.IsNaN(d) {
			continue
		}
		var sum float64
		for j, v := range x {
			c := 0.0
			if d != 0 {
				c = math.Max(-8, math.Min(7, math.Floor(float64(v)/d+0.5)))
			}
			e := float64(v) - d*c
			weight := 1.0
			if w != nil {
				weight = float64(w[j])
			}
			if sum += weight * e * e; sum >= best {
				break
			}
		}
		best = min(best, sum)
	}
	return best
}

// optimalCases are rows of one block each, with the weights of their columns.
func optimalCases() (xs, ws [][]float32) {
	r := newRand(7)
	for i := range 60 {
		x := make([]float32, BlockLen)
		for j := range x {
			x[j] = float32(r.NormFloat64())
			switch i % 6 {
			case 1: // one sign
				x[j] = float32(math.Abs(float64(x[j])))
			case 2: // few levels, as a Q4_1 source has
				x[j] = float32(r.IntN(16))*0.01 - 0.07
			case 3: // an outlier
				if j == i%BlockLen {
					x[j] *= 30
				}
			case 4: // around the smallest halves
				x[j] *= 0x1p-22
			case 5: // mostly zero
				if r.IntN(4) > 0 {
					x[j] = 0
				}
			}
		}
		var w []float32
		if i%3 > 0 {
			w = make([]float32, BlockLen)
			for j := range w {
				v := r.NormFloat64()
				w[j] = float32(math.Exp(2 * v))
				if r.IntN(8) == 0 {
					w[j] = 0
				}
			}
		}
		xs, ws = append(xs, x), append(ws, w)
	}
	return xs, ws
}

// TestQuantizeQ4Optimal: the error is that of trying every half there is.
func TestQuantizeQ4Optimal(t *testing.T) {
	xs, ws := optimalCases()
	for i, x := range xs {
		got := make([]byte, Q4BlockBytes)
		QuantizeQ4Optimal(got, x, BlockLen, ws[i])
		plain := make([]byte, Q4BlockBytes)
		QuantizeQ4(plain, x)
		e, p, want := blockError(got, x, ws[i]), blockError(plain, x, ws[i]), bruteForce(x, ws[i])
		if e > want*(1+1e-9)+1e-300 {
			t.Errorf("case %d: error %g, the best is %g, plain rounding has %g", i, e, want, p)
		}
		if e > p {
			t.Errorf("case %d: error %g, plain rounding has %g", i, e, p)
		}
		asBytes := make([]byte, Q8BlockBytes)
		QuantizeQ4IOptimal(asBytes, x, BlockLen, ws[i])
		sameCodes(t, i, got, asBytes)
	}
}

func BenchmarkQuantizeQ4Optimal(b *testing.B) {
	r := newRand(3)
	x, w := make([]float32, 64*BlockLen), make([]float32, 64*BlockLen)
	for i := range x {
		x[i] = float32(r.NormFloat64())
		w[i] = float32(math.Exp(r.NormFloat64()))
	}
	dst := make([]byte, 64*Q4BlockBytes)
	for _, c := range []struct {
		name    string
		weights []float32
	}{{"even", nil}, {"weighted", w}} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(4 * len(x)))
			for b.Loop() {
				QuantizeQ4Optimal(dst, x, len(x), c.weights)
			}
		})
	}
}
