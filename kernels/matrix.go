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
	// Pitch is how many bytes behind the one before a row group begins: more than
	// its own in a window of a matrix's columns, see Part. 0: they follow each other.
	Pitch int
}

// NewMatrix checks once that data is a rows x cols matrix in layout l: cols a
// multiple of 32, rows of the layout's group height, data exactly the size.
func NewMatrix(data []byte, rows, cols int, l Layout) (Matrix, error) {
	if err := checkShape(len(data), rows, cols, l); err != nil {
		return Matrix{}, fmt.Errorf("kernels: matrix: %w", err)
	}
	return Matrix{Data: data, Rows: rows, Cols: cols, Layout: l}, nil
}

// Part is the matrix of rows row0 to row1-1 and columns col0 to col1-1 of m, whose
// bytes it shares: rows by whole row groups, columns by whole blocks, at least one
// of each. Products with it have the bits of the same rows and columns copied out.
func (m *Matrix) Part(row0, row1, col0, col1 int) Matrix {
	h, group := m.Layout.Rows(), m.Layout.GroupBytes()
	if row0 < 0 || row0 >= row1 || row1 > m.Rows || row0%h != 0 || row1%h != 0 ||
		col0 < 0 || col0 >= col1 || col1 > m.Cols || col0%BlockLen != 0 || col1%BlockLen != 0 {
		panic(fmt.Sprintf("kernels: Part: rows %d to %d, columns %d to %d of %d x %d (%v)", row0, row1, col0, col1, m.Rows, m.Cols, m.Layout))
	}
	p := Matrix{Rows: row1 - row0, Cols: col1 - col0, Layout: m.Layout}
	width := p.Cols / BlockLen * group
	if pitch := m.pitch(); pitch != width {
		p.Pitch = pitch
	}
	from := row0/h*m.pitch() + col0/BlockLen*group
	n := (p.Rows/h-1)*m.pitch() + width
	p.Data = m.Data[from:][:n:n]
	return p
}

// CopyRows copies rows row0 to row1-1, whole row groups, to where they are in a matrix
// of m's shape whose row groups follow each other: dst, of which nothing else
// changes.
func (m *Matrix) CopyRows(dst []byte, row0, row1 int) {
	h := m.Layout.Rows()
	width := m.Cols / BlockLen * m.Layout.GroupBytes()
	if row0 < 0 || row0 > row1 || row1 > m.Rows || row0%h != 0 || row1%h != 0 || len(dst) != m.Rows/h*width {
		panic(fmt.Sprintf("kernels: CopyRows: rows %d to %d of %d x %d (%v) into %d bytes", row0, row1, m.Rows, m.Cols, m.Layout, len(dst)))
	}
	for g := row0 / h; g < row1/h; g++ {
		prefetch(m.Data, (g+copyAhead)*m.pitch(), width)
		copy(dst[g*width:][:width], m.Data[g*m.pitch():])
	}
}

// copyAhead is how many row groups before its turn CopyRows prefetches one.
const copyAhead = 4

// pitch is how many bytes a row group begins behind the one before.
func (m *Matrix) pitch() int {
	if m.Pitch > 0 {
		return m.Pitch
	}
	return m.Cols / BlockLen * m.Layout.GroupBytes()
}

// DequantizeRow writes the Cols values of a row: scale times code, each one
// rounded float32 product.
func (m *Matrix) DequantizeRow(dst []float32, row int) {
	if row < 0 || row >= m.Rows || len(dst) != m.Cols {
		panic(fmt.Sprintf("kernels: DequantizeRow: row %d of %d into %d values, want %d", row, m.Rows, len(dst), m.Cols))
	}
	h, group := m.Layout.Rows(), m.Layout.GroupBytes()
	r := row % h
	for b := range m.Cols / BlockLen {
		tile := m.Data[row/h*m.pitch()+b*group:][:group]
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
