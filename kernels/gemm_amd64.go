// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package kernels

import "unsafe"

// A product with several tokens works on two packed forms.
//
// A weight panel holds 16 rows and up to panelBlocks column blocks, the same
// form for every layout, so that one inner kernel serves all. It lies on the
// stack and stays in the first cache while all tokens pass. Per block 576
// bytes, step k being columns 4k to 4k+3:
//
//	step 0: row 0 | row 1 | … | row 15   4 codes each, 64 bytes
//	…
//	step 7
//	scales: row 0 | row 1 | … | row 15   float32
//
// Packed activations (Acts.packQ, packD, packSum) hold tiles of 8 tokens, so
// that a tile is read in memory order whatever the number of columns. Per tile
// and block:
//
//	packQ:   token 0 | … | token 7   32 codes each
//	packD:   token 0 | … | token 7   scales
//	packSum: token 0 | … | token 7   -128 times the sum of the codes
//
// Places past the last token hold anything finite or not; what comes of them
// is thrown away.
const (
	tileTokens  = 8
	panelRows   = 16
	panelBlocks = 32
	panelBytes  = 576 // a block
	cacheLine   = 64
)

func gemm(dst []float32, ldd int, m *Matrix, a *Acts, row0, row1 int) {
	nb := m.Cols / BlockLen
	var room [panelBlocks*panelBytes + cacheLine]byte
	panel := room[-uintptr(unsafe.Pointer(&room))&(cacheLine-1):]
	var tile [tileTokens * panelRows]float32 // for results that dst has no room for
	for r := row0; r < row1; r += panelRows {
		rows := min(panelRows, row1-r)
		for b := 0; b < nb; b += panelBlocks {
			n := min(panelBlocks, nb-b)
			packPanel(panel, m, r, rows, b, n)
			for t := 0; t < a.Tokens; t += tileTokens {
				tokens := min(tileTokens, a.Tokens-t)
				at := (t/tileTokens*nb + b) * tileTokens
				q, d, bias := a.packQ[at*BlockLen:], a.packD[at:], a.packSum[at:]
				if rows == panelRows && tokens%4 == 0 {
					gemmTile(m.Layout, dst[t*ldd+r:], ldd, panel, q, d, bias, n, tokens, b == 0)
					continue
				}
				for i := 0; b > 0 && i < tokens; i++ {
					copy(tile[i*panelRows:], dst[(t+i)*ldd+r:][:rows])
				}
				gemmTile(m.Layout, tile[:], panelRows, panel, q, d, bias, n, tokens, b == 0)
				for i := range tokens {
					copy(dst[(t+i)*ldd+r:][:rows], tile[i*panelRows:])
				}
			}
		}
	}
}

// packPanel packs rows rows from row and n blocks from b on. Places of rows that
// are left out keep what they hold.
func packPanel(panel []byte, m *Matrix, row, rows, b, n int) {
	h, size, pitch := m.Layout.Rows(), m.Layout.GroupBytes(), m.pitch()
	flip, bias := uint32(0), uint32(0)
	if useVNNI { // codes plus 128
		flip, bias = 0x80808080, 0x78787878
	}
	data := m.Data[row/h*pitch+b*size:]
	for i := 0; i < rows; i += max(4, h) {
		p := &panel[4*i]
		switch m.Layout {
		case Q8x8:
			packQ8x8(p, &data[i/h*pitch], n, flip)
		case Q8x4:
			packQ8x4(p, &data[i/h*pitch], n, flip)
		case Q4x4:
			packQ4x4(p, &data[i/h*pitch], n, bias)
		default:
			var w [4]*byte
			for j := range w {
				w[j] = &data[min(i+j, rows-1)*pitch]
			}
			if m.Layout == Q8Row {
				packQ8Row(p, w[0], w[1], w[2], w[3], n, flip)
			} else {
				packQ4Row(p, w[0], w[1], w[2], w[3], n, bias)
			}
		}
	}
}

// gemmTile multiplies a panel with the first tokens tokens of a tile, going on
// from dst unless this is the first panel of its rows. dst has room for all 16
// rows and for 8 tokens, or 4 if tokens <= 4.
func gemmTile(l Layout, dst []float32, ldd int, panel []byte, q []int8, d []float32, bias []int32, nb, tokens int, first bool) {
	if useVNNI {
		if tokens > 4 {
			gemm8VNNI(&dst[0], ldd, &panel[0], &q[0], &d[0], &bias[0], nb, first)
		} else {
			gemm4VNNI(&dst[0], ldd, &panel[0], &q[0], &d[0], &bias[0], nb, first)
		}
		return
	}
	for t := 0; t < tokens; t += 4 {
		for r := 0; r < panelRows; r += 8 {
			if l.Q8() {
				gemmQ8AVX2(&dst[t*ldd+r], ldd, &panel[4*r], &q[t*BlockLen], &d[t], nb, first)
			} else {
				gemmQ4AVX2(&dst[t*ldd+r], ldd, &panel[4*r], &q[t*BlockLen], &d[t], &bias[t], nb, first)
			}
		}
	}
}

//go:noescape
func packQ8x8(panel, w *byte, nb int, flip uint32)

//go:noescape
func packQ8x4(panel, w *byte, nb int, flip uint32)

//go:noescape
func packQ8Row(panel, w0, w1, w2, w3 *byte, nb int, flip uint32)

//go:noescape
func packQ4x4(panel, w *byte, nb int, bias uint32)

//go:noescape
func packQ4Row(panel, w0, w1, w2, w3 *byte, nb int, bias uint32)

//go:noescape
func gemm8VNNI(dst *float32, ldd int, panel *byte, q *int8, d *float32, bias *int32, nb int, first bool)

//go:noescape
func gemm4VNNI(dst *float32, ldd int, panel *byte, q *int8, d *float32, bias *int32, nb int, first bool)

//go:noescape
func gemmQ8AVX2(dst *float32, ldd int, panel *byte, q *int8, d *float32, nb int, first bool)

//go:noescape
func gemmQ4AVX2(dst *float32, ldd int, panel *byte, q *int8, d *float32, bias *int32, nb int, first bool)
