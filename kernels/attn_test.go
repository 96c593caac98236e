// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"testing"
)

// TestFMA compares fma32 with exact arithmetic rounded once.
func TestFMA(t *testing.T) {
	r := newRand(1)
	exact := func(a, b, c float32) float32 {
		x, y := new(big.Float).SetPrec(2000), new(big.Float).SetPrec(2000)
		x.Mul(big.NewFloat(float64(a)).SetPrec(2000), big.NewFloat(float64(b)).SetPrec(2000))
		y.Add(x, big.NewFloat(float64(c)).SetPrec(2000))
		f, _ := y.Float32()
		return f
	}
	check := func(a, b, c float32) {
		got, want := fma32(a, b, c), exact(a, b, c)
		if got != want {
			t.Errorf("fma(%g, %g, %g) = %g, want %g", a, b, c, got, want)
		}
	}
	for range 20000 {
		// Few mantissa bits and close exponents meet boundaries often.
		a := float32(math.Ldexp(float64(r.IntN(1<<13)-1<<12), r.IntN(20)-10))
		b := float32(math.Ldexp(float64(r.IntN(1<<13)-1<<12), r.IntN(20)-10))
		c := float32(math.Ldexp(float64(r.IntN(1<<24)-1<<23), r.IntN(60)-30))
		check(a, b, c)
		check(float32(math.Ldexp(float64(a), -70)), float32(math.Ldexp(float64(b), -70)), float32(math.Ldexp(float64(c), -149-r.IntN(8))))
	}
	// One bit beyond half way, on either side, too far off for float64.
	for _, e := range []int{-60, -100, -140} {
		for _, s := range []float32{1, -1} {
			check(s*float32(math.Ldexp(1, e/2)), float32(math.Ldexp(1, e/2)), 1+0x1p-23)
			check(1+0x1p-12, 1+0x1p-12, s*float32(math.Ldexp(1, e)))
		}
	}
}

// attnCase is rows of queries and positions of a head, in blocks of a cache.
type attnCase struct {
	hd, rows, seen, step int
	kv                   KV
	q, key, value        []float32 // [rows][hd], [positions][hd] as stored
	keys, values         []byte
}

func newAttnCase(t testing.TB, kv KV, hd, rows, seen, step int, seed uint64) *attnCase {
	r := newRand(seed)
	c := &attnCase{hd: hd, rows: rows, seen: seen, step: step, kv: kv}
	n := min(seen+(rows-1)/step, AttnBlock)
	groups := (max(n, 1) + KVGroup - 1) / KVGroup
	c.q = randFloats(r, rows*hd, "normal")
	size := kv.GroupBytes(hd)
	low := seed&1 == 0
	c.keys, c.values = guarded[byte](t, groups*size, low), guarded[byte](t, groups*size, low)
	for i := range groups * KVGroup {
		x := randFloats(r, 2*hd, "normal")
		g := i / KVGroup * size
		kv.StoreKey(c.keys[g:][:size], i%KVGroup, x[:hd])
		kv.StoreValue(c.values[g:][:size], i%KVGroup, x[hd:])
	}
	c.key, c.value = make([]float32, 0, groups*KVGroup*hd), make([]float32, 0, groups*KVGroup*hd)
	for i := range groups * KVGroup {
		k, v := readKV(kv, c.keys, c.values, i, hd)
		c.key, c.value = append(c.key, k...), append(c.value, v...)
	}
	return c
}

// readKV reads a position element by element, as the comments of KV say.
func readKV(kv KV, keys, values []byte, pos, hd int) (key, value []float32) {
	w, size := roundLanes(hd), kv.GroupBytes(hd)
	k, v := keys[pos/KVGroup*size:][:size], values[pos/KVGroup*size:][:size]
	i := pos % KVGroup
	half := func(b []byte, at int) float32 { return F16ToF32(halvesOf(b)[at]) }
	for j := range hd {
		if kv == KVF16 {
			key, value = append(key, half(k, j*KVGroup+i)), append(value, half(v, i*w+j))
			continue
		}
		nb := (w + 31) / 32
		codes := 2 * nb * KVGroup
		key = append(key, float32(int8(k[codes+j*KVGroup+i]))*half(k, j/32*KVGroup+i))
		value = append(value, float32(int8(v[codes+i*w+j]))*half(v, i*nb+j/32))
	}
	return key, value
}

// row is the definition, for a row and the positions [from,to).
func (c *attnCase) row(row, from, to int, scale float32) (m, l float32, o []float32) {
	p := make([]float32, 0, AttnBlock)
	m = float32(math.Inf(-1))
	for i := from; i < to; i++ {
		var s float32
		for j, q := range c.q[row*c.hd:][:c.hd] {
			s = fma32(q*scale, c.key[i*c.hd+j], s)
		}
		p, m = append(p, s), max(m, s)
	}
	var sum [lanes]float32
	for i := range p {
		p[i] = Exp(p[i] - m)
		sum[i%lanes] += p[i]
	}
	o = make([]float32, c.hd)
	for i, p := range p {
		for j := range o {
			o[j] = fma32(p, c.value[(from+i)*c.hd+j], o[j])
		}
	}
	return m, fold(&sum), o
}

func TestAttnBlock(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		seed := uint64(0)
		for _, kv := range []KV{KVF16, KVInt8} {
			for _, hd := range []int{1, 2, 16, 17, 30, 48, 64, 80, 96, 128, 130} {
				for _, shape := range []struct{ rows, seen, step int }{
					{1, 1, 1}, {1, 15, 1}, {2, 16, 2}, {3, 17, 3}, {4, 63, 4}, {5, 64, 5}, {7, 65, 7}, {2, 255, 2}, {1, 256, 1},
					{12, 1, 2}, {13, 250, 1}, {21, 60, 3}, {9, -2, 2}, {16, -30, 2}, {48, 100, 4}, {11, 120, 1},
				} {
					if seed++; seed%3 != 0 && testing.Short() {
						continue
					}
					c := newAttnCase(t, kv, hd, shape.rows, shape.seen, shape.step, seed)
					name := fmt.Sprintf("%v head %d, %d rows by %d, %d seen", kv, hd, c.rows, c.step, c.seen)
					const scale = 0.3
					tile, part := NewAttnTile(c.rows, hd), NewAttnPart(c.rows, hd)
					for i := range part.O { // of an earlier block
						part.O[i] = float32(math.NaN())
					}
					for r := range c.rows {
						tile.SetQuery(r, c.q[r*hd:][:hd], scale)
					}
					tile.Block(part, kv, c.keys, c.values, c.seen, c.step)
					for r := range c.rows {
						n := min(c.seen+r/c.step, AttnBlock)
						if n < 1 {
							if got := part.O[r*roundLanes(hd)]; got == got || part.M[r] != 0 || part.L[r] != 0 {
								t.Errorf("%s: row %d sees nothing and is touched", name, r)
							}
							continue
						}
						m, l, o := c.row(r, 0, n, scale)
						got := append([]float32{part.M[r] + 0, part.L[r]}, part.O[r*roundLanes(hd):][:hd]...)
						sameBits(t, fmt.Sprintf("%s: row %d", name, r), got, append([]float32{m + 0, l}, o...))
					}
				}
			}
		}
	})
}

// TestAttnMerge holds merging to its formula, and to plain attention.
func TestAttnMerge(t *testing.T) {
	const rows, n, scale = 5, 256, 0.2
	eachImplementation(t, func(t *testing.T) {
		for _, hd := range []int{16, 20, 64, 128} {
			c := newAttnCase(t, KVF16, hd, rows, n, rows, uint64(hd))
			var parts [3]AttnPart
			for i, to := range []int{100, 17, 256} { // blocks need not be whole for this
				parts[i] = NewAttnPart(rows, hd)
				for r := range rows {
					m, l, o := c.row(r, to/2, to, scale)
					parts[i].M[r], parts[i].L[r] = m, l
					copy(parts[i].O[r*roundLanes(hd):], o)
				}
			}
			for r := range rows {
				w := roundLanes(hd)
				m, l, o := parts[0].M[r], parts[0].L[r], slices.Clone(parts[0].O[r*w:][:hd])
				for _, p := range parts[1:] {
					top := max(m, p.M[r])
					a, b := Exp(m-top), Exp(p.M[r]-top)
					l = float32(l*a) + float32(p.L[r]*b)
					for j := range o {
						o[j] = float32(o[j]*a) + float32(p.O[r*w+j]*b)
					}
					m = top
				}
				inv := 1 / l
				for j := range o {
					o[j] *= inv
				}
				acc := AttnPart{O: slices.Clone(parts[0].O), M: slices.Clone(parts[0].M), L: slices.Clone(parts[0].L)}
				for _, p := range parts[1:] {
					acc.Rows(r, r+1).Merge(p.Rows(r, r+1))
				}
				got := make([]float32, hd)
				acc.Result(r, got)
				sameBits(t, fmt.Sprintf("head %d, row %d", hd, r), got, o)
			}
		}
	})
}

// TestAttnIsSoftmax compares several blocks with attention in float64.
func TestAttnIsSoftmax(t *testing.T) {
	const hd, n, scale = 64, 700, 0.25
	r := newRand(9)
	size := KVF16.GroupBytes(hd)
	groups := (n + KVGroup - 1) / KVGroup
	keys, values := make([]byte, groups*size), make([]byte, groups*size)
	q := randFloats(r, hd, "normal")
	k64, v64 := make([]float64, n*hd), make([]float64, n*hd)
	for i := range n {
		k, v := randFloats(r, hd, "normal"), randFloats(r, hd, "normal")
		KVF16.StoreKey(keys[i/KVGroup*size:], i%KVGroup, k)
		KVF16.StoreValue(values[i/KVGroup*size:], i%KVGroup, v)
		for j := range hd {
			k64[i*hd+j], v64[i*hd+j] = float64(F16ToF32(F32ToF16(k[j]))), float64(F16ToF32(F32ToF16(v[j])))
		}
	}
	want, sum := make([]float64, hd), 0.0
	for i := range n {
		s := 0.0
		for j := range hd {
			s += float64(q[j]) * k64[i*hd+j]
		}
		p := math.Exp(s * scale)
		sum += p
		for j := range want {
			want[j] += p * v64[i*hd+j]
		}
	}
	tile, acc, block := NewAttnTile(1, hd), NewAttnPart(1, hd), NewAttnPart(1, hd)
	tile.SetQuery(0, q, scale)
	for at := 0; at < n; at += AttnBlock {
		dst := block
		if at == 0 {
			dst = acc
		}
		tile.Block(dst, KVF16, keys[at/KVGroup*size:], values[at/KVGroup*size:], n-at, 1)
		if at > 0 {
			acc.Merge(block)
		}
	}
	got := make([]float32, hd)
	acc.Result(0, got)
	for j := range got {
		if d := math.Abs(float64(got[j]) - want[j]/sum); d > 2e-6 {
			t.Errorf("[%d] = %g, want %g", j, got[j], want[j]/sum)
		}
	}
}

// TestKVInt8Error bounds what int8 costs: half a code of the largest of 32.
func TestKVInt8Error(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		for _, hd := range []int{16, 33, 64, 128, 300} {
			size := KVInt8.GroupBytes(hd)
			keys, values := guarded[byte](t, size, true), guarded[byte](t, size, true)
			x := randFloats(newRand(uint64(hd)), KVGroup*hd, "wide")
			for i := range KVGroup {
				KVInt8.StoreKey(keys, i, x[i*hd:][:hd])
				KVInt8.StoreValue(values, i, x[i*hd:][:hd])
			}
			for i := range KVGroup {
				k, v := readKV(KVInt8, keys, values, i, hd)
				sameBits(t, "value", v, k)
				for b := 0; b < hd; b += BlockLen {
					part := x[i*hd:][:hd][b:min(b+BlockLen, hd)]
					top := float32(0)
					for _, v := range part {
						top = max(top, abs32(v))
					}
					for j, v := range part {
						if d := abs32(k[b+j] - v); d > top*0.0045+0x1p-24*127 {
							t.Errorf("head %d: %g becomes %g where the largest is %g", hd, v, k[b+j], top)
						}
					}
				}
			}
		}
	})
}

func TestAttnAllocs(t *testing.T) {
	for _, kv := range []KV{KVF16, KVInt8} {
		c := newAttnCase(t, kv, 40, 6, 200, 2, 1)
		tile, part, other := NewAttnTile(6, 40), NewAttnPart(6, 40), NewAttnPart(6, 40)
		n := testing.AllocsPerRun(10, func() {
			tile.SetQuery(0, c.q[:40], 1)
			kv.StoreKey(c.keys, 3, c.q[:40])
			kv.StoreValue(c.values, 3, c.q[:40])
			tile.Block(part, kv, c.keys, c.values, 200, 2)
			other.Merge(part)
			other.Rows(1, 2).Result(0, c.q[:40])
		})
		if n != 0 {
			t.Errorf("%v: %v allocations", kv, n)
		}
	}
}

func TestAttnChecks(t *testing.T) {
	x, g := make([]float32, 32), make([]byte, KVF16.GroupBytes(32))
	tile, part := NewAttnTile(2, 32), NewAttnPart(2, 32)
	for name, f := range map[string]func(){
		"query":       func() { tile.SetQuery(0, x[:31], 1) },
		"row":         func() { tile.SetQuery(2, x, 1) },
		"rows":        func() { tile.Block(NewAttnPart(3, 32), KVF16, g, g, 1, 1) },
		"width":       func() { tile.Block(NewAttnPart(2, 48), KVF16, g, g, 1, 1) },
		"step":        func() { tile.Block(part, KVF16, g, g, 1, 0) },
		"keys":        func() { tile.Block(part, KVF16, g[1:], g, 1, 1) },
		"values":      func() { tile.Block(part, KVF16, g, g, 65, 2) },
		"type":        func() { tile.Block(part, 2, g, g, 1, 2) },
		"merge":       func() { part.Merge(NewAttnPart(2, 48)) },
		"store":       func() { KVF16.StoreKey(g[1:], 0, x) },
		"position":    func() { KVInt8.StoreValue(make([]byte, KVInt8.GroupBytes(32)), KVGroup, x) },
		"group":       func() { KVInt8.StoreKey(g[:10], 0, x) },
		"empty":       func() { KVF16.StoreValue(g, 0, nil) },
		"no rows":     func() { NewAttnTile(0, 32) },
		"result":      func() { part.Result(0, make([]float32, 33)) },
		"result rows": func() { part.Result(2, x) },
	} {
		if !panics(f) {
			t.Errorf("%s does not panic", name)
		}
	}
}
