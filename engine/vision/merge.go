// SPDX-License-Identifier: Apache-2.0

package vision

import "windhover/kernels"

// A merger, for the patches of a place:
//
//	h = LayerNorm of each patch, or of all together
//	y = W2 gelu(W1 h + bias) + bias
//
// Its matrices are float32 in the file, and large: they are read once for a
// chunk of places, which lie side by side, the values of 64 of them together, as
// kernels.MulFloats takes and gives them.
const (
	chunkPlaces = 4 * kernels.FloatColumns
	mergeRows   = 48  // of a matrix, a unit
	pieceLen    = 512 // columns of a matrix that stay in a near cache with 64 places
)

// mergePass is the memory of a merger.
type mergePass struct {
	in, mid []float32 // [tiles][merged][64]
	out     []float32 // [tiles][out][64]
}

func newMergePass(t *Tower, patches int) *mergePass {
	tiles := mergeTiles(patches / (t.cfg.Merge * t.cfg.Merge))
	n := tiles * kernels.FloatColumns
	return &mergePass{in: make([]float32, n*t.merged()), mid: make([]float32, n*t.merged()), out: make([]float32, n*t.s.out)}
}

// mergeTiles is how many tiles of 64 places a chunk has at most.
func mergeTiles(places int) int {
	return (min(places, chunkPlaces) + kernels.FloatColumns - 1) / kernels.FloatColumns
}

// mergeInto lists what leaves in dst [places][out] what the merger makes of x.
func (c *pass) mergeInto(m *merger, dst []float32) {
	places := len(dst) / c.s.out
	for from := 0; from < places; from += chunkPlaces {
		n := min(places-from, chunkPlaces)
		c.mergeChunk(m, from, dst[from*c.s.out:][:n*c.s.out])
	}
}

// mergeChunk does that for a chunk of places.
func (c *pass) mergeChunk(m *merger, from int, dst []float32) {
	const cols = kernels.FloatColumns
	wide, out, b := c.merged(), c.s.out, c.merge
	n := len(dst) / out
	tiles := mergeTiles(n)
	rows := func(y, x []float32, w []float32, n int, each func(row int, y []float32)) stage {
		unit := func(_, u int) {
			r0, r1 := u*mergeRows, min((u+1)*mergeRows, n)
			for tile := range tiles {
				y := y[(tile*n+r0)*cols:][:(r1-r0)*cols]
				multiply(y, w[r0*wide:], x[tile*wide*cols:], r1-r0, wide)
				for r := r0; r < r1; r++ {
					each(r, y[(r-r0)*cols:][:cols])
				}
			}
		}
		return stage{units: (n + mergeRows - 1) / mergeRows, cost: mergeRows * int64(wide) * int64(tiles*cols), do: unit}
	}
	c.list = append(c.list,
		stage{units: n, cost: int64(normCost * wide), do: func(worker, t int) {
			h := c.workers[worker].place
			c.normPlace(h, c.x[(from+t)*wide:][:wide], m)
			in := b.in[t/cols*wide*cols+t%cols:]
			for k, v := range h {
				in[k*cols] = v
			}
		}},
		rows(b.mid, b.in, m.f1, wide, func(row int, y []float32) {
			for i, v := range y {
				y[i] = gelu(v + m.f1Bias[row])
			}
		}),
		rows(b.out, b.mid, m.f2, out, func(row int, y []float32) {
			for i := range y {
				y[i] += m.f2Bias[row]
			}
		}),
		stage{units: n, cost: int64(normCost * out), do: func(_, t int) {
			y, src := dst[t*out:][:out], b.out[t/cols*out*cols+t%cols:]
			for r := range y {
				y[r] = src[r*cols]
			}
		}},
	)
}

// normPlace norms the patches of a place by themselves, or together.
func (c *pass) normPlace(dst, x []float32, m *merger) {
	for n := len(m.norm); len(x) > 0; x, dst = x[n:], dst[n:] {
		layerNorm(dst[:n], x[:n], m.norm, m.bias, c.ones, c.s.eps)
	}
}

// multiply leaves rows of w [rows][n] times x [n][64] in y [rows][64]: each
// output is one sum by fma, ascending from +0, as kernels.MulFloats says.
func multiply(y, w, x []float32, rows, n int) {
	for k := 0; k < n; k += pieceLen {
		kernels.MulFloats(y, w[k:], n, x[k*kernels.FloatColumns:], rows, min(n-k, pieceLen), k > 0)
	}
}
