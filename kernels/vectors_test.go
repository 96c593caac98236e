// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"bytes"
	"encoding/hex"
	"hash/fnv"
	"math"
	"strings"
	"testing"
)

// The vectors of docs/FORMAT.md section 17.

func TestF16Vectors(t *testing.T) {
	for _, c := range []struct {
		in         float32
		rne, trunc uint16
	}{
		{0.1, 0x2e66, 0x2e66},
		{65520, 0x7c00, 0x7bff},
		{1e-5, 0x00a8, 0x0000},
		{0x1p-14, 0x0400, 0x0400},
		{0x1p-14 * (1 - 0x1p-11), 0x0400, 0x0000},
		{0x1p-24, 0x0001, 0x0000},
		{0x1p-25, 0x0000, 0x0000},
		{float32(math.NaN()), 0x7e00, 0x7c00},
		{float32(math.Inf(-1)), 0xfc00, 0xfc00},
		{-1e-9, 0x8000, 0x8000},
		{0x1.000002p-25, 0x0001, 0x0000},
		{65519.996, 0x7bff, 0x7bff},
	} {
		if got := F32ToF16(c.in); got != c.rne {
			t.Errorf("F32ToF16(%g) = %04x, want %04x", c.in, got, c.rne)
		}
		if got := F32ToF16Trunc(c.in); got != c.trunc {
			t.Errorf("F32ToF16Trunc(%g) = %04x, want %04x", c.in, got, c.trunc)
		}
	}
}

func TestBlockVectors(t *testing.T) {
	a := make([]float32, 32)
	for i := range a {
		a[i] = float32(i-15) / 4
	}
	zero := make([]float32, 32)
	for _, c := range []struct {
		name     string
		quantize func([]byte, []float32)
		in       []float32
		want     string
	}{
		{"q8 A", QuantizeQ8, a, "08 28 89 91 99 a1 a9 b1 b9 c0 c8 d0 d8 e0 e8 f0 f8 00 08 10 18 20 28 30 38 40 47 4f 57 5f 67 6f 77 7f"},
		{"q4 A", QuantizeQ4, a, "00 b8 8f 7f 7f 6e 6e 5d 5d 4c 4c 3b 3b 2a 2a 19 19 08"},
		{"q4i A", QuantizeQ4I, a, "00 b8 07 07 07 06 06 05 05 04 04 03 03 02 02 01 01 00 00 ff ff fe fe fd fd fc fc fb fb fa fa f9 f9 f8"},
		{"q8 zero", QuantizeQ8, zero, strings.Repeat("00 ", 34)},
		{"q4 zero", QuantizeQ4, zero, "00 3c " + strings.Repeat("88 ", 16)},
		{"q4i zero", QuantizeQ4I, zero, "00 3c " + strings.Repeat("00 ", 32)},
	} {
		want := unhex(t, c.want)
		got := make([]byte, len(want))
		c.quantize(got, c.in)
		if !bytes.Equal(got, want) {
			t.Errorf("%s:\n got % x\nwant % x", c.name, got, want)
		}
	}
}

func TestRepackVectors(t *testing.T) {
	rows := func(n, size int) []byte {
		var b []byte
		for r := range n {
			b = append(b, byte(0xa0+r), byte(0xb0+r))
			for j := range size - 2 {
				b = append(b, byte((size-2)*r+j))
			}
		}
		return b
	}
	for _, c := range []struct {
		l     Layout
		first string
	}{
		{Q4x4, "a0 b0 a1 b1 a2 b2 a3 b3 88 89 8a 8b 98 99 9a 9b a8 a9 aa ab b8 b9 ba bb 8c 8d 8e 8f 9c 9d 9e 9f"},
		{Q8x8, "a0 b0 a1 b1 a2 b2 a3 b3 a4 b4 a5 b5 a6 b6 a7 b7 00 01 02 03 20 21 22 23 40 41 42 43 60 61 62 63 80 81 82 83 a0 a1 a2 a3 c0 c1 c2 c3 e0 e1 e2 e3 04 05 06 07"},
		{Q8x4, "a0 b0 a1 b1 a2 b2 a3 b3 00 01 02 03 20 21 22 23 40 41 42 43 60 61 62 63 04 05 06 07"},
	} {
		src := rows(c.l.Rows(), c.l.BlockBytes())
		dst := make([]byte, len(src))
		Repack(dst, src, c.l.Rows(), BlockLen, c.l)
		if want := unhex(t, c.first); !bytes.HasPrefix(dst, want) {
			t.Errorf("%v:\n got % x\nwant % x", c.l, dst[:len(want)], want)
		}
		back := make([]byte, len(src))
		Unpack(back, dst, c.l.Rows(), BlockLen, c.l)
		if !bytes.Equal(back, src) {
			t.Errorf("%v: Unpack does not invert Repack", c.l)
		}
	}
}

func TestRepackX8Vector(t *testing.T) {
	var src []byte
	for r := range 8 {
		src = append(src, byte(0xa0+r), byte(0xb0+r))
		for j := range 16 {
			src = append(src, byte(16*r+j))
		}
	}
	dst := make([]byte, len(src))
	RepackQ4X8(dst, src, 8, BlockLen)
	want := unhex(t, "a0 b0 a1 b1 a2 b2 a3 b3 a4 b4 a5 b5 a6 b6 a7 b7 88 89 8a 8b 8c 8d 8e 8f 98 99 9a 9b 9c 9d 9e 9f a8")
	if !bytes.HasPrefix(dst, want) {
		t.Errorf("got % x\nwant % x", dst[:len(want)], want)
	}
}

// largeMatrix is the recipe of section 17.4: 96 x 4096.
func largeMatrix() (x []float32, rows, cols int) {
	rows, cols = 96, 4096
	x = make([]float32, rows*cols)
	s := uint32(0x9E3779B9)
	for i := range x {
		s ^= s << 13
		s ^= s >> 17
		s ^= s << 5
		x[i] = float32(float32(float32(s>>8)/16777215)*2) - 1
	}
	clear(x[32*cols : 33*cols])
	clear(x[39*cols : 40*cols])
	for c := range cols {
		x[80*cols+c] = float32(c%7) - 1000
	}
	return x, rows, cols
}

func TestLargeMatrixVectors(t *testing.T) {
	x, rows, cols := largeMatrix()
	n := len(x) / BlockLen
	for _, c := range []struct {
		name     string
		quantize func([]byte, []float32)
		l        Layout
		want     uint64
	}{
		{"q8", QuantizeQ8, Q8Row, 0x1f98e05c86c6f599},
		{"q8 8x8", QuantizeQ8, Q8x8, 0x28db4b9bffa3d4f5},
		{"q8 4x4", QuantizeQ8, Q8x4, 0xbbaa69db9c30c7b5},
		{"q4", QuantizeQ4, Q4Row, 0x4a1990fc330e1021},
		{"q4 4x4", QuantizeQ4, Q4x4, 0x93bb0c8f1d22451d},
		{"q4i", QuantizeQ4I, Q8Row, 0xdfd04d097809fa81},
		{"g256", QuantizeG256, Q8Row, 0xfa2c4d8003a3c617},
	} {
		row := make([]byte, n*c.l.BlockBytes())
		c.quantize(row, x)
		dst := make([]byte, len(row))
		Repack(dst, row, rows, cols, c.l)
		h := fnv.New64a()
		h.Write(dst)
		if got := h.Sum64(); got != c.want {
			t.Errorf("%s: FNV %016x, want %016x", c.name, got, c.want)
		}
	}
	row := make([]byte, n*Q4BlockBytes)
	QuantizeQ4(row, x)
	dst := make([]byte, len(row))
	RepackQ4X8(dst, row, rows, cols)
	h := fnv.New64a()
	h.Write(dst)
	if got, want := h.Sum64(), uint64(0x6560558e1a44c3f9); got != want {
		t.Errorf("x8: FNV %016x, want %016x", got, want)
	}
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}
