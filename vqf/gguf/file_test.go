// SPDX-License-Identifier: Apache-2.0

package gguf_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"windhover/vqf/gguf"
)

func open(b []byte) (*gguf.File, error) { return gguf.New(bytes.NewReader(b), int64(len(b))) }

// everyKind is a small valid file with each value type.
func everyKind(version uint32) []byte {
	m := newImage(version, 2, 15)
	m.key("u8", 0).raw(200)
	m.key("i8", 1).raw(0xff)
	m.key("u16", 2).raw(1, 2)
	m.key("i16", 3).raw(0xfe, 0xff)
	m.key("u32", 4).u32(1 << 31)
	m.key("i32", 5).u32(math.MaxUint32)
	m.key("f32", 6).u32(math.Float32bits(1.5))
	m.key("yes", 7).raw(1)
	m.key("text", 8).text("a\xffb")
	m.key("u64", 10).u64(math.MaxUint64)
	m.key("i64", 11).u64(7)
	m.key("f64", 12).u64(math.Float64bits(0.1))
	m.array("words", 8, 3).text("x").text("").text("yz")
	m.array("ints", 5, 2).u32(3).u32(math.MaxUint32)
	m.array("longs", 10, 2).u64(1).u64(math.MaxUint64)
	m.tensor("a", 8, 0, 32, 2).tensor("b", 0, 96, 3)
	return m.data(32, 96+12).b
}

func TestArrays(t *testing.T) {
	m := newImage(3, 0, 4)
	m.array("floats", 6, 2).u32(math.Float32bits(0.5)).u32(math.Float32bits(-2))
	m.array("doubles", 12, 1).u64(math.Float64bits(0.1))
	m.array("flags", 7, 3).raw(0, 1, 1)
	m.array("no flags", 7, 2).raw(1, 2)
	f, err := open(m.data(32, 0).b)
	if err != nil {
		t.Fatal(err)
	}
	if v, err := f.Floats("floats"); !slices.Equal(v, []float64{0.5, -2}) || err != nil {
		t.Errorf("floats: got %v, %v", v, err)
	}
	if v, err := f.Floats("doubles"); !slices.Equal(v, []float64{0.1}) || err != nil {
		t.Errorf("doubles: got %v, %v", v, err)
	}
	if v, err := f.Bools("flags"); !slices.Equal(v, []bool{false, true, true}) || err != nil {
		t.Errorf("flags: got %v, %v", v, err)
	}
	for _, c := range []struct {
		name string
		err  func() error
		want error
	}{
		{"a bool of 2", func() error { _, err := f.Bools("no flags"); return err }, gguf.ErrFormat},
		{"floats as bools", func() error { _, err := f.Bools("floats"); return err }, gguf.ErrFormat},
		{"bools as floats", func() error { _, err := f.Floats("flags"); return err }, gguf.ErrFormat},
		{"absent", func() error { _, err := f.Floats("absent"); return err }, gguf.ErrNoKey},
	} {
		if err := c.err(); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, err, c.want)
		}
	}
}

func TestMetadata(t *testing.T) {
	for _, version := range []uint32{2, 3} {
		f, err := open(everyKind(version))
		if err != nil {
			t.Fatal(err)
		}
		if f.Version() != version || f.Alignment() != 32 || f.DataOffset()%32 != 0 {
			t.Errorf("version %d alignment %d data %d", f.Version(), f.Alignment(), f.DataOffset())
		}
		for key, want := range map[string]uint64{"u8": 200, "u16": 513, "u32": 1 << 31, "u64": math.MaxUint64, "i64": 7} {
			if got, err := f.Uint(key); got != want || err != nil {
				t.Errorf("%s: got %d, %v, want %d", key, got, err, want)
			}
		}
		for _, key := range []string{"i8", "i16", "i32", "f32", "text", "yes", "words"} {
			if got, err := f.Uint(key); !errors.Is(err, gguf.ErrFormat) || !strings.Contains(err.Error(), key) {
				t.Errorf("%s as integer: got %d, %v, want an error naming the key", key, got, err)
			}
		}
		if v, err := f.Float("f32"); v != 1.5 || err != nil {
			t.Errorf("f32: got %v, %v", v, err)
		}
		if v, err := f.Float("f64"); v != 0.1 || err != nil {
			t.Errorf("f64: got %v, %v", v, err)
		}
		if v, err := f.Bool("yes"); !v || err != nil {
			t.Errorf("yes: got %v, %v", v, err)
		}
		if v, err := f.Text("text"); v != "a\xffb" || err != nil {
			t.Errorf("text: got %q, %v", v, err)
		}
		if v, err := f.Texts("words"); !slices.Equal(v, []string{"x", "", "yz"}) || err != nil {
			t.Errorf("words: got %q, %v", v, err)
		}
		if v, err := f.Ints("ints"); !slices.Equal(v, []int64{3, -1}) || err != nil {
			t.Errorf("ints: got %v, %v", v, err)
		}
		if v, err := f.Ints("longs"); err == nil {
			t.Errorf("longs past int64: got %v, want an error", v)
		}
		if _, err := f.Text("absent"); !errors.Is(err, gguf.ErrNoKey) || f.Has("absent") {
			t.Errorf("absent: got %v, want ErrNoKey", err)
		}
		if typ, elem, n, err := f.Kind("words"); typ != gguf.TypeArray || elem != gguf.TypeString || n != 3 || err != nil {
			t.Errorf("kind of words: got %s %s %d %v", typ, elem, n, err)
		}
		for key, want := range map[string]string{"i8": "-1", "u8": "200", "f32": "1.5", "f64": "0.1", "yes": "true", "words": "[3] string", "text": "a\xffb"} {
			if got, err := f.Scalar(key); got != want || err != nil {
				t.Errorf("scalar %s: got %q, %v, want %q", key, got, err, want)
			}
		}
		if got := f.Keys(); len(got) != 15 || got[0] != "u8" || got[14] != "longs" {
			t.Errorf("keys: %q", got)
		}
		a, ok := f.Tensor("a")
		if !ok || a.Type != gguf.Q8_0 || a.Bytes != 68 || a.Rows() != 2 || a.Cols() != 32 || a.Values() != 64 || a.Offset != f.DataOffset() {
			t.Errorf("tensor a: %+v", a)
		}
		if got := len(f.Tensors()); got != 2 {
			t.Errorf("got %d tensors, want 2", got)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Each case is a file that lies in one place; the message names the place.
func TestHostile(t *testing.T) {
	aligned := func(typ, value uint32) []byte {
		return newImage(3, 0, 1).key("general.alignment", typ).u32(value).data(32, 0).b
	}
	one := func(typ uint32, off uint64, dims ...uint64) []byte {
		return newImage(3, 1, 0).tensor("w", typ, off, dims...).data(32, 64).b
	}
	cases := []struct {
		name, want string
		b          []byte
	}{
		{"empty", "magic", nil},
		{"wrong magic", "magic", []byte("GGML\x03\x00\x00\x00")},
		{"version 1", "version 1", newImage(1, 0, 0).b},
		{"version 4", "version 4", newImage(4, 0, 0).b},
		{"big endian", "big-endian", []byte("GGUF\x00\x00\x00\x03")},
		{"short counts", "key count", newImage(3, 0, 0).b[:20]},
		{"absurd tensors", "tensor count", newImage(3, 1<<63, 0).b},
		{"absurd keys", "key count", newImage(3, 0, 1<<63).b},
		{"tensors not there", "tensor 0", newImage(3, 60000, 0).b},
		{"key length wraps", "key 0", newImage(3, 0, 1).u64(math.MaxUint64).b},
		{"key past end", "key 0", newImage(3, 0, 1).u64(1000).b},
		{"duplicate key", `duplicate key "a"`, newImage(3, 0, 2).key("a", 0).raw(1).key("a", 0).raw(1).b},
		{"unknown value type", `key "a"`, newImage(3, 0, 1).key("a", 13).u64(0).b},
		{"bool of 2", `key "a"`, newImage(3, 0, 1).key("a", 7).raw(2).b},
		{"long string", `key "a"`, newImage(3, 0, 1).key("a", 8).u64(1 << 40).b},
		{"array wraps", `key "a"`, newImage(3, 0, 1).array("a", 10, 1<<61+1).b},
		{"array past end", `key "a"`, newImage(3, 0, 1).array("a", 10, 1<<20).b},
		{"string array past end", `key "a"`, newImage(3, 0, 1).array("a", 8, 1<<20).b},
		{"nested array", `key "a"`, newImage(3, 0, 1).array("a", 9, 1).u32(0).u64(0).b},
		{"alignment 0", "alignment", aligned(4, 0)},
		{"alignment 24", "alignment", aligned(4, 24)},
		{"alignment a float", "alignment", aligned(6, 32)},
		{"no name", "tensor 0", newImage(3, 1, 0).tensor("", 0, 0, 1).data(32, 64).b},
		{"long name", "tensor 0", newImage(3, 1, 0).tensor(strings.Repeat("n", 256), 0, 0, 1).data(32, 64).b},
		{"no dimension", `tensor "w"`, one(0, 0)},
		{"five dimensions", `tensor "w"`, one(0, 0, 1, 1, 1, 1, 1)},
		{"zero dimension", `tensor "w"`, one(0, 0, 4, 0)},
		{"shape wraps", `tensor "w"`, one(0, 0, 1<<32, 1<<32)},
		{"shape wraps to fit", `tensor "w"`, one(0, 0, 1<<33, 1<<31, 1<<2)},
		{"unknown type", "type 77", one(77, 0, 4)},
		{"part of a block", "do not divide", one(8, 0, 33)},
		{"unaligned", "alignment", one(0, 4, 4)},
		{"past end", `tensor "w"`, one(0, 64, 1)},
		{"offset wraps", `tensor "w"`, one(0, math.MaxUint64-31, 8)},
		{"offset wraps signed", `tensor "w"`, one(0, 1<<63-32, 8)},
		{"larger than data", `tensor "w"`, one(0, 0, 17)},
		{"duplicate tensor", `duplicate tensor "w"`, newImage(3, 2, 0).tensor("w", 0, 0, 1).tensor("w", 0, 32, 1).data(32, 64).b},
		{"overlap", "overlaps", newImage(3, 2, 0).tensor("v", 0, 32, 8).tensor("w", 0, 0, 9).data(32, 64).b},
		{"no data at all", `tensor "w"`, newImage(3, 1, 0).tensor("w", 0, 0, 1).b},
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
			if !errors.Is(err, gguf.ErrFormat) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %q, want ErrFormat naming %q", err, c.want)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("message of several lines: %q", err)
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

// TestInspect: of a file that is wrong, what stands before.
func TestInspect(t *testing.T) {
	whole := newImage(3, 2, 1).key("a", 8).text("x").tensor("v", 0, 0, 8).tensor("w", 0, 0, 8).data(32, 64).b
	for _, c := range []struct {
		name          string
		b             []byte
		keys, tensors int
		refused       bool
	}{
		{"sound", everyKind(3), 15, 2, false},
		{"overlap", whole, 1, 2, true},
		{"second tensor cut", whole[:90], 1, 1, true},
		{"key cut", whole[:30], 0, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.gguf")
			if err := os.WriteFile(path, c.b, 0o600); err != nil {
				t.Fatal(err)
			}
			f, err := gguf.Inspect(path)
			if f == nil || (err != nil) != c.refused || len(f.Keys()) != c.keys || len(f.Tensors()) != c.tensors || c.refused && f.DataOffset() != 0 {
				t.Fatalf("got %+v, %v, want %d keys and %d tensors", f, err, c.keys, c.tensors)
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
			if f, err := gguf.Open(path); (f == nil) != c.refused || (err != nil) != c.refused || c.refused && !errors.Is(err, gguf.ErrFormat) {
				t.Errorf("Open: %v, %v", f, err)
			}
		})
	}
	if f, err := gguf.Inspect("testdata/absent.gguf"); f != nil || err == nil {
		t.Errorf("absent: %v, %v", f, err)
	}
}

// Cut anywhere, the file is refused or its tensors still lie inside it.
func TestTruncated(t *testing.T) {
	b := everyKind(3)
	for n := range b {
		if _, err := open(b[:n]); err == nil {
			t.Fatalf("a file of %d of %d bytes opened", n, len(b))
		}
	}
}

// A sparse file may claim gigabytes of metadata; parsing stays bounded.
func TestSparse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sparse.gguf")
	m := newImage(3, 0, 4096)
	m.array("a", 8, 1<<20)
	if err := os.WriteFile(path, m.b, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 8<<30); err != nil {
		t.Skipf("no sparse files here: %v", err)
	}
	start := time.Now()
	_, err := gguf.Open(path)
	if err == nil {
		t.Fatal("got nil, want an error")
	}
	// Walking all that is claimed would take minutes; the margin is for the race detector.
	if d := time.Since(start); d > 20*time.Second {
		t.Errorf("took %v: %v", d, err)
	}
}

// ReadFloats in pieces gives what the whole gives, and refuses ranges that do
// not lie in the tensor or cut a block.
func TestReadFloats(t *testing.T) {
	f, err := gguf.Open("testdata/qwen3-h256-Q2_K.gguf")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w, ok := f.Tensor("blk.0.ffn_down.weight")
	if !ok {
		t.Fatal("no tensor")
	}
	whole := make([]float32, w.Values())
	if err := f.ReadFloats(whole, w, 0); err != nil {
		t.Fatal(err)
	}
	row := make([]float32, w.Cols())
	for r := range w.Rows() {
		if err := f.ReadFloats(row, w, r*w.Cols()); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(row, whole[r*w.Cols():][:w.Cols()]) {
			t.Fatalf("row %d differs from the whole", r)
		}
	}
	for _, c := range []struct{ first, n uint64 }{{1, 256}, {0, 255}, {w.Values(), 256}, {math.MaxUint64 - 255, 256}, {0, w.Values() + 256}} {
		if err := f.ReadFloats(make([]float32, c.n), w, c.first); err == nil {
			t.Errorf("elements %d+%d: got nil, want an error", c.first, c.n)
		}
	}
}

func TestUnreadableType(t *testing.T) {
	f, err := gguf.Open("testdata/qwen3-h256-TQ1_0.gguf")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w, _ := f.Tensor("blk.0.attn_k.weight")
	err = f.ReadFloats(make([]float32, 256), w, 0)
	if !errors.Is(err, gguf.ErrType) || !strings.Contains(err.Error(), "TQ1_0") || !strings.Contains(err.Error(), "blk.0.attn_k.weight") {
		t.Errorf("got %v, want ErrType naming tensor and type", err)
	}
}

func TestOpenNoFile(t *testing.T) {
	if _, err := gguf.Open(t.TempDir()); err == nil {
		t.Error("a directory opened")
	}
	if _, err := gguf.Open("testdata/absent.gguf"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want os.ErrNotExist", err)
	}
}

type goldenTensor struct {
	Type string   `json:"type"`
	Ne   []uint64 `json:"ne"`
	Sum  string   `json:"sha256_f32"`
}

// The files in testdata decode to the sums gguf-py and ggml agree on.
func TestGoldenTestdata(t *testing.T) {
	for _, name := range []string{"qwen3-h256-Q2_K.gguf", "llama-tiny-Q4_K_M.gguf"} {
		var want map[string]goldenTensor
		if err := json.Unmarshal(readFile(t, "testdata/"+name+".json"), &want); err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) { checkFile(t, "testdata/"+name, want) })
	}
}

// Every tensor of every file of the shared goldens.
func TestGoldenShared(t *testing.T) {
	dir := filepath.FromSlash("../../../shared/golden/gguf")
	lists, err := filepath.Glob(filepath.Join(dir, "*", "golden.json"))
	if err != nil || len(lists) == 0 {
		t.Skip("no ../shared/golden beside the module")
	}
	files := 0
	for _, list := range lists {
		var golden struct {
			Files map[string]struct {
				Tensors map[string]goldenTensor `json:"tensors"`
			} `json:"files"`
		}
		if err := json.Unmarshal(readFile(t, list), &golden); err != nil {
			t.Fatalf("%s: %v", list, err)
		}
		for name, want := range golden.Files {
			files++
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				checkFile(t, filepath.Join(filepath.Dir(list), name), want.Tensors)
			})
		}
	}
	if files < 50 {
		t.Errorf("only %d files, the goldens are incomplete", files)
	}
}

func checkFile(t *testing.T, path string, want map[string]goldenTensor) {
	t.Helper()
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if len(want) == 0 || len(f.Tensors()) != len(want) {
		t.Errorf("%d tensors, want %d", len(f.Tensors()), len(want))
	}
	for _, w := range f.Tensors() {
		g, ok := want[w.Name]
		if !ok {
			t.Errorf("%s is not in the golden list", w.Name)
			continue
		}
		if w.Type.String() != g.Type || !slices.Equal(w.Dims, g.Ne) {
			t.Errorf("%s: got %s %v, want %s %v", w.Name, w.Type, w.Dims, g.Type, g.Ne)
		}
		values := make([]float32, w.Values())
		if err := f.ReadFloats(values, w, 0); err != nil {
			t.Error(err)
			continue
		}
		sum := sha256.Sum256(unsafe.Slice((*byte)(unsafe.Pointer(&values[0])), 4*len(values)))
		if got := hex.EncodeToString(sum[:]); got != g.Sum {
			t.Errorf("%s (%s): got %s, want %s", w.Name, w.Type, got, g.Sum)
		}
	}
}
