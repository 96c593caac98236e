// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"math"
	"testing"

	"windhover/kernels"
	"windhover/vqf"
)

// Block sizes are stated in two packages that must not know each other.
func TestBlockSizesAgree(t *testing.T) {
	if vqf.BlockLen != kernels.BlockLen || vqf.Q8BlockBytes != kernels.Q8BlockBytes || vqf.Q4BlockBytes != kernels.Q4BlockBytes {
		t.Error("vqf and kernels disagree about a block")
	}
}

// Pieces are whole row groups, cover a matrix, and stay bounded whatever is
// asked for, so that memory does not grow with the model.
func TestPieces(t *testing.T) {
	e := encoding{unit: 8}
	for _, m := range []matrix{{rows: 8, cols: 32}, {rows: 151936, cols: 2048}, {rows: 2048, cols: 98304}, {rows: 1, cols: 4096}, {rows: 49152, cols: 576}} {
		for _, threads := range []int{1, 2, 8, 64} {
			for _, chunk := range []int{0, 1, 7, 2048, math.MaxInt} {
				p := &pipeline{threads: threads, chunk: chunk}
				rows := p.rowsOf(&m, &e)
				if rows < 1 || rows%e.unit != 0 {
					t.Errorf("%d x %d: %d rows a piece", m.rows, m.cols, rows)
				}
				most := max(min(largestPiece, allPieces/threads), m.cols) + e.unit*m.cols
				if rows*m.cols > most {
					t.Errorf("%d x %d, %d threads, chunk %d: %d values a piece, want at most %d", m.rows, m.cols, threads, chunk, rows*m.cols, most)
				}
			}
		}
	}
}

// rowErrors agrees with the plain formula on what a block lost.
func TestRowErrors(t *testing.T) {
	const rows, cols = 3, 64
	x := make([]float32, rows*cols)
	for i := range x {
		x[i] = float32((37*i)%251-125) / 100
	}
	for _, c := range []struct {
		name string
		enc  encoding
	}{
		{"q8", encoding{quantise: kernels.QuantizeQ8, bytes: 34, block: 32}},
		{"q4", encoding{quantise: kernels.QuantizeQ4, bytes: 18, block: 32}},
		{"q4i", encoding{quantise: kernels.QuantizeQ4I, bytes: 34, block: 32}},
	} {
		blocks := make([]byte, c.enc.size(len(x)))
		c.enc.quantise(blocks, x)
		sums := make([]tally, rows)
		c.enc.rowErrors(sums, blocks, x, cols)
		layout := kernels.Q8Row
		if c.enc.bytes == 18 {
			layout = kernels.Q4Row
		}
		m, err := kernels.NewMatrix(blocks, rows, cols, layout)
		if err != nil {
			t.Fatal(err)
		}
		back := make([]float32, cols)
		for r := range rows {
			m.DequantizeRow(back, r)
			lost, all, most := 0.0, 0.0, float32(0)
			for i, v := range x[r*cols : (r+1)*cols] {
				lost += math.Pow(float64(v)-float64(back[i]), 2)
				all += float64(v) * float64(v)
				most = max(most, v-back[i], back[i]-v)
			}
			if got := sums[r]; math.Abs(got.Lost-lost) > 1e-5*lost || math.Abs(got.All-all) > 1e-5*all || got.Max != most {
				t.Errorf("%s row %d: got %+v, want %v of %v, most %v", c.name, r, got, lost, all, most)
			}
		}
	}
}
