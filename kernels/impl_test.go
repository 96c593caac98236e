// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// eachImplementation runs f under every selection this CPU allows: all
// features, then one less each time, down to generic. Tests under it are not
// parallel, and make their Acts inside f.
func eachImplementation(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	saved := make([]bool, len(features))
	for i, ft := range features {
		saved[i] = *ft.use
	}
	defer func() {
		for i, ft := range features {
			*ft.use = saved[i]
		}
	}()
	ran := false
	for i, ft := range features {
		if ft.has && saved[i] {
			t.Run(ft.name, f)
			ran = true
		}
		*ft.use = false
	}
	t.Run(generic, f)
	if !ran && len(implementations) > 0 {
		t.Log("only generic is selectable here")
	}
}

// guarded returns n zero elements that end right before, or with low start
// right behind, a page that cannot be touched: a read or write outside of them
// is a fault.
func guarded[T any](t testing.TB, n int, low bool) []T {
	t.Helper()
	var zero T
	size := n * int(unsafe.Sizeof(zero))
	page := unix.Getpagesize()
	inner := (size + page - 1) / page * page
	m, err := unix.Mmap(-1, 0, inner+2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(m) })
	for _, p := range [][]byte{m[:page], m[page+inner:]} {
		if err := unix.Mprotect(p, unix.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	if n == 0 {
		return nil
	}
	start := page
	if !low {
		start = page + inner - size
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&m[start])), n)
}

// guardedCopy is guarded with the elements of src.
func guardedCopy[T any](t testing.TB, src []T, low bool) []T {
	g := guarded[T](t, len(src), low)
	copy(g, src)
	return g
}

// sameBits compares floats bit for bit; a NaN equals any NaN.
func sameBits(t *testing.T, what string, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d values, want %d", what, len(got), len(want))
	}
	bad := 0
	for i := range got {
		g, w := math.Float32bits(got[i]), math.Float32bits(want[i])
		if g != w && !(got[i] != got[i] && want[i] != want[i]) {
			t.Errorf("%s: [%d] = %g (%08x), want %g (%08x)", what, i, got[i], g, want[i], w)
			if bad++; bad == 4 {
				t.FailNow()
			}
		}
	}
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0x77696e64)) }

// bell is a value around 0, at most 3, from additions only: the same on every
// machine.
func bell(r *rand.Rand) float32 {
	return r.Float32() + r.Float32() + r.Float32() - r.Float32() - r.Float32() - r.Float32()
}

// floatKinds name the ways randFloats fills.
var floatKinds = []string{"normal", "wide", "special"}

// randFloats gives n values: "normal" ones around 1, "wide" over many
// exponents with zeros of both signs, "special" with subnormals, infinities and
// NaN among them.
func randFloats(r *rand.Rand, n int, kind string) []float32 {
	special := []float32{
		0, float32(math.Copysign(0, -1)), 1, -1, 0x1p-149, -0x1p-149, 0x1p-126, -0x1.8p-127,
		math.MaxFloat32, -math.MaxFloat32, float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()),
		65504, 65520, 0x1p-14, 0x1p-24, 0x1p-25, 88.3, 88.4, -87.3, -87.4, 0.5, 127.5,
	}
	x := make([]float32, n)
	for i := range x {
		x[i] = bell(r)
		switch kind {
		case "wide":
			x[i] = float32(math.Ldexp(float64(x[i]), r.IntN(40)-20))
			if r.IntN(16) == 0 {
				x[i] = float32(math.Copysign(0, float64(x[i])))
			}
		case "special":
			if r.IntN(4) == 0 {
				x[i] = special[r.IntN(len(special))]
			}
		}
	}
	return x
}

// randF16 gives n finite halves, subnormals and zeros among them.
func randF16(r *rand.Rand, n int) []uint16 {
	h := make([]uint16, n)
	for i := range h {
		switch r.IntN(8) {
		case 0:
			h[i] = uint16(r.IntN(2))<<15 | uint16(r.IntN(0x400))
		case 1:
			h[i] = uint16(r.IntN(0x10000)) &^ 0x4000
		default:
			h[i] = F32ToF16(bell(r))
		}
	}
	return h
}

// weightKinds name the ways randMatrix fills.
var weightKinds = []string{"quantised", "random", "extreme"}

// randBlocks gives row-major blocks, q8 or q4: "quantised" from floats,
// "random" any code byte (q8: -128 too) under any finite scale, "extreme" the
// largest codes of either sign with subnormal, zero and negative scales.
func randBlocks(r *rand.Rand, blocks int, q8 bool, kind string) []byte {
	size := Q4BlockBytes
	if q8 {
		size = Q8BlockBytes
	}
	b := make([]byte, blocks*size)
	if kind == "quantised" {
		x := randFloats(r, blocks*BlockLen, "normal")
		if q8 {
			QuantizeQ8(b, x)
		} else {
			QuantizeQ4(b, x)
		}
		return b
	}
	scales := []uint16{0x0000, 0x8000, 0x0001, 0x03FF, 0x8001, 0x0400, 0x3C00, 0xB800, 0x7BFF}
	codes := []byte{0x80, 0x7F, 0x81, 0xFF, 0x00, 0x08, 0x88, 0xF0}
	for i := range blocks {
		blk := b[i*size:][:size]
		d := uint16(r.IntN(0x10000)) &^ 0x4000
		if kind == "extreme" {
			d = scales[r.IntN(len(scales))]
		}
		blk[0], blk[1] = byte(d), byte(d>>8)
		same := codes[r.IntN(len(codes))]
		for j := 2; j < size; j++ {
			blk[j] = byte(r.IntN(256))
			if kind == "extreme" {
				blk[j] = same
				if r.IntN(4) == 0 {
					blk[j] = codes[r.IntN(len(codes))]
				}
			}
		}
	}
	return b
}

// arrange puts row-major blocks into layout l.
func arrange(t testing.TB, row []byte, rows, cols int, l Layout) Matrix {
	t.Helper()
	data := make([]byte, len(row))
	Repack(data, row, rows, cols, l)
	m, err := NewMatrix(data, rows, cols, l)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

var layouts = []Layout{Q8Row, Q8x4, Q8x8, Q4Row, Q4x4}

// lengths straddle every vector width, 0 to 4 widths of 16 and beyond.
func lengths() []int {
	var n []int
	for i := range 68 {
		n = append(n, i)
	}
	return append(n, 95, 96, 97, 127, 128, 129, 255, 256, 257, 576, 1000, 1536)
}

func TestSelection(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		for _, im := range implementations {
			found := false
			for _, op := range operations {
				found = found || op == im.op
			}
			if !found {
				t.Errorf("implementation of unknown operation %q", im.op)
			}
		}
		for _, s := range Selected() {
			t.Logf("%-18s %s", s.Op, s.Impl)
		}
	})
}

// TestDisableRequire goes through the environment's two variables.
func TestDisableRequire(t *testing.T) {
	saved := make([]bool, len(features))
	for i, f := range features {
		saved[i] = *f.use
	}
	t.Cleanup(func() {
		for i, f := range features {
			*f.use = saved[i]
		}
	})
	if err := selectFeatures("", ""); err != nil {
		t.Fatal(err)
	}
	for _, f := range features {
		if err := selectFeatures("", f.name); (err == nil) != f.has {
			t.Errorf("require %s: error %v, has %v", f.name, err, f.has)
		}
		if err := selectFeatures("x, "+f.name, ""); err != nil {
			t.Error(err)
		}
		below := false
		for _, g := range features {
			if g.name == f.name {
				below = true
				if *g.use {
					t.Errorf("%s is in use, though disabled", g.name)
				}
			} else if !below && *g.use {
				t.Errorf("disable %s leaves %s, which needs it", f.name, g.name)
			}
		}
		if err := selectFeatures(f.name, f.name); err == nil {
			t.Errorf("disable and require %s: no error", f.name)
		}
	}
	all := ""
	for _, f := range features {
		all += f.name + ","
	}
	if err := selectFeatures(all, generic); err != nil {
		t.Error(err)
	}
	if err := selectFeatures("", "sse17"); err == nil {
		t.Error("require of an unknown feature: no error")
	}
}

func ExampleLayout() {
	fmt.Println(Q8x8, Q8x8.Rows(), Q8x8.GroupBytes())
	// Output: q8 8x8 8 272
}

func abs32(x float32) float32 { return math.Float32frombits(math.Float32bits(x) &^ (1 << 31)) }
