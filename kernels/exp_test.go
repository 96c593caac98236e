// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"math"
	"slices"
	"testing"
)

// expULP bounds the error of Exp in units of the last place; a sweep of every
// fifth float32 finds 0.969.
const expULP = 1

func TestExpAccuracy(t *testing.T) {
	step := uint32(211) // of the bits: 2.5 million values
	if testing.Short() {
		step *= 16
	}
	worst, at := 0.0, float32(0)
	for _, top := range []float32{-expMin, expMax} {
		sign := uint32(0)
		if top == -expMin {
			sign = 1 << 31
		}
		for b := uint32(0x33000000); b < math.Float32bits(top); b += step {
			x := math.Float32frombits(b | sign)
			want := math.Exp(float64(x))
			ulp := float64(math.Nextafter32(float32(want), math.MaxFloat32) - float32(want))
			if e := math.Abs(float64(Exp(x))-want) / ulp; e > worst {
				worst, at = e, x
			}
		}
	}
	t.Logf("largest error %.3f ulp at %g", worst, at)
	if worst > expULP {
		t.Errorf("Exp(%g) is off by %.3f ulp, want at most %d", at, worst, expULP)
	}
}

func TestExpSpecial(t *testing.T) {
	inf := float32(math.Inf(1))
	lo, hi := float32(expMin), float32(expMax)
	for _, c := range []struct{ x, want float32 }{
		{0, 1}, {float32(math.Copysign(0, -1)), 1}, {0x1p-149, 1}, {-0x1p-149, 1},
		{-inf, 0}, {inf, inf}, {math.MaxFloat32, inf}, {-math.MaxFloat32, 0},
		{math.Nextafter32(lo, -inf), 0}, {math.Nextafter32(hi, inf), inf},
	} {
		if got := Exp(c.x); got != c.want || math.Signbit(float64(got)) {
			t.Errorf("Exp(%g) = %g, want %g", c.x, got, c.want)
		}
	}
	if got := Exp(float32(math.NaN())); got == got {
		t.Errorf("Exp(NaN) = %g", got)
	}
	if got := Exp(lo); got < 0x1p-126 {
		t.Errorf("Exp(%g) = %g, want a normal number", lo, got)
	}
	if got := Exp(hi); math.IsInf(float64(got), 1) {
		t.Errorf("Exp(%g) = %g, want a finite number", hi, got)
	}
}

func TestAttnWeights(t *testing.T) {
	x := randFloats(newRand(3), 256, "normal")
	top, sum := math.Inf(-1), 0.0
	for _, v := range x {
		top = max(top, float64(v))
		sum += math.Exp(float64(v))
	}
	y := slices.Clone(x)
	m, l := attnWeights(y)
	if float64(m) != top || math.Abs(float64(l)*math.Exp(top)-sum) > sum*1e-6 {
		t.Errorf("largest %g and sum %g, want %g and %g", m, l, top, sum*math.Exp(-top))
	}
	for i, v := range x {
		want := math.Exp(float64(v) - top)
		if math.Abs(float64(y[i])-want) > want*1e-6 {
			t.Fatalf("[%d] = %g, want %g", i, y[i], want)
		}
	}
	for i := range y {
		y[i] = float32(math.Inf(-1))
	}
	if _, l := attnWeights(y); l == l {
		t.Errorf("sum of weights of -Inf only is %v, want NaN", l)
	}
}

// TestRMSNormRope compares with float64.
func TestRMSNormRope(t *testing.T) {
	x, w := randFloats(newRand(4), 576, "normal"), randFloats(newRand(5), 576, "normal")
	y := make([]float32, len(x))
	RMSNorm(y, x, w, 1e-5)
	var ss float64
	for _, v := range x {
		ss += float64(v) * float64(v)
	}
	r := 1 / math.Sqrt(ss/float64(len(x))+1e-5)
	for i := range x {
		if want := float64(x[i]) * r * float64(w[i]); math.Abs(float64(y[i])-want) > math.Abs(want)*1e-6 {
			t.Fatalf("rmsnorm[%d] = %g, want %g", i, y[i], want)
		}
	}
	h := []float32{1, 2, 3, 4}
	RopeHalf(h, []float32{0, 1}, []float32{1, 0})
	if h[0] != -3 || h[1] != 2 || h[2] != 1 || h[3] != 4 {
		t.Errorf("rope gives %v, want [-3 2 1 4]", h)
	}
}
