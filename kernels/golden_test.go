// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"testing"
)

// The blocks in testdata were made by ggml's reference code: NAME.blocks.bin are
// raw blocks, NAME.f32.bin their values; quantise_NAME.bin and float_NAME.bin
// are what quantise_input and float_input become.

func readGolden(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func readFloats(t *testing.T, name string) []float32 {
	b := readGolden(t, name)
	x := make([]float32, len(b)/4)
	for i := range x {
		x[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return x
}

func readHalves(t *testing.T, name string) []uint16 {
	b := readGolden(t, name)
	h := make([]uint16, len(b)/2)
	for i := range h {
		h[i] = binary.LittleEndian.Uint16(b[2*i:])
	}
	return h
}

// TestGoldenQuantise: byte for byte, but where our format says otherwise: in Q4
// an all-zero block has the scale 1, and in Q8 the floor of 1e-10 for the scale
// changes the codes of blocks below 1.27e-8, whose stored scale is 0 both ways.
func TestGoldenQuantise(t *testing.T) {
	in := readFloats(t, "quantise_input.f32.bin")
	for _, c := range []struct {
		file     string
		quantize func([]byte, []float32)
		l        Layout
	}{
		{"quantise_Q8_0.bin", QuantizeQ8, Q8Row},
		{"quantise_Q4_0.bin", QuantizeQ4, Q4Row},
	} {
		want := readGolden(t, c.file)
		got := make([]byte, len(want))
		c.quantize(got, in)
		size := c.l.BlockBytes()
		equal := 0
		for b := range len(want) / size {
			g, w := got[b*size:][:size], want[b*size:][:size]
			var m float32
			for _, v := range in[b*BlockLen:][:BlockLen] {
				m = max(m, abs32(v))
			}
			switch {
			case !c.l.Q8() && m == 0:
				w = append([]byte{0x00, 0x3c}, w[2:]...)
			case c.l.Q8() && m > 0 && m < 1.27e-8:
				g, w = g[:2], w[:2]
			default:
				equal++
			}
			if !bytes.Equal(g, w) {
				t.Errorf("%s block %d:\n got % x\nwant % x", c.file, b, g, w)
			}
		}
		if equal < 180 {
			t.Errorf("%s: only %d blocks compared in full", c.file, equal)
		}
	}
}

func TestGoldenDequantise(t *testing.T) {
	for _, c := range []struct {
		name    string
		layouts []Layout
	}{
		{"Q8_0", []Layout{Q8Row, Q8x4, Q8x8}},
		{"Q4_0", []Layout{Q4Row, Q4x4}},
	} {
		blocks := readGolden(t, c.name+".blocks.bin")
		want := readFloats(t, c.name+".f32.bin")
		const rows = 8
		cols := len(want) / rows
		for _, l := range c.layouts {
			m := arrange(t, blocks, rows, cols, l)
			got := make([]float32, len(want))
			for r := range rows {
				m.DequantizeRow(got[r*cols:][:cols], r)
			}
			sameBits(t, l.String(), got, want)
		}
	}
}

func TestGoldenHalves(t *testing.T) {
	in := readFloats(t, "float_input.f32.bin")
	want := readHalves(t, "float_F16.bin")
	got := make([]uint16, len(in))
	F32ToF16Slice(got, in)
	for i, h := range got {
		if h != want[i] {
			t.Errorf("%g becomes %04x, want %04x", in[i], h, want[i])
		}
	}
	h := readHalves(t, "F16.blocks.bin")
	x := make([]float32, len(h))
	F16ToF32Slice(x, h)
	sameBits(t, "F16", x, readFloats(t, "F16.f32.bin"))
}

// TestRequantise: what ggml made is reproduced bit for bit from its values
// (docs/FORMAT.md section 7.8), blocks with a scale of zero aside: their values
// are all zero.
func TestRequantise(t *testing.T) {
	for _, c := range []struct {
		file     string
		quantize func([]byte, []float32)
		l        Layout
	}{
		{"quantise_Q8_0.bin", QuantizeQ8, Q8Row},
		{"quantise_Q4_0.bin", QuantizeQ4, Q4Row},
	} {
		want := readGolden(t, c.file)
		m, err := NewMatrix(want, 1, len(want)/c.l.BlockBytes()*BlockLen, c.l)
		if err != nil {
			t.Fatal(err)
		}
		x := make([]float32, m.Cols)
		m.DequantizeRow(x, 0)
		got := make([]byte, len(want))
		c.quantize(got, x)
		for i := 0; i < len(want); i += c.l.BlockBytes() {
			g, w := got[i:][:c.l.BlockBytes()], want[i:][:c.l.BlockBytes()]
			if zero := w[0] == 0 && w[1]&0x7F == 0; !zero && !bytes.Equal(g, w) {
				t.Errorf("%s block %d (first value %g):\n got % x\nwant % x", c.file, i/c.l.BlockBytes(), x[i/c.l.BlockBytes()*BlockLen], g, w)
			}
		}
	}
}

func TestRepackRoundTrip(t *testing.T) {
	r := newRand(21)
	for _, l := range layouts {
		for _, groups := range []int{1, 2, 5} {
			for _, nb := range []int{1, 3, 8} {
				rows, cols := groups*l.Rows(), nb*BlockLen
				src := randBlocks(r, rows*nb, l.Q8(), "random")
				packed, back := make([]byte, len(src)), make([]byte, len(src))
				Repack(packed, src, rows, cols, l)
				Unpack(back, packed, rows, cols, l)
				if !bytes.Equal(back, src) {
					t.Errorf("%v %dx%d: Unpack does not invert Repack", l, rows, cols)
				}
				pieces := make([]byte, len(src))
				size := l.GroupBytes() * nb
				for g := range groups {
					Repack(pieces[g*size:][:size], src[g*size:][:size], l.Rows(), cols, l)
				}
				if !bytes.Equal(pieces, packed) {
					t.Errorf("%v %dx%d: group by group differs from all at once", l, rows, cols)
				}
			}
		}
	}
}

func TestNewMatrixErrors(t *testing.T) {
	for _, c := range []struct {
		name       string
		size       int
		rows, cols int
		l          Layout
	}{
		{"short", 271, 8, 32, Q8x8},
		{"long", 273, 8, 32, Q8x8},
		{"columns", 0, 8, 33, Q8x8},
		{"rows", 0, 4, 32, Q8x8},
		{"rows of four", 0, 6, 32, Q4x4},
		{"layout 0", 0, 0, 0, 0},
		{"layout 9", 0, 0, 0, 9},
		{"negative", 0, -8, 32, Q8x8},
		{"negative columns", 0, 8, -32, Q8x8},
		{"overflow", 0, math.MaxInt, math.MaxInt &^ 31, Q8Row},
	} {
		if m, err := NewMatrix(make([]byte, c.size), c.rows, c.cols, c.l); err == nil {
			t.Errorf("%s: %+v, want an error", c.name, m)
		}
	}
}
