// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// A floatOp runs one operation on n elements, by the selected implementation
// and by generic, from the same operands in guarded memory.
type floatOp struct {
	name string
	run  func(o operands, impl bool) []float32
}

// operands makes guarded inputs of n elements.
type operands struct {
	t    testing.TB
	n    int
	seed uint64
	kind string
}

func (o operands) floats(which uint64) []float32 {
	x := randFloats(newRand(o.seed+which*1000003), o.n, o.kind)
	return guardedCopy(o.t, x, o.seed&1 == 0)
}

func (o operands) halves(which uint64, n int) []uint16 {
	return guardedCopy(o.t, randF16(newRand(o.seed+which*1000003), n), o.seed&1 == 0)
}

// heads is how many positions the attention cases have for n.
func (o operands) heads() int { return int(o.seed%7) + 1 }

var floatOps = []floatOp{
	{"dot", func(o operands, impl bool) []float32 {
		f := dotGeneric
		if impl {
			f = Dot
		}
		return []float32{f(o.floats(1), o.floats(2))}
	}},
	{"rmsnorm", func(o operands, impl bool) []float32 {
		x := o.floats(1)
		if impl {
			RMSNorm(x, x, o.floats(2), 1e-5)
		} else if o.n > 0 {
			rmsNormGeneric(x, x, o.floats(2), 1e-5)
		}
		return x
	}},
	{"rope", func(o operands, impl bool) []float32 {
		f := ropeHalfGeneric
		if impl {
			f = RopeHalf
		}
		x := guarded[float32](o.t, 2*o.n, o.seed&1 == 0)
		copy(x, o.floats(1))
		copy(x[o.n:], o.floats(2))
		f(x, o.floats(3), o.floats(4))
		return x
	}},
	{"silu", func(o operands, impl bool) []float32 {
		f := siluMulGeneric
		if impl {
			f = SiluMul
		}
		dst := guarded[float32](o.t, o.n, o.seed&1 == 0)
		f(dst, o.floats(1), o.floats(2))
		return dst
	}},
	{"silu in place", func(o operands, impl bool) []float32 {
		f := siluMulGeneric
		if impl {
			f = SiluMul
		}
		x := o.floats(1)
		for i := range x {
			x[i] *= 30 // both ends of Exp
		}
		f(x, x, o.floats(2))
		return x
	}},
	{"add", func(o operands, impl bool) []float32 {
		f := addGeneric
		if impl {
			f = Add
		}
		x := o.floats(1)
		f(x, o.floats(2))
		return x
	}},
	{"softmax", func(o operands, impl bool) []float32 {
		x := o.floats(1)
		if impl {
			Softmax(x)
		} else if o.n > 0 {
			softmaxGeneric(x)
		}
		return x
	}},
	{"softmax spread", func(o operands, impl bool) []float32 {
		x := o.floats(1)
		for i := range x {
			x[i] *= 40
			if i%5 == 4 {
				x[i] = float32(math.Inf(-1))
			}
		}
		if impl {
			Softmax(x)
		} else if o.n > 0 {
			softmaxGeneric(x)
		}
		return x
	}},
	{"attention scores", func(o operands, impl bool) []float32 {
		if o.n == 0 {
			return nil
		}
		f := attnScoresGeneric
		if impl {
			f = AttnScores
		}
		s := guarded[float32](o.t, o.heads(), o.seed&1 == 0)
		f(s, o.floats(1), o.halves(2, o.n*len(s)), o.n, 0.125)
		return s
	}},
	{"attention values", func(o operands, impl bool) []float32 {
		if o.n == 0 {
			return nil
		}
		f := attnAccumulateGeneric
		if impl {
			f = AttnAccumulate
		}
		out := o.floats(1)
		p := randFloats(newRand(o.seed+5), o.heads(), "normal")
		f(out, guardedCopy(o.t, p, o.seed&1 == 0), o.halves(2, o.n*len(p)), o.n)
		return out
	}},
	{"f16 to f32", func(o operands, impl bool) []float32 {
		f := f16ToF32SliceGeneric
		if impl {
			f = F16ToF32Slice
		}
		dst := guarded[float32](o.t, o.n, o.seed&1 == 0)
		f(dst, o.halves(1, o.n))
		return dst
	}},
	{"f32 to f16", func(o operands, impl bool) []float32 {
		f := f32ToF16SliceGeneric
		if impl {
			f = F32ToF16Slice
		}
		h := guarded[uint16](o.t, o.n, o.seed&1 == 0)
		f(h, o.floats(1))
		dst := make([]float32, o.n)
		f16ToF32SliceGeneric(dst, h)
		return dst
	}},
	{"quantize", func(o operands, impl bool) []float32 {
		f := quantizeActsGeneric
		if impl {
			f = quantizeActs
		}
		nb := o.n
		o.n *= BlockLen
		low := o.seed&1 == 0
		x := o.floats(1)
		q, d, sum := guarded[int8](o.t, o.n, low), guarded[float32](o.t, nb, low), guarded[int32](o.t, nb, low)
		f(q, d, sum, x)
		out := slices.Clone(d)
		for _, s := range sum {
			out = append(out, float32(s))
		}
		for _, c := range q {
			out = append(out, float32(c))
		}
		return out
	}},
}

func TestFloatOps(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		for _, op := range floatOps {
			t.Run(op.name, func(t *testing.T) {
				for i, n := range lengths() {
					for k, kind := range floatKinds {
						o := operands{t, n, uint64(3*i + k + 1), kind}
						sameBits(t, fmt.Sprintf("%s n=%d", kind, n), op.run(o, true), op.run(o, false))
					}
				}
			})
		}
	})
}

// TestQuantizeRounding walks codes over every half and its neighbours.
func TestQuantizeRounding(t *testing.T) {
	var x []float32
	for c := float32(-127); c <= 127; c += 0.5 {
		x = append(x, c, math.Nextafter32(c, -200), math.Nextafter32(c, 200))
	}
	x = slices.DeleteFunc(x, func(v float32) bool { return abs32(v) > 127 })
	var blocks []float32
	for i, v := range x { // 127 leads each block, so that D = 1
		if i%31 == 0 {
			blocks = append(blocks, 127)
		}
		blocks = append(blocks, v)
	}
	for len(blocks)%BlockLen != 0 {
		blocks = append(blocks, 0)
	}
	eachImplementation(t, func(t *testing.T) {
		a := NewActs(1, len(blocks))
		a.Quantize(blocks, 1)
		for i, v := range blocks {
			s := float32(0.5)
			if v < 0 {
				s = -0.5
			}
			if want := int8(v + s); a.Q[i] != want {
				t.Errorf("code of %v is %d, want %d", v, a.Q[i], want)
			}
		}
		for b, d := range a.D {
			if d != 1 {
				t.Errorf("scale of block %d is %g, want 1", b, d)
			}
		}
	})
}

// TestQuantizeNonFinite: a block with an infinity or NaN makes every product
// NaN; its neighbours are not touched.
func TestQuantizeNonFinite(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))} {
			x := randFloats(newRand(1), 3*BlockLen, "normal")
			x[BlockLen+5] = bad
			a := NewActs(1, len(x))
			a.Quantize(x, 1)
			if d := a.D[1]; !(math.IsNaN(float64(d)) || math.IsInf(float64(d), 0)) {
				t.Errorf("scale of a block with %g is %g", bad, d)
			}
			if a.Sum[1] != 0 || slices.ContainsFunc(a.Q[BlockLen:2*BlockLen], func(c int8) bool { return c != 0 }) {
				t.Errorf("block with %g has codes", bad)
			}
			m := arrange(t, randBlocks(newRand(2), 8*3, true, "quantised"), 8, len(x), Q8x8)
			dst := make([]float32, 8)
			MatMul(dst, 8, &m, a, 0, 8)
			for r, v := range dst {
				if v == v {
					t.Errorf("row %d by a block with %g is %g, want NaN", r, bad, v)
				}
			}
		}
	})
}

// TestHalvesExhaustive converts every half there is, and back, and the floats
// around every boundary between two halves.
func TestHalvesExhaustive(t *testing.T) {
	all := make([]uint16, 1<<16)
	for i := range all {
		all[i] = uint16(i)
	}
	var edges []float32
	for h := uint16(0); h < 0x7C00; h++ {
		f := F16ToF32(h)
		mid := (f + F16ToF32(h+1)) / 2
		if h == 0x7BFF {
			mid = 65520
		}
		edges = append(edges, f, mid, math.Nextafter32(mid, 0), math.Nextafter32(mid, 1e9), -mid)
	}
	eachImplementation(t, func(t *testing.T) {
		f := make([]float32, len(all))
		F16ToF32Slice(f, all)
		back := make([]uint16, len(all))
		F32ToF16Slice(back, f)
		for i, h := range all {
			if h&0x7FFF > 0x7C00 {
				if f[i] == f[i] || back[i]&0x7FFF <= 0x7C00 {
					t.Errorf("NaN %04x becomes %g, then %04x", h, f[i], back[i])
				}
				continue
			}
			if f[i] != F16ToF32(h) || back[i] != h {
				t.Errorf("%04x becomes %g (want %g), then %04x", h, f[i], F16ToF32(h), back[i])
			}
		}
		got := make([]uint16, len(edges))
		F32ToF16Slice(got, edges)
		for i, e := range edges {
			if want := F32ToF16(e); got[i] != want {
				t.Errorf("%g becomes %04x, want %04x", e, got[i], want)
			}
		}
	})
}

func TestFloatAllocs(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		x, w := make([]float32, 100), make([]float32, 100)
		h := make([]uint16, 300)
		var sink float32
		n := testing.AllocsPerRun(10, func() {
			RMSNorm(x, x, w, 1e-5)
			RopeHalf(x, w[:50], w[50:])
			SiluMul(x, x, w)
			Add(x, w)
			Softmax(x)
			AttnScores(x[:3], w, h, 100, 1)
			AttnAccumulate(x, w[:3], h, 100)
			F32ToF16Slice(h[:100], x)
			F16ToF32Slice(x, h[:100])
			sink += Dot(x, w)
		})
		if n != 0 {
			t.Errorf("%v allocations", n)
		}
	})
}

func TestFloatChecks(t *testing.T) {
	x := make([]float32, 4)
	h := make([]uint16, 7)
	for name, f := range map[string]func(){
		"dot":         func() { Dot(x, x[:3]) },
		"rmsnorm":     func() { RMSNorm(x, x, x[:3], 0) },
		"rope":        func() { RopeHalf(x, x[:2], x[:1]) },
		"silu":        func() { SiluMul(x[:3], x, x) },
		"add":         func() { Add(x, x[:2]) },
		"scores":      func() { AttnScores(x[:2], x, h, 4, 1) },
		"values":      func() { AttnAccumulate(x, x[:2], h, 4) },
		"head":        func() { AttnScores(nil, nil, nil, 0, 1) },
		"f32 to f16":  func() { F32ToF16Slice(h, x) },
		"f16 to f32":  func() { F16ToF32Slice(x, h) },
		"acts":        func() { NewActs(1, 33) },
		"acts tokens": func() { NewActs(1, 32).SetTokens(2) },
		"acts short":  func() { NewActs(1, 32).Quantize(x, 1) },
		"quantise":    func() { QuantizeQ8(make([]byte, 34), x) },
		"repack":      func() { Repack(make([]byte, 34), make([]byte, 34), 1, 32, Q8x4) },
		"unpack":      func() { Unpack(make([]byte, 30), make([]byte, 34), 1, 32, Q8Row) },
	} {
		if !panics(f) {
			t.Errorf("%s: wrong lengths do not panic", name)
		}
	}
}
