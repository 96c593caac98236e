// SPDX-License-Identifier: Apache-2.0

package safetensors_test

import (
	"bytes"
	"encoding/binary"
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

	"windhover/vqf/safetensors"
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

// bomb is a file that takes no memory: front, then unit again and again.
type bomb struct {
	front, unit string
	size        int64
}

// newBomb has a header of n bytes.
func newBomb(front, unit string, n int64) bomb {
	return bomb{string(binary.LittleEndian.AppendUint64(nil, uint64(n))) + front, often(unit), 8 + n}
}

// often repeats unit so that ReadAt has few pieces to copy.
func often(unit string) string { return strings.Repeat(unit, 64<<10/len(unit)+1) }

func (b bomb) ReadAt(p []byte, off int64) (n int, err error) {
	if off < int64(len(b.front)) {
		n = copy(p, b.front[off:])
	}
	for n < len(p) && off+int64(n) < b.size {
		at := (off + int64(n) - int64(len(b.front))) % int64(len(b.unit))
		n += copy(p[n:min(int64(len(p)), b.size-off)], b.unit[at:])
	}
	if n < len(p) {
		err = io.EOF
	}
	return n, err
}

func TestBombs(t *testing.T) {
	const w = `{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":`
	const none = `{"dtype":"U8","shape":[0],"data_offsets":[0,0]},`
	for _, c := range []struct{ name, front, unit, want string }{
		{"name without end", `{"`, "n", "string of over"},
		{"name of escapes", `{"`, `\u0041`, "string of over"},
		{"attribute without end", `{"w":{"`, "n", "string of over"},
		{"dtype without end", `{"w":{"dtype":"`, "F", "string of over"},
		{"shape without end", `{"w":{"shape":[1`, ",1", "numbers"},
		{"shape of one long number", `{"w":{"shape":[1`, "1", "64 bits"},
		{"offsets without end", `{"w":{"data_offsets":[0`, ",0", "numbers"},
		{"metadata without end", `{"__metadata__":{"a":"`, "x", "ends early"},
		{"metadata of accents", `{"__metadata__":{"a":"`, "é", "ends early"},
		{"the longest metadata of escapes", `{"__metadata__":{"a":"`, `\n`, "ends early"},
		{"metadata of surrogates", `{"__metadata__":{"a":"`, `\ud83d\ude00`, "ends early"},
		{"metadata key without end", `{"__metadata__":{"`, "x", "ends early"},
		{"a million metadata entries", `{"__metadata__":{"":""`, `,"":""`, "metadata entries"},
		{"a million tensors", `{"a":` + none, `"a":` + none, "tensors"},
		{"a million attributes", w + "1", `,"y":1`, "mean nothing"},
		{"long attributes", w + `"`, "y", "ends early"},
		{"numbers", w + "[1", ",1", "mean nothing"},
		{"long numbers", w + "[1", "1", "malformed"},
		{"empty arrays", w + "[[]", ",[]", "mean nothing"},
		{"nested arrays", w, "[", "too deep"},
		{"nested objects", w, `{"":`, "too deep"},
		{"nested at the top", `{"w":`, `{"w":`, "too deep"},
		{"the longest white space", "{", " ", "ends early"},
		{"white space behind", "{}", "\n", "16000008"},
		{"white space between", w + "[1", " ", "ends early"},
		{"zero bytes", "{", "\x00", "found"},
		{"quotes", "{", `""`, "want ':'"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := int64(16_000_000)
			if strings.HasPrefix(c.name, "the longest") {
				n = 100_000_000
			}
			b := newBomb(c.front, c.unit, n)
			if c.name == "white space behind" {
				b.size++ // nothing else is wrong with it
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := cpu(t)
			_, err := safetensors.New(b, b.size)
			d := cpu(t) - start
			runtime.ReadMemStats(&after)
			if !errors.Is(err, safetensors.ErrFormat) || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 2000 {
				t.Errorf("got %.200v, want ErrFormat naming %q", err, c.want)
			}
			took := after.TotalAlloc - before.TotalAlloc
			if t.Logf("%v, %.1f MB", d.Round(time.Millisecond), float64(took)/1e6); took > bombBytes || d > bombTime {
				t.Errorf("took %v and %d bytes", d, took)
			}
		})
	}
}

// TestManyTensors opens the largest header that is taken, and refuses one tensor more.
func TestManyTensors(t *testing.T) {
	head := func(n int) []byte {
		var h strings.Builder
		for i := range n {
			fmt.Fprintf(&h, `%c"%s%d":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}`, ",{"[b2i(i == 0)], strings.Repeat("n", 200), i)
		}
		h.WriteByte('}')
		return image(h.String(), 0)
	}
	b := head(65536)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f, err := open(b)
	runtime.ReadMemStats(&after)
	if err != nil || len(f.Tensors()) != 65536 {
		t.Errorf("65536 tensors: %v", err)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > bombBytes+32<<20 {
		t.Errorf("took %d bytes", n)
	}
	if _, err := open(head(65537)); !errors.Is(err, safetensors.ErrFormat) {
		t.Errorf("65537 tensors: %v, want ErrFormat", err)
	}
}

// TestIndexBombs is TestBombs for the index, which is a file.
func TestIndexBombs(t *testing.T) {
	for _, c := range []struct{ name, front, unit, want string }{
		{"tensor without end", `{"weight_map":{"`, "n", "string of over"},
		{"file without end", `{"weight_map":{"a":"`, "n", "string of over"},
		{"nested", `{"metadata":`, `[`, "too deep"},
		{"a million values", `{"metadata":[1`, `,1`, "mean nothing"},
		{"no weight_map", `{"metadata":"`, "x", "ends early"},
		{"white space", "{", " ", "ends early"},
		{"directory", `{"weight_map":{"a":"x/y.safetensors"}}`, " ", "beside the index"},
		{"another directory", `{"weight_map":{"a":"..\\y.safetensors"}}`, " ", "beside the index"},
		{"root", `{"weight_map":{"a":"/etc/y.safetensors"}}`, " ", "beside the index"},
		{"parent", `{"weight_map":{"a":"..safetensors"}}`, " ", "beside the index"},
		{"no tensor file", `{"weight_map":{"a":"config.json"}}`, " ", "beside the index"},
		{"NUL", `{"weight_map":{"a":"x\u0000.safetensors"}}`, " ", "beside the index"},
		{"absent", `{"weight_map":{"a":"x.safetensors"}}`, " ", "x.safetensors"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := bomb{c.front, often(c.unit), 16_000_000}
			if c.unit == " " && c.name != "white space" {
				b.size = int64(len(c.front))
			}
			d := t.TempDir()
			o, err := os.Create(filepath.Join(d, index))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(o, io.NewSectionReader(b, 0, b.size)); err != nil {
				t.Fatal(err)
			}
			if err := o.Close(); err != nil {
				t.Fatal(err)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err = safetensors.OpenModel(d)
			runtime.ReadMemStats(&after)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %.200v, want %q in one line", err, c.want)
			}
			if n := after.TotalAlloc - before.TotalAlloc; n > bombBytes {
				t.Errorf("took %d bytes", n)
			}
		})
	}
}

// TestFlips turns every bit of a small file: an error or a header that keeps its word,
// never a panic.
func TestFlips(t *testing.T) {
	b := image(two, 22)
	for i := range 8 * (8 + len(two)) {
		c := bytes.Clone(b)
		c[i/8] ^= 1 << (i % 8)
		f, err := open(c)
		if err != nil {
			if !errors.Is(err, safetensors.ErrFormat) {
				t.Fatalf("bit %d: %v is no ErrFormat", i, err)
			}
			continue
		}
		sum := int64(0)
		for _, w := range f.Tensors() {
			sum += w.Bytes
			if w.Offset < 0 || w.Bytes < 0 || w.Bytes > math.MaxInt64-w.Offset || w.Offset+w.Bytes > int64(len(c)) {
				t.Fatalf("bit %d: tensor %q at %d+%d", i, w.Name, w.Offset, w.Bytes)
			}
		}
		if sum != 22 {
			t.Fatalf("bit %d: %d bytes of tensors", i, sum)
		}
	}
}
