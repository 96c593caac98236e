// SPDX-License-Identifier: Apache-2.0

package gguf_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"windhover/vqf/gguf"
)

// A bad file ends in an error within a second and 64 MB. The time is the processor's,
// as other tests run beside this one, and has room for the race detector.
const (
	bombTime  = 20 * time.Second
	bombBytes = 64 << 20
)

// cpu is the processor's time of this process.
func cpu(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// bomb is a file of a terabyte that takes no memory: front, then unit again and again.
type bomb struct{ front, unit []byte }

const bombSize = 1 << 40

func (b bomb) ReadAt(p []byte, off int64) (n int, err error) {
	if off < int64(len(b.front)) {
		n = copy(p, b.front[off:])
	}
	for n < len(p) && off+int64(n) < bombSize {
		n += copy(p[n:], b.unit[(off+int64(n)-int64(len(b.front)))%int64(len(b.unit)):])
	}
	if n < len(p) {
		err = io.EOF
	}
	return n, err
}

// entries are n entries that differ in their names, each made by add.
func entries(m *image, n int, add func(m *image, name string)) *image {
	for i := range n {
		add(m, fmt.Sprintf("%0200d", i))
	}
	return m
}

func TestBombs(t *testing.T) {
	long := func(m *image, n uint64) *image { return m.u64(n) }
	empty := new(image).u64(0).b
	for _, c := range []struct {
		name string
		m    *image
		unit []byte
		want string
	}{
		{"a million tensors", newImage(3, 1_000_000, 0), []byte("n"), "tensor count"},
		{"a million keys", newImage(3, 0, 1_000_000), []byte("n"), "key count"},
		{"key without end", long(newImage(3, 0, 1), 1<<39), []byte("n"), "exceeds the limit"},
		{"string without end", long(newImage(3, 0, 1).key("a", 8), 1<<39), []byte("n"), "exceeds the limit"},
		{"name without end", long(newImage(3, 1, 0), 1<<39), []byte("n"), "exceeds the limit"},
		{"length wraps", long(newImage(3, 0, 1).key("a", 8), math.MaxUint64-7), []byte("n"), "exceeds the limit"},
		{"a thousand long strings", entries(newImage(3, 0, 1000), 1000, func(m *image, name string) { m.key(name, 8).text(strings.Repeat("x", 64<<10)) }), empty, "strings exceed"},
		{"array without end", newImage(3, 0, 1).array("a", 0, math.MaxUint64), empty, "elements"},
		{"array of empty strings", newImage(3, 0, 1).array("a", 8, 4<<20), empty, "strings in arrays"},
		{"array of long strings", newImage(3, 0, 1).array("a", 8, 1<<20), new(image).text(strings.Repeat("x", 1<<20)).b, "array of strings exceeds"},
		{"array of endless strings", newImage(3, 0, 1).array("a", 8, 1<<20), new(image).u64(1 << 62).b, "exceeds the limit"},
		{"nested array", newImage(3, 0, 1).array("a", 9, 1), new(image).u32(9).u64(1).b, "array of array"},
		{"arrays of arrays", newImage(3, 0, 1).array("a", 9, 1<<60), new(image).u32(9).u64(1 << 60).b, "exceeds the limit"},
		{"4096 long arrays", newImage(3, 0, 4096), longArrays(), "strings in arrays"},
		{"65536 long names, then a bad one", entries(newImage(3, 65536, 0), 65535, func(m *image, name string) { m.tensor(name, 0, 0, 1) }).tensor("w", 77, 0, 1), empty, "unknown type 77"},
		{"65536 tensors in one place", entries(newImage(3, 65536, 0), 65536, func(m *image, name string) { m.tensor(name, 0, 0, 1) }), empty, "overlaps"},
		{"alignment of a terabyte", newImage(3, 0, 1).key("general.alignment", 10).u64(1 << 40), empty, "power of two"},
	} {
		t.Run(c.name, func(t *testing.T) {
			unit := bytes.Repeat(c.unit, 64<<10/len(c.unit)+1) // few pieces to copy
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := cpu(t)
			_, err := gguf.New(bomb{c.m.b, unit}, bombSize)
			d := cpu(t) - start
			runtime.ReadMemStats(&after)
			if !errors.Is(err, gguf.ErrFormat) || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 2000 {
				t.Errorf("got %.300v, want ErrFormat naming %q", err, c.want)
			}
			n := after.TotalAlloc - before.TotalAlloc
			if t.Logf("%v, %.1f MB", d.Round(time.Millisecond), float64(n)/1e6); n > bombBytes || d > bombTime {
				t.Errorf("took %v and %d bytes", d, n)
			}
		})
	}
}

// longArrays are as many of the longest arrays of strings as the metadata may hold.
func longArrays() []byte {
	m := new(image)
	for i := range 16 {
		m.array(fmt.Sprint("k", i), 8, 1<<20)
		m.raw(make([]byte, 8<<20)...)
	}
	return m.b
}

// TestGreatest opens a file at every limit of the directory and reads its longest array.
func TestGreatest(t *testing.T) {
	m := newImage(3, 65536, 4096).array("words", 8, 1<<20)
	m.raw(make([]byte, 8<<20)...)
	entries(m, 4095, func(m *image, name string) { m.key(name, 8).text(strings.Repeat("x", 4000)) })
	for i := range 65536 {
		m.tensor(fmt.Sprintf("%0255d", i), 0, uint64(32*i), 1)
	}
	b := m.data(32, 32*65536).b
	path := filepath.Join(t.TempDir(), "great.gguf")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	words, err := f.Texts("words")
	runtime.ReadMemStats(&after)
	if err != nil || len(words) != 1<<20 || len(f.Tensors()) != 65536 {
		t.Errorf("%d words, %d tensors, %v", len(words), len(f.Tensors()), err)
	}
	n := after.TotalAlloc - before.TotalAlloc
	if t.Logf("%.1f MB", float64(n)/1e6); n > 2*bombBytes {
		t.Errorf("took %d bytes", n)
	}
}

// TestFlips turns every bit of a small file: an error or a directory that keeps its
// word, never a panic.
func TestFlips(t *testing.T) {
	b := everyKind(3)
	for i := range 8 * len(b) {
		c := bytes.Clone(b)
		c[i/8] ^= 1 << (i % 8)
		f, err := open(c)
		if err != nil {
			if !errors.Is(err, gguf.ErrFormat) {
				t.Fatalf("bit %d: %v is no ErrFormat", i, err)
			}
			continue
		}
		for _, w := range f.Tensors() {
			if w.Offset < f.DataOffset() || w.Bytes <= 0 || w.Bytes > int64(len(c))-w.Offset {
				t.Fatalf("bit %d: tensor %q at %d+%d of %d", i, w.Name, w.Offset, w.Bytes, len(c))
			}
		}
		for _, key := range f.Keys() {
			if _, err := f.Scalar(key); err != nil {
				t.Fatalf("bit %d: key %q: %v", i, key, err)
			}
		}
	}
}
