// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"math"

	"windhover/kernels"
)

// The reference path (Options.Activations "f32"): what the forward pass means,
// in plain float32 Go and without a kernel, to compare the int8 path with.
// Weights are dequantised row by row; sums run over the elements in order;
// transcendental functions are those of package math.

// refProduct computes dst[t*stride+r] = row r of m times x[t] for r in [r0,r1);
// row is scratch of m.Cols values. Four tokens share a pass over the row: each
// has its own sum, in the order of the columns.
func refProduct(dst []float32, stride int, m *kernels.Matrix, x []float32, tokens, r0, r1 int, row []float32) {
	n := m.Cols
	for r := r0; r < r1; r++ {
		m.DequantizeRow(row, r)
		t := 0
		for ; t+4 <= tokens; t += 4 {
			a, b, c, d := x[t*n:][:n], x[(t+1)*n:][:n], x[(t+2)*n:][:n], x[(t+3)*n:][:n]
			var sa, sb, sc, sd float32
			for i, w := range row {
				sa += float32(w * a[i])
				sb += float32(w * b[i])
				sc += float32(w * c[i])
				sd += float32(w * d[i])
			}
			dst[t*stride+r], dst[(t+1)*stride+r] = sa, sb
			dst[(t+2)*stride+r], dst[(t+3)*stride+r] = sc, sd
		}
		for ; t < tokens; t++ {
			dst[t*stride+r] = refDot(row, x[t*n:][:n])
		}
	}
}

func refDot(a, b []float32) float32 {
	var sum float32
	for i, v := range a {
		sum += float32(v * b[i])
	}
	return sum
}

// refNorm is x / sqrt(mean of squares + eps) * w.
func refNorm(dst, x, w []float32, eps float32) {
	mean := refDot(x, x) / float32(len(x))
	r := float32(1 / math.Sqrt(float64(mean+eps)))
	for i, v := range x {
		dst[i] = float32(v*r) * w[i]
	}
}

// refRope turns the pairs (i, i + half) of a head.
func refRope(x, cos, sin []float32) {
	half := len(cos)
	for i := range half {
		a, b := x[i], x[i+half]
		x[i] = float32(a*cos[i]) - float32(b*sin[i])
		x[i+half] = float32(b*cos[i]) + float32(a*sin[i])
	}
}

// refAttention leaves softmax(q·k * scale)·v in out, over len(scores) positions.
func refAttention(out, scores, q, k, v []float32, scale float32) {
	hd := len(q)
	top := float32(math.Inf(-1))
	for i := range scores {
		scores[i] = refDot(q, k[i*hd:][:hd]) * scale
		top = max(top, scores[i])
	}
	var sum float32
	for i, x := range scores {
		scores[i] = float32(math.Exp(float64(x - top)))
		sum += scores[i]
	}
	clear(out)
	for i, e := range scores {
		p := e / sum
		for j, x := range v[i*hd:][:hd] {
			out[j] += float32(p * x)
		}
	}
}

// refSiluMul leaves gate * sigmoid(gate) * up in gate.
func refSiluMul(gate, up []float32) {
	for i, g := range gate {
		sigmoid := float32(1 / (1 + math.Exp(-float64(g))))
		gate[i] = float32(g*sigmoid) * up[i]
	}
}

// refAddScaled adds w*y to x.
func refAddScaled(x, y []float32, w float32) {
	for i, v := range y {
		x[i] += float32(w * v)
	}
}
