// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"bytes"
	"fmt"
	"testing"
)

// copied is m's rows and columns as a matrix of its own.
func copied(t *testing.T, m *Matrix, row0, row1, col0, col1 int) Matrix {
	t.Helper()
	h, size := m.Layout.Rows(), m.Layout.GroupBytes()
	var data []byte
	for g := row0 / h; g < row1/h; g++ {
		at := (g*m.Cols + col0) / BlockLen * size
		data = append(data, m.Data[at:][:(col1-col0)/BlockLen*size]...)
	}
	c, err := NewMatrix(data, row1-row0, col1-col0, m.Layout)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestPart: a part of a matrix has the bits of the same rows and columns copied out,
// for every number of tokens, and nothing beyond it is read.
func TestPart(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		for _, l := range layouts {
			r := newRand(uint64(l))
			const cols = 13 * BlockLen
			rows := 48 + 8*l.Rows()
			whole := arrange(t, randBlocks(r, rows*cols/BlockLen, l.Q8(), "random"), rows, cols, l)
			for _, p := range [][4]int{{0, rows, 0, cols}, {0, rows, 0, 32}, {8, 40, 96, 288}, {16, rows, 12 * 32, cols}, {8, 16, 32, cols}, {24, rows - 8, 0, 8 * 32}} {
				want := copied(t, &whole, p[0], p[1], p[2], p[3])
				got := whole.Part(p[0], p[1], p[2], p[3])
				got.Data = guardedCopy(t, got.Data, p[0]%16 == 0)
				testPart(t, &got, &want)
				again := whole.Part(8, rows, 32, cols)
				if p[0] >= 8 && p[2] >= 32 { // of a part
					again = again.Part(p[0]-8, p[1]-8, p[2]-32, p[3]-32)
					testPart(t, &again, &want)
				}
			}
		}
	})
}

func testPart(t *testing.T, got, want *Matrix) {
	t.Helper()
	r := newRand(5)
	a, b := make([]float32, want.Cols), make([]float32, want.Cols)
	for row := range want.Rows {
		got.DequantizeRow(a, row)
		want.DequantizeRow(b, row)
		sameBits(t, fmt.Sprintf("%v, row %d dequantised", got.Layout, row), a, b)
	}
	h := got.Layout.Rows()
	packed := make([]byte, len(want.Data))
	mid := got.Rows / 2 / h * h
	got.CopyRows(packed, mid, got.Rows)
	got.CopyRows(packed, 0, mid)
	if !bytes.Equal(packed, want.Data) {
		t.Errorf("%v %dx%d, pitch %d: rows copied are others", got.Layout, got.Rows, got.Cols, got.Pitch)
	}
	for _, tokens := range []int{1, 2, 3, 5, 6, 8, 9, 17, 130} {
		acts := NewActs(tokens, want.Cols)
		acts.Quantize(randFloats(r, tokens*want.Cols, "normal"), tokens)
		x, y := make([]float32, tokens*want.Rows), make([]float32, tokens*want.Rows)
		matMulGeneric(y, want.Rows, want, acts, 0, want.Rows)
		MatMul(x, want.Rows, got, acts, 0, want.Rows)
		sameBits(t, fmt.Sprintf("%v %dx%d, pitch %d, %d tokens", got.Layout, got.Rows, got.Cols, got.Pitch, tokens), x, y)
	}
}

// TestActsRows: rows copied and seen by a view are what quantising them anew gives.
func TestActsRows(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		const rows, cols, tokens = 24, 5 * BlockLen, 23
		r := newRand(17)
		x := randFloats(r, tokens*cols, "normal")
		src := NewActs(tokens, cols)
		src.Quantize(x, tokens)
		for _, l := range layouts {
			m := arrange(t, randBlocks(r, rows*cols/BlockLen, l.Q8(), "random"), rows, cols, l)
			all := make([]float32, tokens*rows)
			MatMul(all, rows, &m, src, 0, rows)
			for _, n := range []int{1, 2, 4, 6, 9} {
				dst := NewActs(3*tokens, cols)
				dst.SetTokens(2*RowsAlign + n)
				got, want := make([]float32, n*rows), make([]float32, 0, n*rows)
				for i := range n {
					from := (7*i + n) % tokens
					dst.CopyRow(2*RowsAlign+i, src, from)
					want = append(want, all[from*rows:][:rows]...)
				}
				v := dst.Rows(2*RowsAlign, n)
				MatMul(got, rows, &m, &v, 0, rows)
				sameBits(t, fmt.Sprintf("%v, %d rows copied", l, n), got, want)
			}
			for i := range tokens { // one of many, anywhere
				v, got := src.Rows(i, 1), make([]float32, rows)
				MatMul(got, rows, &m, &v, 0, rows)
				sameBits(t, fmt.Sprintf("%v, row %d", l, i), got, all[i*rows:][:rows])
			}
		}
	})
}

func TestPartAllocs(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		for _, l := range layouts {
			r := newRand(3)
			m := arrange(t, randBlocks(r, 32*9, l.Q8(), "random"), 32, 9*BlockLen, l)
			src, dst := NewActs(9, 3*BlockLen), NewActs(16, 3*BlockLen)
			src.Quantize(randFloats(r, 9*src.Cols, "normal"), 9)
			dst.SetTokens(16)
			out := make([]float32, 9*32)
			if n := testing.AllocsPerRun(10, func() {
				p := m.Part(0, 32, 32, 128)
				for i := range 9 {
					dst.CopyRow(i, src, i)
				}
				for _, n := range []int{1, 3, 9} {
					v := dst.Rows(0, n)
					MatMul(out, 32, &p, &v, 0, 32)
				}
			}); n != 0 {
				t.Errorf("%v: %v allocations", l, n)
			}
		}
	})
}

func TestPartChecks(t *testing.T) {
	m := Matrix{Data: make([]byte, 16*2*Q8BlockBytes), Rows: 16, Cols: 64, Layout: Q8x8}
	a := NewActs(16, 64)
	a.SetTokens(12)
	b := NewActs(2, 32)
	b.SetTokens(2)
	for name, f := range map[string]func(){
		"no rows":           func() { m.Part(8, 8, 0, 64) },
		"row in a group":    func() { m.Part(4, 16, 0, 64) },
		"rows beyond":       func() { m.Part(0, 24, 0, 64) },
		"column in a block": func() { m.Part(0, 16, 16, 64) },
		"columns beyond":    func() { m.Part(0, 16, 32, 96) },
		"no columns":        func() { m.Part(0, 16, 32, 32) },
		"copied in a group": func() { m.CopyRows(m.Data, 4, 16) },
		"copied beyond":     func() { m.CopyRows(m.Data, 8, 24) },
		"copied elsewhere":  func() { m.CopyRows(m.Data[1:], 0, 16) },
		"no tokens":         func() { a.Rows(0, 0) },
		"tokens beyond":     func() { a.Rows(8, 5) },
		"tokens in a tile":  func() { a.Rows(4, 2) },
		"copy beyond":       func() { a.CopyRow(12, a, 0) },
		"copy from beyond":  func() { a.CopyRow(0, a, 12) },
		"copy other":        func() { a.CopyRow(0, b, 0) },
	} {
		if !panics(f) {
			t.Errorf("%s: no panic", name)
		}
	}
}
