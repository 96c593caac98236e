// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"bytes"
	"math"
	"slices"
	"testing"
)

// relatedRows are rows whose columns depend on each other, as the activations
// of a model do: a few hidden values mixed into all columns, plus noise.
func relatedRows(rows, cols int) []float32 {
	r := newRand(11)
	const hidden = 12
	mix := randFloats(r, hidden*cols, "unit")
	x := make([]float32, rows*cols)
	for i := range rows {
		h := randFloats(r, hidden, "unit")
		for c := range cols {
			v := 0.2 * r.NormFloat64()
			for k := range hidden {
				v += float64(h[k] * mix[k*cols+c])
			}
			x[i*cols+c] = float32(v * float64(1+c%7))
		}
	}
	return x
}

func gatherer(t *testing.T, workers, cols int) *Gatherer {
	t.Helper()
	topo, err := DetectTopology()
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewPool(topo.All[:min(workers, len(topo.All))], false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return NewGatherer(p, cols)
}

// TestMoments: the sums are those of the rows, as near as int8 codes are, and
// the same bits with any implementation and number of workers.
func TestMoments(t *testing.T) {
	const cols, rows = 160, 300
	x := relatedRows(rows, cols)
	var first *Moments
	eachImplementation(t, func(t *testing.T) {
		for workers := 1; workers <= 2; workers++ {
			g := gatherer(t, workers, cols+64)
			m := NewMoments(cols, 64)
			if err := g.Add(m, x, rows); err != nil {
				t.Fatal(err)
			}
			if first == nil {
				first = m
				continue
			}
			sameBits(t, "squares", m.Square, first.Square)
			sameBits(t, "products", m.products, first.products)
		}
	})
	if first.Rows != rows {
		t.Errorf("%d rows, want %d", first.Rows, rows)
	}
	sum := func(a, b int) (s float64) {
		for r := range rows {
			s += float64(x[r*cols+a]) * float64(x[r*cols+b])
		}
		return s
	}
	for b := range first.bands() {
		from, n, got := first.band(b)
		if want := min(64, cols-b*64); from != b*64 || n != want {
			t.Fatalf("band %d: columns %d+%d, want %d+%d", b, from, n, b*64, want)
		}
		for i := range n {
			a := sum(from+i, from+i)
			if s := float64(first.Square[from+i]); math.Abs(s-a) > 1e-5*a {
				t.Errorf("square of column %d: %g, want %g", from+i, s, a)
			}
			for j := range i + 1 {
				p, want := float64(got[triangle(i)+j]), sum(from+i, from+j)
				if scale := math.Sqrt(a * sum(from+j, from+j)); math.Abs(p-want) > 0.01*scale {
					t.Errorf("product of columns %d and %d: %g, want %g of %g", from+i, from+j, p, want, scale)
				}
			}
		}
	}
	if n := MomentsBytes(cols, 64); n != int64(4*(cols+len(first.products))) {
		t.Errorf("MomentsBytes = %d, %d squares and %d products", n, cols, len(first.products))
	}
}

// TestFeedbackFactors: the factors multiply to the damped products.
func TestFeedbackFactors(t *testing.T) {
	const cols, width, rows = 160, 96, 400
	m := NewMoments(cols, width)
	if err := gatherer(t, 1, cols).Add(m, relatedRows(rows, cols), rows); err != nil {
		t.Fatal(err)
	}
	want, mean := slices.Clone(m.products), 0.0
	for _, s := range m.Square {
		mean += float64(s) / cols
	}
	f, err := m.Feedback()
	if err != nil {
		t.Fatal(err)
	}
	for from := 0; from < cols; from += width {
		n := min(width, cols-from)
		u := func(j, k int) float64 { // of I+U
			switch {
			case j == k:
				return 1
			case j > k:
				return 0
			}
			return float64(f.pulls(from + k)[j])
		}
		for i := range n {
			for j := range i + 1 {
				var got float64
				for k := range n {
					got += u(i, k) * u(j, k) * float64(f.Weight()[from+k])
				}
				h := float64(want[from/width*triangle(width)+triangle(i)+j])
				if i == j {
					h += damping * mean
				}
				if math.Abs(got-h) > 1e-4*mean {
					t.Fatalf("band at %d, columns %d and %d: %g, want %g", from, i, j, got, h)
				}
			}
		}
	}
	if _, err := NewMoments(cols, width).Feedback(); err == nil {
		t.Error("no rows: factored all the same")
	}
	if _, err := NewMoments(cols, 0).Feedback(); err == nil {
		t.Error("no products: factored all the same")
	}
}

// TestQuantizeQ4Feedback: outputs are nearer to those of the source than with
// the codes that are nearest to the source; rows do not depend on each other;
// q4i holds the same codes; and without anything to feed back, the blocks are
// those of QuantizeQ4Optimal.
func TestQuantizeQ4Feedback(t *testing.T) {
	const cols, rows, inputs = 160, 24, 400
	x := relatedRows(inputs, cols)
	m := NewMoments(cols, 96)
	if err := gatherer(t, 1, cols).Add(m, x, inputs); err != nil {
		t.Fatal(err)
	}
	square := slices.Clone(m.Square)
	f, err := m.Feedback()
	if err != nil {
		t.Fatal(err)
	}
	r := newRand(5)
	src := make([]float32, rows*cols)
	for i := range src {
		src[i] = float32(r.NormFloat64())
	}
	clear(src[3*cols : 4*cols])
	const size = rows * cols / BlockLen * Q4BlockBytes
	plain, optimal, weighted, fed := make([]byte, size), make([]byte, size), make([]byte, size), make([]byte, size)
	lost := make([]float32, len(src))
	QuantizeQ4(plain, src)
	QuantizeQ4Optimal(optimal, src, cols, nil)
	QuantizeQ4Optimal(weighted, src, cols, square)
	QuantizeQ4Feedback(fed, src, f, lost)

	outputError := func(blocks []byte) (sum float64) {
		w, err := NewMatrix(blocks, rows, cols, Q4Row)
		if err != nil {
			t.Fatal(err)
		}
		row := make([]float32, cols)
		for i := range rows {
			w.DequantizeRow(row, i)
			for n := range inputs {
				var d float64
				for c, v := range row {
					d += float64(src[i*cols+c]-v) * float64(x[n*cols+c])
				}
				sum += d * d
			}
		}
		return sum
	}
	p, o, wt, fb := outputError(plain), outputError(optimal), outputError(weighted), outputError(fed)
	t.Logf("error of the outputs: plain %.0f, optimal %.0f, weighted %.0f, with feedback %.0f", p, o, wt, fb)
	if !(fb < 0.5*wt && wt < p) {
		t.Errorf("error of the outputs: plain %g, optimal %g, weighted %g, with feedback %g", p, o, wt, fb)
	}

	split := make([]byte, size)
	for row := 0; row < rows; row += 5 {
		n := min(5, rows-row)
		a, b := row*cols, (row+n)*cols
		QuantizeQ4Feedback(split[a/BlockLen*Q4BlockBytes:b/BlockLen*Q4BlockBytes], src[a:b], f, lost)
	}
	if !bytes.Equal(split, fed) {
		t.Error("rows quantised in pieces differ from those quantised at once")
	}
	wide := make([]byte, rows*cols/BlockLen*Q8BlockBytes)
	QuantizeQ4IFeedback(wide, src, f, lost)
	for b := range len(src) / BlockLen {
		sameCodes(t, b, fed[b*Q4BlockBytes:], wide[b*Q8BlockBytes:])
	}

	f.pull = make([]float32, len(f.pull))
	for i := range f.weight {
		f.weight[i] = 3
	}
	QuantizeQ4Feedback(fed, src, f, lost)
	if !bytes.Equal(fed, optimal) {
		t.Error("without feedback the blocks are not the optimal ones")
	}
}

// sameCodes compares a Q4_0 block with a q4i block.
func sameCodes(t *testing.T, n int, q4, q4i []byte) {
	t.Helper()
	for j := range BlockLen {
		if c := int8(q4[2+j%16]>>(j/16*4)&15) - 8; c != int8(q4i[2+j]) || !bytes.Equal(q4[:2], q4i[:2]) {
			t.Fatalf("block %d: q4i differs at value %d", n, j)
		}
	}
}

func BenchmarkQuantizeQ4Feedback(b *testing.B) {
	const cols, rows = 1536, 64
	f := &Feedback{cols: cols, width: cols, weight: make([]float32, cols), pull: make([]float32, triangle(cols))}
	for i := range f.weight {
		f.weight[i] = float32(1 + i%5)
	}
	src, lost := make([]float32, rows*cols), make([]float32, rows*cols)
	r := newRand(3)
	for i := range src {
		src[i] = float32(r.NormFloat64())
	}
	dst := make([]byte, rows*cols/BlockLen*Q4BlockBytes)
	b.SetBytes(int64(4 * len(src)))
	for b.Loop() {
		QuantizeQ4Feedback(dst, src, f, lost)
	}
}
