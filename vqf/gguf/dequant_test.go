// SPDX-License-Identifier: Apache-2.0

package gguf_test

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"testing"

	"windhover/vqf/gguf"
)

var readable = []gguf.Type{
	gguf.F32, gguf.F16, gguf.BF16, gguf.Q4_0, gguf.Q4_1, gguf.Q5_0, gguf.Q5_1, gguf.Q8_0,
	gguf.Q2K, gguf.Q3K, gguf.Q4K, gguf.Q5K, gguf.Q6K, gguf.Q8K,
}

// The vectors hold random codes with scales of every finite kind, decoded by
// ggml's C code and by gguf-py, which agree in every bit.
func TestDequantizeVectors(t *testing.T) {
	for _, typ := range readable {
		if typ == gguf.F32 {
			continue // the identity, see TestDequantizeF32
		}
		t.Run(typ.String(), func(t *testing.T) {
			src := readFile(t, "testdata/blocks/"+typ.String()+".blocks.bin")
			want := readFile(t, "testdata/blocks/"+typ.String()+".f32.bin")
			dst := make([]float32, len(want)/4)
			if err := gguf.Dequantize(dst, src, typ); err != nil {
				t.Fatal(err)
			}
			bad := 0
			for i, got := range dst {
				if w := binary.LittleEndian.Uint32(want[4*i:]); math.Float32bits(got) != w && bad < 5 {
					t.Errorf("value %d: got %08x (%v), want %08x (%v)", i, math.Float32bits(got), got, w, math.Float32frombits(w))
					bad++
				}
			}
		})
	}
}

func TestDequantizeF32(t *testing.T) {
	src := []byte{0, 0, 0x80, 0x3f, 1, 0, 0xc0, 0x7f}
	dst := make([]float32, 2)
	if err := gguf.Dequantize(dst, src, gguf.F32); err != nil {
		t.Fatal(err)
	}
	if got, want := math.Float32bits(dst[1]), uint32(0x7fc00001); dst[0] != 1 || got != want {
		t.Errorf("got %v %08x, want 1 %08x", dst[0], got, want)
	}
}

// Every one of the 65,536 halves widens to the value its fields say.
func TestHalfExhaustive(t *testing.T) {
	src := make([]byte, 2)
	dst := make([]float32, 1)
	for h := range 1 << 16 {
		binary.LittleEndian.PutUint16(src, uint16(h))
		if err := gguf.Dequantize(dst, src, gguf.F16); err != nil {
			t.Fatal(err)
		}
		e, m := h>>10&31, float64(h&0x3ff)
		want := math.Ldexp(m, -24)
		switch {
		case e == 31 && m != 0:
			if !math.IsNaN(float64(dst[0])) {
				t.Fatalf("%04x: got %v, want NaN", h, dst[0])
			}
			continue
		case e == 31:
			want = math.Inf(1)
		case e > 0:
			want = math.Ldexp(1024+m, e-25)
		}
		if h&0x8000 != 0 {
			want = math.Copysign(want, -1)
		}
		if got := float64(dst[0]); got != want || math.Signbit(got) != math.Signbit(want) {
			t.Fatalf("%04x: got %v, want %v", h, got, want)
		}
	}
}

func TestDequantizeRefuses(t *testing.T) {
	for _, c := range []struct {
		name        string
		typ         gguf.Type
		values, src int
	}{
		{"known type", 20, 32, 18}, // IQ4_NL
		{"unknown type", 99, 32, 32},
		{"half a block", gguf.Q4_0, 16, 18},
		{"short source", gguf.Q4K, 256, 143},
		{"long source", gguf.Q8K, 256, 324},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := gguf.Dequantize(make([]float32, c.values), make([]byte, c.src), c.typ); err == nil {
				t.Error("got nil, want an error")
			}
		})
	}
}

func TestTypeSizes(t *testing.T) {
	for _, typ := range readable {
		if n, b := typ.Block(); !typ.Readable() || n == 0 || b == 0 {
			t.Errorf("%s: readable %v, block %d values %d bytes", typ, typ.Readable(), n, b)
		}
	}
	if n, b := gguf.Q8K.Block(); n != 256 || b != 292 {
		t.Errorf("Q8_K: got %d values in %d bytes, want 256 in 292", n, b)
	}
	if gguf.Type(39).Readable() || gguf.Type(39).String() != "MXFP4" {
		t.Errorf("type 39: got %s, readable %v", gguf.Type(39), gguf.Type(39).Readable())
	}
	if got := gguf.Type(1234).String(); got != "type 1234" {
		t.Errorf("got %q", got)
	}
}

func BenchmarkDequantize(b *testing.B) {
	for _, typ := range readable {
		b.Run(typ.String(), func(b *testing.B) {
			n, size := typ.Block()
			blocks := 1 << 16 / n
			src := make([]byte, blocks*size)
			for i := range src {
				src[i] = byte(i * 31 % 97)
			}
			dst := make([]float32, blocks*n)
			b.SetBytes(int64(len(dst) * 4))
			for b.Loop() {
				if err := gguf.Dequantize(dst, src, typ); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func readFile(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.FromSlash(name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}
