// SPDX-License-Identifier: Apache-2.0

package vqf_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"windhover/vqf"
)

// What a file made to do harm may cost before it is refused.
const (
	hostileTime  = time.Second
	hostileBytes = 64 << 20
)

// hostileFile is a prefix, and the length that the file claims: the rest is a hole.
type hostileFile struct {
	name   string
	prefix []byte
	size   int64
}

// hostileFiles are made to be expensive, or to make a product or a sum wrap.
func hostileFiles(t testing.TB) []hostileFile {
	t.Helper()
	le := binary.LittleEndian
	plan, err := vqf.NewPlan(specOf(miniArch(), vqf.ModeQ4, vqf.Layout8x8, 45))
	if err != nil {
		t.Fatal(err)
	}
	const huge = int64(1) << 40 // a sparse terabyte
	head := plan.Prefix()[:448]
	header := func(n uint32, size int64, edit func(b []byte)) []byte {
		b := append([]byte(nil), head...)
		le.PutUint32(b[12:], n)
		le.PutUint64(b[200:], uint64(448+64*int64(n)+4095)&^4095)
		le.PutUint64(b[208:], uint64(size-8))
		if edit != nil {
			edit(b)
		}
		return b
	}
	entry := func(name string, typ, rows, cols uint32, at, n uint64) []byte {
		b := make([]byte, 64)
		copy(b, name)
		le.PutUint32(b[32:], typ)
		le.PutUint32(b[36:], rows)
		le.PutUint32(b[40:], cols)
		le.PutUint64(b[48:], at)
		le.PutUint64(b[56:], n)
		return b
	}
	directory := func(n int, each func(i int) []byte) []byte {
		var b []byte
		for i := range n {
			b = append(b, each(i)...)
		}
		return b
	}
	name := func(i int) string { return fmt.Sprintf("t%d", i) }
	var files []hostileFile
	add := func(name string, prefix []byte, size int64) { files = append(files, hostileFile{name, prefix, size}) }

	for _, n := range []uint32{0, 4097, 1 << 20, 1 << 26, 1<<26 - 7, math.MaxUint32} {
		add(fmt.Sprintf("%d entries", n), header(n, huge, nil), huge)
	}
	add("data_offset that wraps", header(14, huge, func(b []byte) { le.PutUint64(b[200:], math.MaxUint64&^63) }), huge)
	add("file_len that wraps with the trailer", header(14, huge, func(b []byte) { le.PutUint64(b[208:], math.MaxUint64-7) }), huge)
	add("file_len of 2^63", header(14, huge, func(b []byte) { le.PutUint64(b[208:], 1<<63) }), huge)
	add("a directory of zeros", header(4096, huge, nil), huge)
	add("names without end", append(header(4096, huge, nil), bytes.Repeat([]byte{'x'}, 64*4096)...), huge)
	add("every entry the same", append(header(4096, huge, nil), directory(4096, func(int) []byte { return entry("same", 1, 1, 1, 1<<30, 4) })...), huge)
	add("every entry over all others", append(header(4096, huge, nil), directory(4096, func(i int) []byte {
		return entry(name(i), 9, 0, 0, 1<<30, uint64(huge)/2)
	})...), huge)
	add("a pyramid of overlaps", append(header(4096, huge, nil), directory(4096, func(i int) []byte {
		return entry(name(i), 9, 0, 0, uint64(1<<30+64*i), uint64(huge)/2-uint64(128*i))
	})...), huge)
	add("ends that wrap", append(header(4096, huge, nil), directory(4096, func(i int) []byte {
		return entry(name(i), 9, 0, 0, uint64(1<<30+64*i), math.MaxUint64-uint64(i))
	})...), huge)
	add("offsets that wrap", append(header(4096, huge, nil), directory(4096, func(i int) []byte {
		return entry(name(i), 9, 0, 0, math.MaxUint64-63-uint64(64*i), 128)
	})...), huge)
	add("rows times cols that wrap", append(header(2, huge, nil), directory(2, func(i int) []byte {
		return entry(name(i), uint32(1+4*i), math.MaxUint32, math.MaxUint32, 1<<30, 4)
	})...), huge)
	add("an embedded tokenizer of a terabyte", append(header(1, huge, nil), entry("t_tokenizer", 1, 1<<31, 1, 1<<20, 1<<33)...), huge)
	add("4096 unknown entries and none that is needed", append(header(4096, huge, nil), directory(4096, func(i int) []byte {
		return entry(name(i), 9, 0, 0, uint64(1<<30+128*i), 100)
	})...), huge)
	absurd := func(words map[int]uint32) []byte {
		return append(header(14, huge, func(b []byte) {
			for at, v := range words {
				le.PutUint32(b[at:], v)
			}
		}), plan.Prefix()[448:448+64*14]...)
	}
	add("layers", absurd(map[int]uint32{20: math.MaxInt32}), huge)
	add("a model of 2^93 weights", absurd(map[int]uint32{16: 0x7FFFFFE0, 20: math.MaxInt32, 36: 0x7FFFFFE0}), huge)
	add("a vocabulary of 2^31", absurd(map[int]uint32{40: math.MaxInt32}), huge)
	add("experts", absurd(map[int]uint32{4: 3, 8: 0x223, 180: 1 << 20, 184: 1 << 11, 188: 1, 36: 0x7FFFFFE0}), huge)
	add("encrypted", append(header(4096, huge, func(b []byte) { b[8] |= 0x80; le.PutUint64(b[208:], uint64(huge-32)) }),
		directory(4096, func(i int) []byte { return entry(name(i), 9, 0, 0, 1<<30, 64) })...), huge)
	return files
}

// hole writes a prefix and lets the file be as long as it claims.
func (h hostileFile) file(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.vqf")
	if err := os.WriteFile(path, h.prefix, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, h.size); err != nil {
		t.Skipf("no file of %d bytes here: %v", h.size, err)
	}
	return path
}

// cheap holds f to the limits. Allocations and processor time are those of the
// whole process: no other test runs meanwhile, and what else the machine does
// counts for nothing.
func cheap(t *testing.T, what string, f func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := processorTime(t)
	f()
	took := processorTime(t) - start
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > hostileBytes || took > hostileTime {
		t.Errorf("%s: took %v and %d bytes, want at most %v and %d", what, took, n, hostileTime, hostileBytes)
	}
}

func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err != nil {
		t.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// TestHostile: each is refused with a reason, in time and memory.
func TestHostile(t *testing.T) {
	key := vectorKey(t)
	for _, h := range hostileFiles(t) {
		t.Run(h.name, func(t *testing.T) {
			path := h.file(t)
			for _, opt := range []vqf.OpenOptions{{}, {FullCheck: true}, {Key: key}, {Key: key, Lazy: true}} {
				cheap(t, "Open", func() {
					f, err := vqf.Open(path, opt)
					var fe *vqf.FormatError
					if !errors.As(err, &fe) || strings.Contains(err.Error(), "\n") || len(err.Error()) > 700 {
						t.Errorf("Open: got %v, want a FormatError of one line", err)
					}
					if err == nil {
						_ = f.Close()
					}
				})
			}
			cheap(t, "Inspect", func() {
				if info, err := vqf.Inspect(path); err != nil || info.Refused == nil {
					t.Errorf("Inspect: got %+v, %v", info, err)
				}
			})
			cheap(t, "Verify", func() {
				r, err := vqf.Verify(t.Context(), path, vqf.VerifyOptions{Key: key}, nil)
				if err != nil || r.OK() || r.SHA256 != "" {
					t.Errorf("Verify: got %v\n%s", err, r)
				}
				if len(r.String()) > 8<<10 {
					t.Errorf("Verify: a report of %d bytes", len(r.String()))
				}
			})
			cheap(t, "Reseal", func() {
				if _, err := vqf.Reseal(t.Context(), path, filepath.Join(t.TempDir(), "y.vqf"), vqf.ResealOptions{From: key, To: key, DropSignature: true}, nil); err == nil {
					t.Error("Reseal: accepted")
				}
			})
			cheap(t, "DeclaredSize", func() { vqf.DeclaredSize(h.prefix[:448]) })
		})
	}
}

// TestHoles: a sound file whose embedded entries are holes of the largest size
// costs no memory for what is not there.
func TestHoles(t *testing.T) {
	s := miniSpec(vqf.ModeQ8, 45)
	s.Q8 = vqf.LayoutRow // the layout is asked of t_meta
	s.Extra = []vqf.Extra{{Name: vqf.NameTokenizer, Size: vqf.MaxExtra}, {Name: vqf.NameMeta, Size: vqf.MaxMeta}}
	plan, err := vqf.NewPlan(s)
	if err != nil {
		t.Fatal(err)
	}
	path := sparse(t, plan)
	cheap(t, "reading holes", func() {
		f := open(t, path, vqf.OpenOptions{})
		if len(f.Tokenizer()) != 0 || len(f.Meta()) != 0 {
			t.Error("the holes are not empty")
		}
		if _, err := f.Q8Layout(); err == nil {
			t.Error("an empty t_meta passes for JSON")
		}
	})
}

// TestDeepMeta: t_meta that nests without end is an error, soon.
func TestDeepMeta(t *testing.T) {
	for _, text := range []string{
		strings.Repeat("[", 4<<20),
		strings.Repeat(`{"a":`, 2<<20),
		`{"q8_layout":` + strings.Repeat("[", 4<<20),
		`{"q8_layout":"` + strings.Repeat("8", 4<<20) + `"}`,
	} {
		path, _ := writeMini(t, vqf.Spec{Arch: miniArch(), Mode: vqf.ModeQ8, Fields: 45}, nil, map[string]string{vqf.NameMeta: text})
		b := readFile(t, path)
		path = tempFile(t, patch(b, map[int]uint32{8: 0x020}))
		cheap(t, text[:20], func() {
			if l, err := open(t, path, vqf.OpenOptions{}).Q8Layout(); err == nil || len(err.Error()) > 1000 {
				t.Errorf("%.20s: got %v and an error of %d bytes", text, l, len(fmt.Sprint(err)))
			}
		})
	}
}
