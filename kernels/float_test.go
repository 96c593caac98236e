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

// product multiplies some rows and groups of columns with n values of k, from
// sums that are there already or not.
func (o operands) product(impl, half bool) []float32 {
	if o.n == 0 {
		return nil
	}
	f := attnProductGeneric
	if impl {
		f = attnProduct
	}
	k, rows, groups := o.n, int(o.seed%9)+1, int(o.seed/3%6)+1
	p := floatProduct{rows: rows, groups: groups, k: k, lda: k + 3, ldc: groups*lanes + 5, step: lanes, next: k * lanes, add: o.seed%2 == 0}
	if o.seed%4 > 1 {
		p.step, p.next = groups*lanes, lanes
	}
	o.n = (rows-1)*p.lda + k
	p.a = o.floats(1)
	o.n = (rows-1)*p.ldc + groups*lanes
	p.c = o.floats(2)
	o.n = groups * k * lanes
	if half {
		p.half = o.halves(3, o.n)
	} else {
		p.b = o.floats(3)
	}
	f(p)
	return p.c
}

// kvInt8 reads n rows of 16 codes by scales.
func (o operands) kvInt8(f func([]float32, []uint16, []int8, int), n, scales int) []float32 {
	if n == 0 {
		return nil
	}
	r, low := newRand(o.seed), o.seed&1 == 0
	codes, dst := guarded[int8](o.t, n*lanes, low), guarded[float32](o.t, n*lanes, low)
	for i := range codes {
		codes[i] = int8(r.Uint32())
	}
	f(dst, o.halves(1, scales), codes, lanes)
	return dst
}

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
	{"attention weights", func(o operands, impl bool) []float32 {
		f := attnWeightsGeneric
		if impl {
			f = attnWeights
		}
		if o.n = roundLanes(o.n); o.n == 0 {
			return nil
		}
		x := o.floats(1)
		for i := range x {
			x[i] *= 40
			if o.seed%3 == 0 && i > len(x)/2 {
				x[i] = float32(math.Inf(-1))
			}
		}
		m, l := f(x)
		if l != l { // so is every use; of which value m is does not matter
			return []float32{l}
		}
		return append(slices.Clone(x), m+0, l)
	}},
	{"attention product", func(o operands, impl bool) []float32 { return o.product(impl, false) }},
	{"attention product f16", func(o operands, impl bool) []float32 { return o.product(impl, true) }},
	{"attention merge", func(o operands, impl bool) []float32 {
		f := attnMergeGeneric
		if impl {
			f = attnMerge
		}
		if o.n = roundLanes(o.n); o.n == 0 {
			return nil
		}
		x := o.floats(1)
		f(x, o.floats(2), 0.75, 0.3)
		return x
	}},
	{"kv int8 keys", func(o operands, impl bool) []float32 {
		f := kvInt8KeysGeneric
		if impl {
			f = kvInt8Keys
		}
		return o.kvInt8(f, o.n, kvBlocks(o.n)*lanes)
	}},
	{"kv int8 values", func(o operands, impl bool) []float32 {
		f := kvInt8ValuesGeneric
		if impl {
			f = kvInt8Values
		}
		w := roundLanes(o.n)
		return o.kvInt8(f, w, kvBlocks(w)*lanes)
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

// furtherOps came after the digest of floatOps was pinned, and have their own.
var furtherOps = []floatOp{
	{"add scaled", func(o operands, impl bool) []float32 {
		f := addScaledGeneric
		if impl {
			f = AddScaled
		}
		x := o.floats(1)
		f(x, o.floats(2), randFloats(newRand(o.seed), 1, o.kind)[0])
		return x
	}},
}

func TestFloatOps(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		for _, op := range slices.Concat(floatOps, furtherOps) {
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
			AddScaled(x, w, 0.5)
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
		"add scaled":  func() { AddScaled(x, x[:2], 1) },
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
