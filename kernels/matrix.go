// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"encoding/binary"
	"fmt"
)

// Matrix is a weight matrix [Rows][Cols] of blocks. Data usually points into a
// mapped file; nothing here writes to it.
type Matrix struct {
	Data       []byte
	Rows, Cols int
	Layout     Layout
}

// NewMatrix checks once that data is a rows x cols matrix in layout l: cols a
// multiple of 32, rows of the layout's group height, data exactly the size.
func NewMatrix(data []byte, rows, cols int, l Layout) (Matrix, error) {
	if err := checkShape(len(data), rows, cols, l); err != nil {
		return Matrix{}, fmt.Errorf("kernels: matrix: %w", err)
	}
	return Matrix{Data: data, Rows: rows, Cols: cols, Layout: l}, nil
}

// DequantizeRow writes the Cols values of a row: scale times code, each one
// rounded float32 product.
func (m *Matrix) DequantizeRow(dst []float32, row int) {
	if row < 0 || row >= m.Rows || len(dst) != m.Cols {
		panic(fmt.Sprintf("kernels: DequantizeRow: row %d of %d into %d values, want %d", row, m.Rows, len(dst), m.Cols))
	}
	h, group := m.Layout.Rows(), m.Layout.GroupBytes()
	nb := m.Cols / BlockLen
	r := row % h
	for b := range nb {
		tile := m.Data[(row/h*nb+b)*group:][:group]
		d := F16ToF32(binary.LittleEndian.Uint16(tile[2*r:]))
		out := dst[b*BlockLen:][:BlockLen]
		codes := tile[2*h:]
		if m.Layout.Q8() {
			for i := range out {
				out[i] = d * float32(int8(codes[i/4*4*h+4*r+i%4]))
			}
			continue
		}
		for j := range 16 {
			lo, hi := q4Nibbles(codes[j/4*4*h+4*r+j%4], m.Layout)
			out[j] = d * float32(lo)
			out[j+16] = d * float32(hi)
		}
	}
}

// q4Nibbles splits a code byte into its two values, -8..7: biased in row-major
// blocks, two's complement in interleaved ones.
func q4Nibbles(c byte, l Layout) (lo, hi int8) {
	if l == Q4Row {
		return int8(c&15) - 8, int8(c>>4) - 8
	}
	return int8(c<<4) >> 4, int8(c) >> 4
}
