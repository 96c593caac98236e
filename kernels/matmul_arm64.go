// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package kernels

// gemmChunk is how many weight bytes are worked on for all tokens before the
// next ones: they stay in a 512 KiB second-level cache together with a tile of
// activations. It also bounds the time of one assembly call, which the garbage
// collector cannot interrupt.
const gemmChunk = 128 << 10

func matMul(dst []float32, ldd int, m *Matrix, a *Acts, row0, row1 int) {
	nb := m.Cols / BlockLen
	if !useNEON || nb == 0 {
		matMulGeneric(dst, ldd, m, a, row0, row1)
		return
	}
	row := nb * m.Layout.BlockBytes()     // bytes of a row
	stride := m.pitch() / m.Layout.Rows() // from row to row, or row group to row group
	step := m.Layout.Rows()
	chunk := max(1, gemmChunk/(max(step, 4)*row))
	switch {
	case step == 1:
		step = 4 // the kernels do four rows of a row-major matrix at once
	case m.Pitch > 0:
		chunk = 1 // and take it that row groups follow each other
	}
	chunk *= step
	tile := gemmTile(m.Layout)
	for r := row0; r < row1; r += chunk {
		end := min(r+chunk, row1)
		rest := (end - r) % step // row-major only
		end -= rest
		w := m.Data[r*stride:]
		if m.Pitch > 0 && m.Layout.Rows() > 1 {
			prefetch(m.Data, (r+windowAhead*step)*stride, step*row)
		}
		t := 0
		if r < end {
			for ; t+tile <= a.Tokens; t += tile {
				out := dst[t*ldd+r : (t+tile-1)*ldd+end]
				gemm(m.Layout, out, ldd, w, stride, a.Q[t*a.Cols:][:tile*a.Cols], a.D[t*nb:][:tile*nb], (end-r)/step, nb)
			}
			for ; t < a.Tokens; t++ {
				gemv(m.Layout, dst[t*ldd+r:t*ldd+end], w, stride, a.Q[t*a.Cols:][:a.Cols], a.D[t*nb:][:nb], (end-r)/step, nb)
			}
		}
		for i := end; i < end+rest; i++ {
			w := m.Data[i*stride:][:row]
			for t := range a.Tokens {
				var four [4]float32 // the same row, four times
				gemv(m.Layout, four[:], w, 0, a.Q[t*a.Cols:][:a.Cols], a.D[t*nb:][:nb], 1, nb)
				dst[t*ldd+i] = four[0]
			}
		}
	}
}

// windowAhead is how many row groups before its turn one of a window is prefetched.
const windowAhead = 2

// gemmTile is how many tokens gemm takes at once.
func gemmTile(l Layout) int {
	tile := 2
	if l == Q8x4 || l == Q4x4 {
		tile = 4 // half as many rows
	}
	if useSDOT {
		tile *= 2
	}
	return tile
}

// gemv does one token times groups of four or eight rows.
func gemv(l Layout, dst []float32, w []byte, stride int, x []int8, d []float32, groups, nb int) {
	switch {
	case l == Q8x8 && useSDOT:
		q8x8GemvSDOT(&dst[0], &w[0], &x[0], &d[0], groups, nb)
	case l == Q8x8:
		q8x8GemvNEON(&dst[0], &w[0], &x[0], &d[0], groups, nb)
	case l == Q8x4 && useSDOT:
		q8x4GemvSDOT(&dst[0], &w[0], &x[0], &d[0], groups, nb)
	case l == Q8x4:
		q8x4GemvNEON(&dst[0], &w[0], &x[0], &d[0], groups, nb)
	case l == Q4x4 && useSDOT:
		q4x4GemvSDOT(&dst[0], &w[0], &x[0], &d[0], groups, nb)
	case l == Q4x4:
		q4x4GemvNEON(&dst[0], &w[0], &x[0], &d[0], groups, nb)
	case l == Q8Row && useSDOT:
		q8rowGemvSDOT(&dst[0], &w[0], stride, &x[0], &d[0], groups, nb)
	case l == Q8Row:
		q8rowGemvNEON(&dst[0], &w[0], stride, &x[0], &d[0], groups, nb)
	case l == Q4Row && useSDOT:
		q4rowGemvSDOT(&dst[0], &w[0], stride, &x[0], &d[0], groups, nb)
	case l == Q4Row:
		q4rowGemvNEON(&dst[0], &w[0], stride, &x[0], &d[0], groups, nb)
	}
}

// gemm does gemmTile tokens at once.
func gemm(l Layout, dst []float32, ldd int, w []byte, stride int, x []int8, d []float32, groups, nb int) {
	switch {
	case l == Q8x8 && useSDOT:
		q8x8Gemm4SDOT(&dst[0], ldd, &w[0], &x[0], &d[0], groups, nb)
	case l == Q8x8:
		q8x8Gemm2NEON(&dst[0], ldd, &w[0], &x[0], &d[0], groups, nb)
	case l == Q8x4 && useSDOT:
		q8x4Gemm8SDOT(&dst[0], ldd, &w[0], &x[0], &d[0], groups, nb)
	case l == Q8x4:
		q8x4Gemm4NEON(&dst[0], ldd, &w[0], &x[0], &d[0], groups, nb)
	case l == Q4x4 && useSDOT:
		q4x4Gemm8SDOT(&dst[0], ldd, &w[0], &x[0], &d[0], groups, nb)
	case l == Q4x4:
		q4x4Gemm4NEON(&dst[0], ldd, &w[0], &x[0], &d[0], groups, nb)
	case l == Q8Row && useSDOT:
		q8rowGemm4SDOT(&dst[0], ldd, &w[0], stride, &x[0], &d[0], groups, nb)
	case l == Q8Row:
		q8rowGemm2NEON(&dst[0], ldd, &w[0], stride, &x[0], &d[0], groups, nb)
	case l == Q4Row && useSDOT:
		q4rowGemm4SDOT(&dst[0], ldd, &w[0], stride, &x[0], &d[0], groups, nb)
	case l == Q4Row:
		q4rowGemm2NEON(&dst[0], ldd, &w[0], stride, &x[0], &d[0], groups, nb)
	}
}

//go:noescape
func q8x8GemvSDOT(dst *float32, w *byte, x *int8, d *float32, groups, nb int)

//go:noescape
func q8x8Gemm4SDOT(dst *float32, ldd int, w *byte, x *int8, d *float32, groups, nb int)

//go:noescape
func q8x4GemvSDOT(dst *float32, w *byte, x *int8, d *float32, groups, nb int)

//go:noescape
func q8x4Gemm8SDOT(dst *float32, ldd int, w *byte, x *int8, d *float32, groups, nb int)

//go:noescape
func q4x4GemvSDOT(dst *float32, w *byte, x *int8, d *float32, groups, nb int)

//go:noescape
func q4x4Gemm8SDOT(dst *float32, ldd int, w *byte, x *int8, d *float32, groups, nb int)

//go:noescape
func q8rowGemvSDOT(dst *float32, w *byte, stride int, x *int8, d *float32, groups, nb int)

//go:noescape
func q8rowGemm4SDOT(dst *float32, ldd int, w *byte, stride int, x *int8, d *float32, groups, nb int)

//go:noescape
func q4rowGemvSDOT(dst *float32, w *byte, stride int, x *int8, d *float32, groups, nb int)

//go:noescape
func q4rowGemm4SDOT(dst *float32, ldd int, w *byte, stride int, x *int8, d *float32, groups, nb int)

//go:noescape
func q8x8GemvNEON(dst *float32, w *byte, x *int8, d *float32, groups, nb int)

//go:noescape
func q8x4GemvNEON(dst *float32, w *byte, x *int8, d *float32, groups, nb int)

//go:noescape
func q4x4GemvNEON(dst *float32, w *byte, x *int8, d *float32, groups, nb int)

//go:noescape
func q8rowGemvNEON(dst *float32, w *byte, stride int, x *int8, d *float32, groups, nb int)

//go:noescape
func q4rowGemvNEON(dst *float32, w *byte, stride int, x *int8, d *float32, groups, nb int)

//go:noescape
func q8x8Gemm2NEON(dst *float32, ldd int, w *byte, x *int8, d *float32, groups, nb int)

//go:noescape
func q8x4Gemm4NEON(dst *float32, ldd int, w *byte, x *int8, d *float32, groups, nb int)

//go:noescape
func q4x4Gemm4NEON(dst *float32, ldd int, w *byte, x *int8, d *float32, groups, nb int)

//go:noescape
func q8rowGemm2NEON(dst *float32, ldd int, w *byte, stride int, x *int8, d *float32, groups, nb int)

//go:noescape
func q4rowGemm2NEON(dst *float32, ldd int, w *byte, stride int, x *int8, d *float32, groups, nb int)
