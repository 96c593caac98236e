// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"bytes"
	"encoding/binary"
	"math"
	"sync"
	"testing"
)

// TestQuantizeRange: workers that share the tokens of one Acts, in pieces that
// are no multiple of a tile, give what one call gives.
func TestQuantizeRange(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		const cols, rows, most = 4 * BlockLen, 16, 21
		r := newRand(31)
		m := arrange(t, randBlocks(r, rows*cols/BlockLen, true, "quantised"), rows, cols, Q8x8)
		whole, split := NewActs(most, cols), NewActs(most, cols)
		for tokens := 1; tokens <= most; tokens++ {
			x := randFloats(r, tokens*cols, "wide")
			whole.Quantize(x, tokens)
			split.SetTokens(tokens)
			var wg sync.WaitGroup
			for from := 0; from < tokens; {
				start, to := from, min(tokens, from+1+r.IntN(6))
				wg.Go(func() { split.QuantizeRange(x, start, to) })
				from = to
			}
			wg.Wait()
			want, got := make([]float32, tokens*rows), make([]float32, tokens*rows)
			MatMul(want, rows, &m, whole, 0, rows)
			MatMul(got, rows, &m, split, 0, rows)
			sameBits(t, "split", got, want)
		}
	})
}

// FuzzQuantize: for any finite values the codes dequantise to within half a
// step, and a re-layout is undone by its inverse.
func FuzzQuantize(f *testing.F) {
	f.Add([]byte{0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0})
	f.Add(bytes.Repeat([]byte{1, 0, 0, 0}, 32))
	f.Add(bytes.Repeat([]byte{0xff, 0xff, 0x7f, 0x7f}, 9))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) < 4 {
			return
		}
		const rows = 8
		x := make([]float32, rows*BlockLen)
		for i := range x {
			at := i % (len(raw) / 4) * 4
			x[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[at:]))
			if i >= len(raw)/4 {
				x[i] *= float32(i%5) / 4
			}
			if x[i] != x[i] || math.IsInf(float64(x[i]), 0) {
				x[i] = 1
			}
		}
		checkQuantised(t, x, QuantizeQ8, Q8Row, 127, 0.5)
		checkQuantised(t, x, QuantizeQ4, Q4Row, 8, 1)
		checkQuantised(t, x, QuantizeQ4I, Q8Row, 8, 1)
	})
}

// checkQuantised allows an error of step times the scale, which is the largest
// magnitude over codes, and of what a half cannot hold: its 11 bits times
// codes, and 2^-25 below its range. Scales above that range are infinite.
func checkQuantised(t *testing.T, x []float32, quantize func([]byte, []float32), l Layout, codes, step float64) {
	t.Helper()
	const rows = 8
	data := make([]byte, len(x)/BlockLen*l.BlockBytes())
	quantize(data, x)
	m, err := NewMatrix(data, rows, len(x)/rows, l)
	if err != nil {
		t.Fatal(err)
	}
	row := make([]float32, m.Cols)
	for r := range rows {
		in := x[r*m.Cols:][:m.Cols]
		var top float64
		for _, v := range in {
			top = max(top, math.Abs(float64(v)))
		}
		if top/codes >= 65504 {
			continue
		}
		m.DequantizeRow(row, r)
		for i, v := range row {
			bound := top/codes*(step+codes*0x1p-11)*1.0001 + codes*0x1p-24
			if math.Abs(float64(v)-float64(in[i])) > bound {
				t.Fatalf("%v: %g becomes %g, largest %g, bound %g", l, in[i], v, top, bound)
			}
		}
	}
	for _, to := range layouts {
		if to.Q8() != l.Q8() {
			continue
		}
		packed, back := make([]byte, len(data)), make([]byte, len(data))
		Repack(packed, data, rows, m.Cols, to)
		Unpack(back, packed, rows, m.Cols, to)
		if !bytes.Equal(back, data) {
			t.Fatalf("%v: Unpack does not invert Repack", to)
		}
	}
}
