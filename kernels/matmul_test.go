// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"fmt"
	"math"
	"testing"
)

// TestMatMul holds every implementation to generic, over shapes that are no
// multiple of any tile, with the operands against unmapped pages.
func TestMatMul(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		for _, l := range layouts {
			for _, kind := range weightKinds {
				t.Run(l.String()+" "+kind, func(t *testing.T) {
					r := newRand(uint64(l))
					for _, nb := range []int{1, 2, 3, 4, 5, 7, 8, 9} {
						for _, groups := range []int{1, 2, 3, 5, 8} {
							for _, tokens := range []int{1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17} {
								if nb*groups*tokens > 80 { // keeps the run short
									continue
								}
								testMatMul(t, newMatMulCase(t, l, kind, nb, groups, tokens, r.Uint64()))
							}
						}
					}
					for _, big := range [][3]int{{33, 8, 1}, {33, 9, 17}, {18, 3, 16}, {10, 11, 9}, {64, 1, 5}, {5, 5, 66}} {
						testMatMul(t, newMatMulCase(t, l, kind, big[0], big[1], big[2], r.Uint64()))
					}
				})
			}
		}
	})
}

type matMulCase struct {
	m    Matrix
	a    *Acts
	row0 int // first row to compute
	low  bool
}

func newMatMulCase(t testing.TB, l Layout, kind string, nb, groups, tokens int, seed uint64) matMulCase {
	r := newRand(seed)
	rows, cols := groups*l.Rows(), nb*BlockLen
	c := matMulCase{low: seed&1 == 0}
	c.m = arrange(t, randBlocks(r, rows*nb, l.Q8(), kind), rows, cols, l)
	c.m.Data = guardedCopy(t, c.m.Data, c.low)
	c.row0 = r.IntN(groups) * l.Rows()
	c.a = NewActs(tokens+r.IntN(3), cols)
	x := randFloats(r, tokens*cols, "normal")
	if kind == "extreme" {
		x = extremeActs(r.IntN, tokens*cols)
	}
	// Stale values of earlier, longer use must not matter.
	c.a.SetTokens(len(c.a.Q) / cols)
	c.a.Quantize(randFloats(r, c.a.Tokens*cols, "special"), c.a.Tokens)
	c.a.Quantize(x, tokens)
	return c
}

// extremeActs quantise to all +-127, to zero blocks and to tiny or huge scales.
func extremeActs(intn func(int) int, n int) []float32 {
	x := make([]float32, n)
	for b := 0; b < n; b += BlockLen {
		v := []float32{1, 0, 0x1p-100, 0x1p-99, 1e30, -1}[intn(6)]
		flip := intn(2)
		for i := range BlockLen {
			x[b+i] = v
			if flip == 1 && i%2 == 1 {
				x[b+i] = -v
			}
		}
	}
	return x
}

func testMatMul(t *testing.T, c matMulCase) {
	t.Helper()
	const pad = 3
	rows, tokens := c.m.Rows, c.a.Tokens
	ldd := rows + pad
	n := (tokens-1)*ldd + rows
	fill := func(d []float32) []float32 {
		for i := range d {
			d[i] = -12345
		}
		return d
	}
	want := fill(make([]float32, n))
	matMulGeneric(want, ldd, &c.m, c.a, c.row0, rows)
	got := fill(guarded[float32](t, n, c.low))
	MatMul(got, ldd, &c.m, c.a, c.row0, rows)
	sameBits(t, fmt.Sprintf("%v %dx%d, %d tokens, rows %d-", c.m.Layout, rows, c.m.Cols, tokens, c.row0), got, want)
}

// TestMatMulEquality: layout, token count and row split change no bit.
func TestMatMulEquality(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		r := newRand(7)
		const rows, cols, tokens = 48, 7 * BlockLen, 11
		for _, family := range [][]Layout{{Q8Row, Q8x4, Q8x8}, {Q4Row, Q4x4}} {
			row := randBlocks(r, rows*cols/BlockLen, family[0].Q8(), "random")
			x := randFloats(r, tokens*cols, "wide")
			a := NewActs(tokens, cols)
			a.Quantize(x, tokens)
			var first []float32
			for _, l := range family {
				m := arrange(t, row, rows, cols, l)
				all := make([]float32, tokens*rows)
				MatMul(all, rows, &m, a, 0, rows)
				if first == nil {
					first = all
				}
				sameBits(t, fmt.Sprintf("%v against %v", l, family[0]), all, first)

				single := make([]float32, tokens*rows)
				one := NewActs(1, cols)
				for tok := range tokens {
					one.Quantize(x[tok*cols:][:cols], 1)
					MatMul(single[tok*rows:][:rows], rows, &m, one, 0, rows)
				}
				sameBits(t, fmt.Sprintf("%v one token at a time", l), single, all)

				split := make([]float32, tokens*rows)
				for r0 := 0; r0 < rows; {
					r1 := min(rows, r0+(1+r.IntN(3))*l.Rows())
					MatMul(split, rows, &m, a, r0, r1)
					r0 = r1
				}
				sameBits(t, fmt.Sprintf("%v by row ranges", l), split, all)
			}
		}
	})
}

// TestMatMulUnaligned: data and results may start at any address.
func TestMatMulUnaligned(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		r := newRand(9)
		const rows, cols = 16, 3 * BlockLen
		for _, l := range layouts {
			m := arrange(t, randBlocks(r, rows*cols/BlockLen, l.Q8(), "random"), rows, cols, l)
			a := NewActs(5, cols)
			a.Quantize(randFloats(r, 5*cols, "normal"), 5)
			want := make([]float32, 5*rows)
			matMulGeneric(want, rows, &m, a, 0, rows)
			for off := range 17 {
				buf := make([]byte, len(m.Data)+off)
				moved := m
				moved.Data = buf[off:]
				copy(moved.Data, m.Data)
				got := make([]float32, 5*rows+off)[off:]
				MatMul(got, rows, &moved, a, 0, rows)
				sameBits(t, fmt.Sprintf("%v at offset %d", l, off), got, want)
			}
		}
	})
}

// TestMatMulAccuracy compares with float64 arithmetic on the same codes, within
// the bound of nb+2 roundings a term.
func TestMatMulAccuracy(t *testing.T) {
	r := newRand(11)
	const rows, cols = 16, 20 * BlockLen
	for _, l := range layouts {
		m := arrange(t, randBlocks(r, rows*cols/BlockLen, l.Q8(), "quantised"), rows, cols, l)
		a := NewActs(3, cols)
		a.Quantize(randFloats(r, 3*cols, "normal"), 3)
		checkAccuracy(t, &m, a)
	}
}

func checkAccuracy(t *testing.T, m *Matrix, a *Acts) {
	t.Helper()
	dst := make([]float32, a.Tokens*m.Rows)
	MatMul(dst, m.Rows, m, a, 0, m.Rows)
	row := make([]float32, m.Cols)
	nb := m.Cols / BlockLen
	for r := range m.Rows {
		m.DequantizeRow(row, r)
		for tok := range a.Tokens {
			var sum, abs float64
			for i, w := range row {
				p := float64(w) * float64(a.Q[tok*m.Cols+i]) * float64(a.D[tok*nb+i/BlockLen])
				sum += p
				abs += math.Abs(p)
			}
			got := float64(dst[tok*m.Rows+r])
			// Each term meets: its row's dequantisation, three roundings of its
			// block, and at most nb additions; subnormal scales lose 2^-149 each.
			bound := abs*float64(nb+6)*0x1p-24 + float64(m.Cols)*0x1p-120
			if math.Abs(got-sum) > bound {
				t.Fatalf("%v row %d token %d: %g, want %g within %g", m.Layout, r, tok, got, sum, bound)
			}
		}
	}
}

func TestMatMulF32(t *testing.T) {
	r := newRand(13)
	const rows, cols, tokens = 8, 5 * BlockLen, 3
	for _, l := range layouts {
		m := arrange(t, randBlocks(r, rows*cols/BlockLen, l.Q8(), "quantised"), rows, cols, l)
		x := randFloats(r, tokens*cols, "normal")
		got := make([]float32, tokens*rows)
		scratch := make([]float32, cols)
		MatMulF32(got, rows, &m, x, tokens, 0, rows, scratch)
		for tok := range tokens {
			for row := range rows {
				var want, abs float64
				m.DequantizeRow(scratch, row)
				for i, w := range scratch {
					p := float64(w) * float64(x[tok*cols+i])
					want += p
					abs += math.Abs(p)
				}
				if g := float64(got[tok*rows+row]); math.Abs(g-want) > abs*20*0x1p-24 {
					t.Errorf("%v row %d token %d: %g, want %g", l, row, tok, g, want)
				}
			}
		}
	}
}

func TestMatMulChecks(t *testing.T) {
	m := Matrix{Data: make([]byte, 16*2*Q8BlockBytes), Rows: 16, Cols: 64, Layout: Q8x8}
	a := NewActs(2, 64)
	a.SetTokens(2)
	other := NewActs(2, 32)
	other.SetTokens(2)
	for _, c := range []struct {
		name       string
		dst, ldd   int
		a          *Acts
		row0, row1 int
	}{
		{"columns differ", 32, 16, other, 0, 16},
		{"row0 inside a group", 32, 16, a, 4, 16},
		{"row1 beyond", 64, 24, a, 0, 24},
		{"negative", 32, 16, a, -8, 8},
		{"stride short", 32, 8, a, 0, 16},
		{"dst short", 31, 16, a, 0, 16},
	} {
		if !panics(func() { MatMul(make([]float32, c.dst), c.ldd, &m, c.a, c.row0, c.row1) }) {
			t.Errorf("%s: no panic", c.name)
		}
	}
	MatMul(nil, 0, &m, a, 8, 8)
}

func panics(f func()) (yes bool) {
	defer func() { yes = recover() != nil }()
	f()
	return false
}

func TestMatMulAllocs(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		for _, l := range layouts {
			c := newMatMulCase(t, l, "quantised", 4, 2, 5, 1)
			dst := make([]float32, 5*c.m.Rows)
			x := make([]float32, 5*c.m.Cols)
			if n := testing.AllocsPerRun(10, func() {
				c.a.Quantize(x, 5)
				MatMul(dst, c.m.Rows, &c.m, c.a, 0, c.m.Rows)
			}); n != 0 {
				t.Errorf("%v: %v allocations", l, n)
			}
		}
	})
}

// FuzzMatMul: any bytes as weights and activations; the float64 bound holds and
// the layouts agree.
func FuzzMatMul(f *testing.F) {
	f.Add([]byte{1, 2, 3}, uint8(1), uint8(1), true)
	f.Add([]byte("\xff\x7f\x80\x00\x7b"), uint8(3), uint8(5), false)
	f.Fuzz(func(t *testing.T, seed []byte, nb8, tok8 uint8, q8 bool) {
		if len(seed) == 0 {
			return
		}
		nb, tokens := int(nb8%5)+1, int(tok8%9)+1
		const rows = 16
		cols := nb * BlockLen
		size, family := Q4BlockBytes, []Layout{Q4Row, Q4x4}
		if q8 {
			size, family = Q8BlockBytes, []Layout{Q8Row, Q8x4, Q8x8}
		}
		row := make([]byte, rows*nb*size)
		for i := range row {
			row[i] = seed[i%len(seed)] + byte(i/len(seed))
			if i%size == 1 {
				row[i] &^= 0x40 // a finite scale
			}
		}
		x := make([]float32, tokens*cols)
		for i := range x {
			x[i] = float32(int8(seed[(i*7)%len(seed)]+byte(i))) / 16
		}
		a := NewActs(tokens, cols)
		a.Quantize(x, tokens)
		var first []float32
		for _, l := range family {
			m := arrange(t, row, rows, cols, l)
			got := make([]float32, tokens*rows)
			MatMul(got, rows, &m, a, 0, rows)
			if first == nil {
				first = got
				matMulGeneric(first, rows, &m, a, 0, rows)
				checkAccuracy(t, &m, a)
			}
			sameBits(t, l.String(), got, first)
		}
	})
}
