// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"fmt"
	"slices"
	"testing"
)

// TestAddProducts: windows and whole matrices, few and many, are added with the bits
// that their products and sums have one by one, by any ranges of rows, and nothing
// beyond the rows changes.
func TestAddProducts(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		for _, l := range layouts {
			for _, c := range []struct{ rows, blocks, products int }{
				{16, 1, 1}, {48, 3, 2}, {80, 24, 8}, {160, 7, 11}, {32, 9, 40}, {16, 2, 130}, {24, 1, 600},
			} {
				for _, pitch := range []bool{true, false} {
					testAddProducts(t, l, c.rows, c.blocks*BlockLen, c.products, pitch)
				}
			}
		}
	})
}

func testAddProducts(t *testing.T, l Layout, rows, cols, n int, pitch bool) {
	t.Helper()
	r := newRand(uint64(l) + uint64(rows*n))
	wide := min(n, 13) // some experts twice
	whole := arrange(t, randBlocks(r, rows*wide*cols/BlockLen, l.Q8(), "random"), rows, wide*cols, l)
	whole.Data = guardedCopy(t, whole.Data, n%2 == 0)
	products := make([]Product, n)
	x := randFloats(r, rows+3, "normal")
	want, y := slices.Clone(x), make([]float32, rows)
	for i := range products {
		e := i * 5 % wide
		p := &products[i]
		p.Matrix = whole.Part(0, rows, e*cols, (e+1)*cols)
		if !pitch {
			p.Matrix = copied(t, &whole, 0, rows, e*cols, (e+1)*cols)
		}
		p.Acts = *NewActs(1, cols)
		p.Acts.Quantize(randFloats(r, cols, "normal"), 1)
		p.Weight = randFloats(r, 1, "normal")[0]
		matMulGeneric(y, rows, &p.Matrix, &p.Acts, 0, rows)
		addScaledGeneric(want[:rows], y, p.Weight)
	}
	what := fmt.Sprintf("%v, %d products of %d x %d, windows %v", l, n, rows, cols, pitch)
	all, tmp := slices.Clone(x), make([]float32, rows)
	AddProducts(all, tmp, products, 0, rows)
	sameBits(t, what, all, want)
	split := slices.Clone(x)
	for _, r := range [][2]int{{8, rows}, {0, 0}, {0, 8}} {
		AddProducts(split, tmp, products, r[0], r[1])
	}
	sameBits(t, what+", by row ranges", split, want)
}

func TestAddProductsChecks(t *testing.T) {
	m := arrange(t, randBlocks(newRand(1), 16*2, true, "random"), 16, 2*BlockLen, Q8x8)
	good := func() Product {
		a := *NewActs(2, 2*BlockLen)
		a.Quantize(make([]float32, a.Cols), 1)
		return Product{Matrix: m, Acts: a}
	}
	x, tmp := make([]float32, 16), make([]float32, 16)
	AddProducts(x, tmp, nil, 0, 16)
	AddProducts(x, tmp, []Product{good()}, 0, 16)
	for name, f := range map[string]func(){
		"two tokens": func() { p := good(); p.Acts.SetTokens(2); AddProducts(x, tmp, []Product{good(), p}, 0, 16) },
		"other columns": func() {
			p := good()
			p.Acts = p.Acts.Rows(0, 1)
			p.Acts.Cols = 32
			AddProducts(x, tmp, []Product{p}, 0, 16)
		},
		"rows beyond":     func() { AddProducts(make([]float32, 24), make([]float32, 24), []Product{good()}, 0, 24) },
		"half a group":    func() { AddProducts(x, tmp, []Product{good()}, 4, 16) },
		"backwards":       func() { AddProducts(x, tmp, []Product{good()}, 16, 8) },
		"too few values":  func() { AddProducts(x[:8], tmp, []Product{good()}, 0, 16) },
		"too few scratch": func() { AddProducts(x, tmp[:8], []Product{good()}, 0, 16) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("accepted")
				}
			}()
			f()
		})
	}
}

func TestAddProductsAllocs(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		for _, l := range layouts {
			m := arrange(t, randBlocks(newRand(3), 32*9, l.Q8(), "random"), 32, 9*BlockLen, l)
			a := NewActs(1, 3*BlockLen)
			a.Quantize(randFloats(newRand(4), a.Cols, "normal"), 1)
			x, tmp := make([]float32, 32), make([]float32, 32)
			products := make([]Product, 3)
			if n := testing.AllocsPerRun(10, func() {
				for i := range products {
					products[i] = Product{Matrix: m.Part(0, 32, 96*i, 96*i+96), Acts: a.Rows(0, 1), Weight: 2}
				}
				AddProducts(x, tmp, products, 0, 32)
			}); n != 0 {
				t.Errorf("%v: %v allocations", l, n)
			}
		}
	})
}
