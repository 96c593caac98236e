// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package kernels

func matMul(dst []float32, ldd int, m *Matrix, a *Acts, row0, row1 int) {
	switch nb := m.Cols / BlockLen; {
	case !useAVX2 || nb == 0:
		matMulGeneric(dst, ldd, m, a, row0, row1)
	case a.Tokens > 1:
		gemm(dst, ldd, m, a, row0, row1)
	default:
		h := m.Layout.Rows()
		gemv(m.Layout, &dst[row0], &m.Data[row0*nb*m.Layout.BlockBytes()], (row1-row0)/h, nb, &a.Q[0], &a.D[0], &a.Sum[0])
	}
}

// gemv does groups row groups from w on, for one token.
func gemv(l Layout, dst *float32, w *byte, groups, nb int, q *int8, d *float32, sum *int32) {
	switch {
	case useVNNI:
		switch l {
		case Q8Row:
			gemvQ8RowVNNI(dst, w, groups, nb, q, d, sum)
		case Q8x4:
			gemvQ8x4VNNI(dst, w, groups, nb, q, d, sum)
		case Q8x8:
			gemvQ8x8VNNI(dst, w, groups, nb, q, d, sum)
		case Q4Row:
			gemvQ4RowVNNI(dst, w, groups, nb, q, d, sum)
		case Q4x4:
			gemvQ4x4VNNI(dst, w, groups, nb, q, d, sum)
		}
	default:
		switch l {
		case Q8Row:
			gemvQ8RowAVX2(dst, w, groups, nb, q, d, sum)
		case Q8x4:
			gemvQ8x4AVX2(dst, w, groups, nb, q, d, sum)
		case Q8x8:
			gemvQ8x8AVX2(dst, w, groups, nb, q, d, sum)
		case Q4Row:
			gemvQ4RowAVX2(dst, w, groups, nb, q, d, sum)
		case Q4x4:
			gemvQ4x4AVX2(dst, w, groups, nb, q, d, sum)
		}
	}
}

//go:noescape
func gemvQ8x8VNNI(dst *float32, w *byte, groups, nb int, q *int8, d *float32, sum *int32)

//go:noescape
func gemvQ8x8AVX2(dst *float32, w *byte, groups, nb int, q *int8, d *float32, sum *int32)

//go:noescape
func gemvQ8x4VNNI(dst *float32, w *byte, groups, nb int, q *int8, d *float32, sum *int32)

//go:noescape
func gemvQ8x4AVX2(dst *float32, w *byte, groups, nb int, q *int8, d *float32, sum *int32)

//go:noescape
func gemvQ8RowVNNI(dst *float32, w *byte, groups, nb int, q *int8, d *float32, sum *int32)

//go:noescape
func gemvQ8RowAVX2(dst *float32, w *byte, groups, nb int, q *int8, d *float32, sum *int32)

//go:noescape
func gemvQ4x4VNNI(dst *float32, w *byte, groups, nb int, q *int8, d *float32, sum *int32)

//go:noescape
func gemvQ4x4AVX2(dst *float32, w *byte, groups, nb int, q *int8, d *float32, sum *int32)

//go:noescape
func gemvQ4RowVNNI(dst *float32, w *byte, groups, nb int, q *int8, d *float32, sum *int32)

//go:noescape
func gemvQ4RowAVX2(dst *float32, w *byte, groups, nb int, q *int8, d *float32, sum *int32)
