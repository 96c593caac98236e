// SPDX-License-Identifier: Apache-2.0

package kernels

import "encoding/binary"

// matMulGeneric defines MatMul. The arguments have been checked.
func matMulGeneric(dst []float32, ldd int, m *Matrix, a *Acts, row0, row1 int) {
	h, size := m.Layout.Rows(), m.Layout.GroupBytes()
	nb := m.Cols / BlockLen
	for r := row0; r < row1; r += h {
		group := m.Data[r/h*m.pitch():][:nb*size]
		for t := range a.Tokens {
			q := a.Q[t*a.Cols:][:a.Cols]
			d := a.D[t*nb:][:nb]
			var acc [8]float32
			for b := range nb {
				tile := group[b*size:][:size]
				s := tileDot(tile[2*h:], (*[BlockLen]int8)(q[b*BlockLen:]), m.Layout)
				for i := range h {
					dw := F16ToF32(binary.LittleEndian.Uint16(tile[2*i:]))
					t := float32(dw * d[b])
					p := float32(t * float32(s[i]))
					acc[i] += p
				}
			}
			copy(dst[t*ldd+r:][:h], acc[:h])
		}
	}
}

// tileDot is the integer dot product of each row of a group-block with x.
func tileDot(codes []byte, x *[BlockLen]int8, l Layout) (s [8]int32) {
	h := l.Rows()
	for k := 0; k < len(codes); k += 4 * h {
		j := k / h
		for i := range h {
			c := codes[k+4*i:][:4]
			if l.Q8() {
				s[i] += int32(int8(c[0]))*int32(x[j]) + int32(int8(c[1]))*int32(x[j+1]) +
					int32(int8(c[2]))*int32(x[j+2]) + int32(int8(c[3]))*int32(x[j+3])
				continue
			}
			for n := range 4 {
				lo, hi := q4Nibbles(c[n], l)
				s[i] += int32(lo)*int32(x[j+n]) + int32(hi)*int32(x[j+n+16])
			}
		}
	}
	return s
}
