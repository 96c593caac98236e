// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package kernels

// fewBytes is how many bytes of weights are done for all tokens in one go: they
// stay in the second cache for the next tile of tokens, and the garbage collector
// cannot interrupt the assembly.
const fewBytes = 256 << 10

// fewLimit is up to how many tokens weights of layout l are better read straight
// from it, again for every tile of tokens, than packed into panels first (measured
// on Zen 4: beyond, both are equal); 1 if l has no kernels for it.
func fewLimit(l Layout) int {
	switch {
	case !useVNNI:
		return 1
	case l == Q8x8:
		return 16 * tileTokens
	case l == Q4x4:
		return 8 * tileTokens
	}
	return 1
}

// few multiplies with up to fewLimit tokens, packed into tiles as for gemm. Rows
// that fill no 16 go there.
func few(dst []float32, ldd int, m *Matrix, a *Acts, row0, row1 int) {
	nb := m.Cols / BlockLen
	row := nb * m.Layout.BlockBytes()
	if m.Pitch > 0 {
		fewWindow(dst, ldd, m, a, row0, row1)
		return
	}
	step := max(1, fewBytes/(row*panelRows)) * panelRows
	for r := row0; r < row1; r += step {
		rows := min(step, row1-r)
		whole := rows / panelRows * panelRows
		if whole > 0 {
			fewRows(dst[r:], ldd, m.Layout, m.Data[r*row:], whole, a)
		}
		if whole < rows {
			gemm(dst, ldd, m, a, r+whole, r+rows)
		}
	}
}

// windowBytes is the most that 16 rows of a window may have for fewWindow.
const windowBytes = 16 << 10

// fewWindow copies 16 rows of a window at a time to where they follow each other.
func fewWindow(dst []float32, ldd int, m *Matrix, a *Acts, row0, row1 int) {
	h := m.Layout.Rows()
	width := m.Cols / BlockLen * m.Layout.GroupBytes()
	if panelRows/h*width > windowBytes {
		gemm(dst, ldd, m, a, row0, row1)
		return
	}
	var room [windowBytes]byte
	r := row0
	for ; r+panelRows <= row1; r += panelRows {
		for g := range panelRows / h {
			copy(room[g*width:][:width], m.Data[(r/h+g)*m.Pitch:])
		}
		fewRows(dst[r:], ldd, m.Layout, room[:], panelRows, a)
	}
	if r < row1 {
		gemm(dst, ldd, m, a, r, row1)
	}
}

// fewRows does rows rows that follow each other from w on, a multiple of 16.
func fewRows(dst []float32, ldd int, l Layout, w []byte, rows int, a *Acts) {
	nb := a.Cols / BlockLen
	for t := 0; t < a.Tokens; t += tileTokens {
		at := t * nb
		fewTile(l, dst[t*ldd:], ldd, w, rows/l.Rows(), nb,
			a.packQ[at*BlockLen:], a.packD[at:], a.packSum[at:], min(tileTokens, a.Tokens-t))
	}
}

func fewTile(l Layout, dst []float32, ldd int, w []byte, groups, nb int, q []int8, d []float32, bias []int32, tokens int) {
	switch {
	case l == Q8x8 && tokens <= 2:
		few2Q8x8VNNI(&dst[0], ldd, &w[0], groups, nb, &q[0], &d[0], &bias[0], tokens, fetchAhead)
	case l == Q8x8 && tokens <= 4:
		few4Q8x8VNNI(&dst[0], ldd, &w[0], groups, nb, &q[0], &d[0], &bias[0], tokens, fetchAhead)
	case l == Q8x8 && tokens <= 6:
		few6Q8x8VNNI(&dst[0], ldd, &w[0], groups, nb, &q[0], &d[0], &bias[0], tokens, fetchAhead)
	case l == Q8x8:
		few8Q8x8VNNI(&dst[0], ldd, &w[0], groups, nb, &q[0], &d[0], &bias[0], tokens, fetchAhead)
	case tokens <= 2:
		few2Q4x4VNNI(&dst[0], ldd, &w[0], groups, nb, &q[0], &d[0], &bias[0], tokens, fetchAhead)
	case tokens <= 4:
		few4Q4x4VNNI(&dst[0], ldd, &w[0], groups, nb, &q[0], &d[0], &bias[0], tokens, fetchAhead)
	case tokens <= 6:
		few6Q4x4VNNI(&dst[0], ldd, &w[0], groups, nb, &q[0], &d[0], &bias[0], tokens, fetchAhead)
	default:
		few8Q4x4VNNI(&dst[0], ldd, &w[0], groups, nb, &q[0], &d[0], &bias[0], tokens, fetchAhead)
	}
}

//go:noescape
func few2Q8x8VNNI(dst *float32, ldd int, w *byte, groups, nb int, q *int8, d *float32, bias *int32, tokens, ahead int)

//go:noescape
func few4Q8x8VNNI(dst *float32, ldd int, w *byte, groups, nb int, q *int8, d *float32, bias *int32, tokens, ahead int)

//go:noescape
func few6Q8x8VNNI(dst *float32, ldd int, w *byte, groups, nb int, q *int8, d *float32, bias *int32, tokens, ahead int)

//go:noescape
func few8Q8x8VNNI(dst *float32, ldd int, w *byte, groups, nb int, q *int8, d *float32, bias *int32, tokens, ahead int)

//go:noescape
func few2Q4x4VNNI(dst *float32, ldd int, w *byte, groups, nb int, q *int8, d *float32, bias *int32, tokens, ahead int)

//go:noescape
func few4Q4x4VNNI(dst *float32, ldd int, w *byte, groups, nb int, q *int8, d *float32, bias *int32, tokens, ahead int)

//go:noescape
func few6Q4x4VNNI(dst *float32, ldd int, w *byte, groups, nb int, q *int8, d *float32, bias *int32, tokens, ahead int)

//go:noescape
func few8Q4x4VNNI(dst *float32, ldd int, w *byte, groups, nb int, q *int8, d *float32, bias *int32, tokens, ahead int)
