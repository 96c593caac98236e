// SPDX-License-Identifier: Apache-2.0

package safetensors_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"windhover/vqf/safetensors"
)

// image is a file of the given header text and n zero bytes of data.
func image(header string, n int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	b = append(b, header...)
	return append(b, make([]byte, n)...)
}

func open(b []byte) (*safetensors.File, error) {
	return safetensors.New(bytes.NewReader(b), int64(len(b)))
}

const two = `{"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[2,3],"data_offsets":[8,20]},` +
	`"a\u00e9":{"data_offsets":[0,8],"shape":[2],"dtype":"F32","later":[{"x":null}, true, -1.5e3, "s"]},` +
	` "empty" : { "dtype":"I64","shape":[4,0],"data_offsets":[20,20]},"scalar":{"dtype":"F16","shape":[],"data_offsets":[20,22]}}  ` + "\n"

func TestHeader(t *testing.T) {
	b := image(two, 22)
	data := b[8+len(two):]
	binary.LittleEndian.PutUint32(data[4:], math.Float32bits(-2.5))
	for i := range 6 {
		binary.LittleEndian.PutUint16(data[8+2*i:], uint16(math.Float32bits(float32(i))>>16))
	}
	binary.LittleEndian.PutUint16(data[20:], 0x0001)
	f, err := open(b)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, w := range f.Tensors() {
		names = append(names, w.Name)
	}
	if want := []string{"b", "aé", "empty", "scalar"}; !slices.Equal(names, want) {
		t.Errorf("names: got %q, want %q", names, want)
	}
	for _, c := range []struct {
		name string
		want []float32
	}{{"b", []float32{0, 1, 2, 3, 4, 5}}, {"aé", []float32{0, -2.5}}, {"scalar", []float32{0x1p-24}}} {
		w, ok := f.Tensor(c.name)
		if !ok {
			t.Fatalf("no tensor %q", c.name)
		}
		got := make([]float32, w.Values())
		if err := f.ReadFloats(got, w, 0); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, %v, want %v", c.name, got, err, c.want)
		}
	}
	w, _ := f.Tensor("b")
	part := make([]float32, 2)
	if err := f.ReadFloats(part, w, 3); err != nil || !slices.Equal(part, []float32{3, 4}) {
		t.Errorf("elements 3, 4: got %v, %v", part, err)
	}
	for _, first := range []uint64{5, 6, math.MaxUint64} {
		if err := f.ReadFloats(part, w, first); err == nil {
			t.Errorf("elements from %d: got nil, want an error", first)
		}
	}
	w, _ = f.Tensor("empty")
	if err := f.ReadFloats(nil, w, 0); !errors.Is(err, safetensors.ErrType) || !strings.Contains(err.Error(), `"empty"`) || !strings.Contains(err.Error(), "I64") {
		t.Errorf("I64: got %v, want ErrType naming tensor and type", err)
	}
}

// Every half widens to the value its fields say.
func TestHalfExhaustive(t *testing.T) {
	b := image(`{"h":{"dtype":"F16","shape":[65536],"data_offsets":[0,131072]}}`, 1<<17)
	for h := range 1 << 16 {
		binary.LittleEndian.PutUint16(b[len(b)-1<<17+2*h:], uint16(h))
	}
	f, err := open(b)
	if err != nil {
		t.Fatal(err)
	}
	w, _ := f.Tensor("h")
	got := make([]float32, 1<<16)
	if err := f.ReadFloats(got, w, 0); err != nil {
		t.Fatal(err)
	}
	for h, v := range got {
		e, m := h>>10&31, float64(h&0x3ff)
		want := math.Ldexp(m, -24)
		switch {
		case e == 31 && m != 0:
			if !math.IsNaN(float64(v)) {
				t.Fatalf("%04x: got %v, want NaN", h, v)
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
		if float64(v) != want || math.Signbit(float64(v)) != math.Signbit(want) {
			t.Fatalf("%04x: got %v, want %v", h, v, want)
		}
	}
}

func TestHostile(t *testing.T) {
	entry := func(dtype, shape, offsets string) string {
		return fmt.Sprintf(`{"w":{"dtype":%q,"shape":%s,"data_offsets":%s}}`, dtype, shape, offsets)
	}
	length := func(n uint64) []byte { return append(binary.LittleEndian.AppendUint64(nil, n), "{}      "...) }
	cases := []struct {
		name, want string
		b          []byte
	}{
		{"empty", "too few", nil},
		{"only a length", "too few", length(0)[:8]},
		{"absurd length", "header length", length(math.MaxUint64)},
		{"length wraps", "header length", length(math.MaxInt64)},
		{"over the limit", "limit", length(100_000_001)},
		{"past end", "header length", length(9)},
		{"not an object", "want '{'", image(`["w"]`, 0)},
		{"leading space", "want '{'", image(` {}`, 0)},
		{"ends early", "ends early", image(`{"w":{"dtype":"F32"`, 0)},
		{"text after", "after the end", image(`{}{}`, 0)},
		{"comma at end", `found '}'`, image(`{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},}`, 4)},
		{"duplicate tensor, the last counts", "hole", image(`{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"w":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`, 8)},
		{"duplicate by escape, the last counts", "hole", image(`{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"\u0077":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`, 8)},
		{"duplicate metadata", "duplicate", image(`{"__metadata__":{},"__metadata__":{}}`, 0)},
		{"metadata of numbers", "header", image(`{"__metadata__":{"a":1}}`, 0)},
		{"duplicate attribute", "twice", image(`{"w":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, 4)},
		{"no dtype", "no dtype", image(`{"w":{"shape":[1],"data_offsets":[0,4]}}`, 4)},
		{"no shape", "no shape", image(`{"w":{"dtype":"F32","data_offsets":[0,4]}}`, 4)},
		{"no offsets", "no data_offsets", image(`{"w":{"dtype":"F32","shape":[1]}}`, 4)},
		{"unknown dtype", `unknown dtype "F33"`, image(entry("F33", "[1]", "[0,4]"), 4)},
		{"negative", "non-negative", image(entry("F32", "[-1]", "[0,4]"), 4)},
		{"fraction", "no integer", image(entry("F32", "[1.0]", "[0,4]"), 4)},
		{"exponent", "no integer", image(entry("F32", "[1]", "[0,4e0]"), 4)},
		{"leading zero", "begins with 0", image(entry("F32", "[01]", "[0,4]"), 4)},
		{"long number", "over 64 bits", image(entry("F32", "[1000000000000000000000]", "[0,4]"), 4)},
		{"shape wraps", "too large", image(entry("F32", "[4294967296,4294967296]", "[0,0]"), 0)},
		{"shape wraps to fit", "too large", image(entry("F32", "[8589934592,2147483648,4]", "[0,0]"), 0)},
		{"half a surrogate pair", "surrogate", image(`{"\ud800":{}}`, 0)},
		{"wrong half of a pair", "surrogate", image(`{"\ud800\u0041":{}}`, 0)},
		{"offset wraps", "too large", image(entry("U8", "[18446744073709551615]", "[0,18446744073709551615]"), 0)},
		{"number out of range", "out of range", image(`{"w":{"x":1e999}}`, 0)},
		{"one offset", "begin and end", image(entry("F32", "[1]", "[4]"), 4)},
		{"three offsets", "over 2", image(entry("F32", "[1]", "[0,4,8]"), 8)},
		{"end before begin", "begin and end", image(entry("F32", "[1]", "[4,0]"), 4)},
		{"wrong byte count", "takes 32 bits", image(entry("F32", "[1]", "[0,8]"), 8)},
		{"half a byte", "takes 4 bits", image(entry("F4", "[1]", "[0,0]"), 0)},
		{"past end", "past the 4 bytes", image(entry("F32", "[2]", "[0,8]"), 4)},
		{"hole at front", "hole", image(entry("F32", "[1]", "[4,8]"), 8)},
		{"bytes after", "follow the last tensor", image(entry("F32", "[1]", "[0,4]"), 5)},
		{"data without tensors", "follow the last tensor", image(`{}`, 1)},
		{"overlap", "overlaps", image(`{"v":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"w":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}}`, 12)},
		{"hole between", "hole", image(`{"v":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"w":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}}`, 12)},
		{"control byte", "control byte", image("{\"a\x01\":{}}", 0)},
		{"no UTF-8", "UTF-8", image("{\"a\xff\":{}}", 0)},
		{"bad escape", "escape", image(`{"a\x":{}}`, 0)},
		{"long name", "string of over", image(`{"`+strings.Repeat("n", 2000)+`":{}}`, 0)},
		{"deep", "too deep", image(`{"w":{"x":`+strings.Repeat("[", 10000)+`}}`, 0)},
		{"malformed word", "malformed value", image(`{"w":{"x":nul,"dtype":"F32"}}`, 0)},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := time.Now()
			_, err := open(c.b)
			runtime.ReadMemStats(&after)
			if err == nil {
				t.Fatal("got nil, want an error")
			}
			if !errors.Is(err, safetensors.ErrFormat) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %q, want one line of ErrFormat naming %q", err, c.want)
			}
			if d := time.Since(start); d > time.Second {
				t.Errorf("took %v", d)
			}
			if n := after.TotalAlloc - before.TotalAlloc; n > 64<<20 {
				t.Errorf("allocated %d bytes", n)
			}
		})
	}
}

func TestTruncated(t *testing.T) {
	b := image(two, 22)
	for n := range b {
		if _, err := open(b[:n]); err == nil {
			t.Fatalf("a file of %d of %d bytes opened", n, len(b))
		}
	}
}

// A header of the largest legal length costs neither its size in memory nor
// more than a moment.
func TestLongHeader(t *testing.T) {
	path := filepath.Join(t.TempDir(), "long.safetensors")
	head := append(binary.LittleEndian.AppendUint64(nil, 100_000_000), `{"__metadata__":{"a":"`...)
	if err := os.WriteFile(path, append(head, bytes.Repeat([]byte("x"), 64<<20)...), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 200<<20); err != nil {
		t.Skipf("no sparse files here: %v", err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := safetensors.Open(path)
	runtime.ReadMemStats(&after)
	if !errors.Is(err, safetensors.ErrFormat) || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v, want ErrFormat naming the path", err)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
		t.Errorf("allocated %d bytes", n)
	}
}

func TestOpenNoFile(t *testing.T) {
	if _, err := safetensors.Open(t.TempDir()); err == nil {
		t.Error("a directory opened")
	}
	if _, err := safetensors.Open("absent.safetensors"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want os.ErrNotExist", err)
	}
}

// FuzzOpen: whatever the bytes, opening returns; what opens tiles its data.
func FuzzOpen(f *testing.F) {
	f.Add(image(two, 22))
	f.Add(image(`{}`, 0))
	f.Add(image(`{"w":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}}`, 0))
	f.Add(image(`{"w":{"dtype":"F4","shape":[2],"data_offsets":[0,1]}}`, 1))
	f.Add(binary.LittleEndian.AppendUint64(nil, math.MaxUint64))
	f.Fuzz(func(t *testing.T, b []byte) {
		g, err := open(b)
		if err != nil {
			return
		}
		sum := int64(0)
		for _, w := range g.Tensors() {
			if w.Offset < 8 || w.Bytes < 0 || w.Offset+w.Bytes > int64(len(b)) {
				t.Fatalf("tensor %q at %d+%d of %d bytes", w.Name, w.Offset, w.Bytes, len(b))
			}
			sum += w.Bytes
			if w.Values() > 1<<20 { // only sub-byte types and empty ones may
				continue
			}
			if err := g.ReadFloats(make([]float32, w.Values()), w, 0); err != nil && !errors.Is(err, safetensors.ErrType) {
				t.Fatalf("tensor %q: %v", w.Name, err)
			}
		}
		if head := int64(binary.LittleEndian.Uint64(b)); sum != int64(len(b))-8-head {
			t.Fatalf("tensors hold %d bytes, the data area %d", sum, int64(len(b))-8-head)
		}
	})
}

func BenchmarkOpen(b *testing.B) {
	var h strings.Builder
	const n = 20000 // about the largest published mixture of experts
	for i := range n {
		fmt.Fprintf(&h, `%c"model.layers.%d.mlp.experts.%d.down_proj.weight":{"dtype":"BF16","shape":[1,1],"data_offsets":[%d,%d]}`,
			",{"[b2i(i == 0)], i/128, i%128, 2*i, 2*i+2)
	}
	h.WriteByte('}')
	file := image(h.String(), 2*n)
	b.SetBytes(int64(len(file)))
	for b.Loop() {
		if _, err := open(file); err != nil {
			b.Fatal(err)
		}
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}
