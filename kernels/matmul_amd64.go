// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package kernels

import "unsafe"

// Up to singleTokens, several tokens are done one by one where few has no kernel:
// packing the weights would cost more than it saves. Rows in work meanwhile stay in
// the second cache.
const (
	singleTokens = 5
	singleBytes  = 128 << 10
)

func matMul(dst []float32, ldd int, m *Matrix, a *Acts, row0, row1 int) {
	l, nb := m.Layout, m.Cols/BlockLen
	switch {
	case !useAVX2 || nb == 0:
		matMulGeneric(dst, ldd, m, a, row0, row1)
	case a.Tokens > 1 && a.Tokens <= fewLimit(l):
		few(dst, ldd, m, a, row0, row1)
	case a.Tokens > singleTokens:
		gemm(dst, ldd, m, a, row0, row1)
	case m.Pitch > 0:
		window(dst, ldd, m, a, row0, row1)
	default:
		row := nb * l.BlockBytes()
		step := row1 - row0
		if a.Tokens > 1 {
			step = max(1, singleBytes/(row*panelRows)) * panelRows
		}
		for r := row0; r < row1; r += step {
			groups := min(step, row1-r) / l.Rows()
			for t := range a.Tokens {
				gemv(l, &dst[t*ldd+r], &m.Data[r*row], groups, nb, &a.Q[t*m.Cols], &a.D[t*nb], &a.bias[t*nb], fetchAhead)
			}
		}
	}
}

// A row group of a window comes into the second cache farAhead groups before its
// turn and into the first nearAhead before: the first alone would wait for its few
// buffers (Zen 4: 24 lines under way; the two reach twice as much as nothing, and a
// half more than one).
const (
	farAhead  = 6
	nearAhead = 2
)

// window multiplies a window of a matrix's columns by few tokens, row group by row
// group.
func window(dst []float32, ldd int, m *Matrix, a *Acts, row0, row1 int) {
	h, nb := m.Layout.Rows(), m.Cols/BlockLen
	for r := row0; r < row1; r += h {
		prefetch(m.Data, (r/h+farAhead)*m.Pitch, nb*m.Layout.GroupBytes())
		ahead := nearAhead * m.Pitch
		for t := range a.Tokens {
			gemv(m.Layout, &dst[t*ldd+r], &m.Data[r/h*m.Pitch], 1, nb, &a.Q[t*m.Cols], &a.D[t*nb], &a.bias[t*nb], ahead)
			ahead = 0 // once
		}
	}
}

// pairBlocks is the longest row, in blocks, of which two groups and the two that
// come next fit into the first cache (32 KiB; measured on Zen 4).
const pairBlocks = 72

// longBlocks is from how many blocks on a group of four Q8 rows alone is slowed
// down by fetching its activations from the second cache again.
const longBlocks = 128

// quadBytes is from how many bytes on four streams of weights pay: each has to
// start, which costs a few hundred nanoseconds.
const quadBytes = 256 << 10

// fetchAhead is how many bytes before their turn weights are prefetched, 0 for
// none. AMD's own prefetchers do better alone (Zen 4: 2 to 4 %); Intel's stop at
// the end of a page and lose a quarter of the bandwidth without help (Sapphire
// Rapids).
var fetchAhead = func() int {
	if vendor() == "GenuineIntel" {
		return 4352
	}
	return 0
}()

// gemv does groups row groups from w on, for one token; bias is -128 times the
// sums of its codes. Weights are prefetched ahead bytes before their turn, if not 0.
func gemv(l Layout, dst *float32, w *byte, groups, nb int, q *int8, d *float32, bias *int32, ahead int) {
	switch {
	case useVNNI:
		switch l {
		case Q8Row:
			gemvQ8RowVNNI(dst, w, groups, nb, q, d, bias, ahead)
		case Q8x4:
			gemvQ8x4(dst, w, groups, nb, q, d, bias, ahead)
		case Q8x8:
			gemvQ8x8VNNI(dst, w, groups, nb, q, d, bias, ahead)
		case Q4Row:
			gemvQ4Row(dst, w, groups, nb, q, d, bias, ahead)
		case Q4x4:
			gemvQ4x4(dst, w, groups, nb, q, d, bias, ahead)
		}
	default:
		switch l {
		case Q8Row:
			gemvQ8RowAVX2(dst, w, groups, nb, q, d, bias, ahead)
		case Q8x4:
			gemvQ8x4AVX2(dst, w, groups, nb, q, d, bias, ahead)
		case Q8x8:
			gemvQ8x8AVX2(dst, w, groups, nb, q, d, bias, ahead)
		case Q4Row:
			gemvQ4Row(dst, w, groups, nb, q, d, bias, ahead)
		case Q4x4:
			gemvQ4x4(dst, w, groups, nb, q, d, bias, ahead)
		}
	}
}

// gemvQ4Row does as many rows as it can by four.
func gemvQ4Row(dst *float32, w *byte, rows, nb int, q *int8, d *float32, bias *int32, ahead int) {
	done := 0
	switch {
	case rows < 4:
	case useVNNI && nb%4 == 0:
		done = rows &^ 3
		gemvQ4RowQuadVNNI(dst, w, done, nb, q, d, bias, ahead)
	case nb%2 == 0:
		done = rows &^ 3
		gemvQ4RowQuadAVX2(dst, w, done, nb, q, d, bias, ahead)
	}
	if done == rows {
		return
	}
	dst = (*float32)(unsafe.Add(unsafe.Pointer(dst), done*4))
	w = (*byte)(unsafe.Add(unsafe.Pointer(w), done*nb*Q4Row.BlockBytes()))
	if useVNNI {
		gemvQ4RowVNNI(dst, w, rows-done, nb, q, d, bias, ahead)
	} else {
		gemvQ4RowAVX2(dst, w, rows-done, nb, q, d, bias, ahead)
	}
}

// gemvQ8x4 does groups of long rows by four, which share the activations, and the
// rest one by one.
func gemvQ8x4(dst *float32, w *byte, groups, nb int, q *int8, d *float32, bias *int32, ahead int) {
	done := 0
	if nb >= longBlocks && groups >= 4 {
		done = groups &^ 3
		gemvQ8x4QuadVNNI(dst, w, done, nb, q, d, bias, ahead)
	}
	if done < groups {
		dst = (*float32)(unsafe.Add(unsafe.Pointer(dst), done*Q8x4.Rows()*4))
		w = (*byte)(unsafe.Add(unsafe.Pointer(w), done*nb*Q8x4.GroupBytes()))
		gemvQ8x4VNNI(dst, w, groups-done, nb, q, d, bias, ahead)
	}
}

// gemvQ4x4 does as many groups as it can by four or by two, which share the
// activations, and the rest one by one.
func gemvQ4x4(dst *float32, w *byte, groups, nb int, q *int8, d *float32, bias *int32, ahead int) {
	size := nb * Q4x4.GroupBytes()
	done := 0
	switch {
	case useVNNI && nb <= pairBlocks && groups >= 2:
		done = groups &^ 1
		gemvQ4x4PairsVNNI(dst, w, done/2, nb, q, d, bias)
	case groups*size < quadBytes || groups < 4:
	case useVNNI:
		done = groups &^ 3
		gemvQ4x4QuadVNNI(dst, w, done, nb, q, d, bias, ahead)
	default:
		done = groups &^ 3
		gemvQ4x4QuadAVX2(dst, w, done, nb, q, d, bias, ahead)
	}
	if done == groups {
		return
	}
	dst = (*float32)(unsafe.Add(unsafe.Pointer(dst), done*Q4x4.Rows()*4))
	w = (*byte)(unsafe.Add(unsafe.Pointer(w), done*size))
	if useVNNI {
		gemvQ4x4VNNI(dst, w, groups-done, nb, q, d, bias, ahead)
	} else {
		gemvQ4x4AVX2(dst, w, groups-done, nb, q, d, bias, ahead)
	}
}

//go:noescape
func gemvQ8x8VNNI(dst *float32, w *byte, groups, nb int, q *int8, d *float32, bias *int32, ahead int)

//go:noescape
func gemvQ8x8AVX2(dst *float32, w *byte, groups, nb int, q *int8, d *float32, bias *int32, ahead int)

//go:noescape
func gemvQ8x4VNNI(dst *float32, w *byte, groups, nb int, q *int8, d *float32, bias *int32, ahead int)

//go:noescape
func gemvQ8x4QuadVNNI(dst *float32, w *byte, groups, nb int, q *int8, d *float32, bias *int32, ahead int)

//go:noescape
func gemvQ8x4AVX2(dst *float32, w *byte, groups, nb int, q *int8, d *float32, bias *int32, ahead int)

//go:noescape
func gemvQ8RowVNNI(dst *float32, w *byte, groups, nb int, q *int8, d *float32, bias *int32, ahead int)

//go:noescape
func gemvQ8RowAVX2(dst *float32, w *byte, groups, nb int, q *int8, d *float32, bias *int32, ahead int)

//go:noescape
func gemvQ4x4VNNI(dst *float32, w *byte, groups, nb int, q *int8, d *float32, bias *int32, ahead int)

//go:noescape
func gemvQ4x4AVX2(dst *float32, w *byte, groups, nb int, q *int8, d *float32, bias *int32, ahead int)

//go:noescape
func gemvQ4RowVNNI(dst *float32, w *byte, groups, nb int, q *int8, d *float32, bias *int32, ahead int)

//go:noescape
func gemvQ4RowAVX2(dst *float32, w *byte, groups, nb int, q *int8, d *float32, bias *int32, ahead int)

//go:noescape
func gemvQ4RowQuadVNNI(dst *float32, w *byte, rows, nb int, q *int8, d *float32, bias *int32, ahead int)

//go:noescape
func gemvQ4RowQuadAVX2(dst *float32, w *byte, rows, nb int, q *int8, d *float32, bias *int32, ahead int)

//go:noescape
func gemvQ4x4QuadVNNI(dst *float32, w *byte, groups, nb int, q *int8, d *float32, bias *int32, ahead int)

//go:noescape
func gemvQ4x4QuadAVX2(dst *float32, w *byte, groups, nb int, q *int8, d *float32, bias *int32, ahead int)

//go:noescape
func gemvQ4x4PairsVNNI(dst *float32, w *byte, pairs, nb int, q *int8, d *float32, bias *int32)
