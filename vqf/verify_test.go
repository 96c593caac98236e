// SPDX-License-Identifier: Apache-2.0

package vqf_test

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"windhover/vqf"
	"windhover/vqf/seal"
)

// statuses maps a report's lines.
func statuses(r *vqf.VerifyReport) map[string]vqf.Check {
	m := make(map[string]vqf.Check)
	for _, c := range r.Checks {
		m[c.Name] = c
	}
	return m
}

func TestVerifyGood(t *testing.T) {
	for _, mode := range []vqf.Mode{vqf.ModeQ4, vqf.ModeQ8, vqf.ModeDual, vqf.ModeQ4I, vqf.ModeG256} {
		for _, fields := range []int{41, 45} {
			path, res := writeMini(t, miniSpec(mode, fields), nil, map[string]string{vqf.NameTokenizer: "{}", vqf.NameMeta: "{}"})
			var last, total int64
			r, err := vqf.Verify(t.Context(), path, vqf.VerifyOptions{}, func(d, n int64) { last, total = d, n })
			if err != nil {
				t.Fatal(err)
			}
			if !r.OK() || r.Err() != nil {
				t.Errorf("%s: %v\n%s", mode, r.Err(), r)
			}
			if r.SHA256 != res.SHA256 || r.Stored != res.FileSum || r.Computed != res.FileSum || r.Size != res.Size {
				t.Errorf("%s: got %+v, want %+v", mode, r, res)
			}
			if last != r.Size || total != r.Size {
				t.Errorf("progress: got %d of %d", last, total)
			}
			want := []string{"magic", "version", "header", "size", "names", "flags", "offsets aligned", "first offset", "offsets chained",
				"last end", "bounds", "bytes by formula", "bytes by arch", "gap", "padding", "t_tokenizer", "t_meta", "checksum", "signature"}
			lines := statuses(r)
			for _, name := range want {
				if _, ok := lines[name]; !ok {
					t.Errorf("%s: no line %q", mode, name)
				}
			}
			if s := r.String(); !strings.Contains(s, "PASS") || !strings.Contains(s, "MB/s") || !strings.Contains(s, "stored 0x") {
				t.Errorf("report:\n%s", s)
			}
		}
	}
}

// TestVerifyFails: each kind of damage fails its own line.
func TestVerifyFails(t *testing.T) {
	path, _ := writeMini(t, miniSpec(vqf.ModeQ4, 41), nil, map[string]string{vqf.NameMeta: `{"x":"` + strings.Repeat("y", 50) + `"}`})
	good := readFile(t, path)
	fileLen := int(binary.LittleEndian.Uint64(good[192:]))
	entry := func(i, within int) int { return 448 + 64*i + within }
	word := func(at int, v uint32) func([]byte) []byte {
		return func(b []byte) []byte { return patch(b, map[int]uint32{at: v}) }
	}
	metaAt := int(binary.LittleEndian.Uint64(good[entry(14, 48):]))
	for _, c := range []struct {
		name  string
		edit  func(b []byte) []byte
		fails []string
		say   string
	}{
		{"magic", word(0, 0), []string{"magic"}, "not a VQF file"},
		{"version", word(4, 1), []string{"version"}, "version 1 unsupported"},
		{"short", func(b []byte) []byte { return b[:len(b)-1] }, []string{"header"}, "1 byte short"},
		{"long", func(b []byte) []byte { return append(b, 0) }, []string{"header"}, "1 byte too long"},
		{"tiny", func(b []byte) []byte { return b[:100] }, []string{"magic"}, "too few"},
		{"arch", word(28, 0), []string{"bytes by arch"}, "n_kv_heads"},
		{"flag", word(8, 0x063), []string{"flags"}, "no vision tensors"},
		{"name", func(b []byte) []byte { b[entry(3, 0)] = 1; return b }, []string{"names"}, "not printable"},
		{"twice", func(b []byte) []byte { copy(b[entry(3, 0):entry(3, 32)], b[entry(2, 0):]); return b }, []string{"names", "bytes by arch"}, ""},
		{"unaligned", func(b []byte) []byte { b[entry(6, 48)]++; return b }, []string{"offsets aligned", "offsets chained", "bounds", "bytes by arch"}, ""},
		{"swapped", func(b []byte) []byte {
			var x [64]byte
			copy(x[:], b[entry(2, 0):])
			copy(b[entry(2, 0):entry(3, 0)], b[entry(3, 0):])
			copy(b[entry(3, 0):], x[:])
			return b
		}, []string{"offsets chained", "checksum"}, ""},
		{"first offset", func(b []byte) []byte {
			var x [64]byte
			copy(x[:], b[entry(0, 0):])
			copy(b[entry(0, 0):entry(1, 0)], b[entry(1, 0):])
			copy(b[entry(1, 0):], x[:])
			return b
		}, []string{"first offset", "offsets chained", "checksum"}, ""},
		{"bytes", func(b []byte) []byte { b[entry(6, 56)]--; return b }, []string{"bytes by formula", "bounds", "bytes by arch"}, ""},
		{"last", func(b []byte) []byte { b[entry(14, 36)] -= 8; b[entry(14, 56)] -= 32; return b }, []string{"bytes by arch"}, "multiple of 16"},
		{"gap", func(b []byte) []byte { b[4095] = 1; return b }, []string{"gap"}, "offset 4095"},
		{"gap after the short header", func(b []byte) []byte { b[440] = 1; return b }, []string{"gap"}, "offset 440"},
		{"padding", func(b []byte) []byte { b[metaAt-1] = 1; return b }, []string{"padding", "checksum"}, `after tensor "q4_lm"`},
		{"meta", func(b []byte) []byte { b[metaAt] = '['; return b }, []string{"t_meta", "checksum"}, "is no JSON"},
		{"data", func(b []byte) []byte { b[4096] ^= 1; return b }, []string{"checksum"}, "checksum mismatch"},
		{"trailer", func(b []byte) []byte { b[fileLen] ^= 1; return b }, []string{"checksum"}, "checksum mismatch"},
		{"layout", word(8, 0x021), []string{"q4 layout"}, "not row-major"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := vqf.Verify(t.Context(), tempFile(t, c.edit(append([]byte(nil), good...))), vqf.VerifyOptions{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			failed := map[string]bool{}
			for _, l := range r.Checks {
				if l.Status == vqf.StatusFail {
					failed[l.Name] = true
				}
			}
			for _, name := range c.fails {
				if !failed[name] {
					t.Errorf("line %q does not fail", name)
				}
				delete(failed, name)
			}
			for name := range failed {
				if name != "last end" && name != "offsets chained" { // neighbours of what was damaged
					t.Errorf("line %q fails too", name)
				}
			}
			if r.OK() || r.Err() == nil || !strings.Contains(r.String(), "FAIL: ") || !strings.Contains(r.String(), c.say) {
				t.Errorf("err %v, report:\n%s", r.Err(), r)
			}
		})
	}
}

// TestVerifyNotes: what cannot be checked says so, and does not fail a file
// that is otherwise sound — but an encrypted one cannot pass.
func TestVerifyNotes(t *testing.T) {
	path, _ := writeMini(t, miniSpec(vqf.ModeQ4, 45), nil, nil)
	good := readFile(t, path)

	none := append([]byte(nil), good...)
	copy(none[20416:], make([]byte, 8))
	r, err := vqf.Verify(t.Context(), tempFile(t, none), vqf.VerifyOptions{}, nil)
	if err != nil || !r.OK() {
		t.Fatalf("%v\n%s", err, r)
	}
	if c := statuses(r)["checksum"]; c.Status != vqf.StatusNote || !strings.Contains(c.Detail, "no checksum") {
		t.Errorf("checksum 0: got %+v", c)
	}

	signed := sealedBytes(t, good, 45, sealing{id: seal.IDKestrel})
	r, err = vqf.Verify(t.Context(), tempFile(t, signed), vqf.VerifyOptions{}, nil)
	if err != nil || !r.OK() {
		t.Fatalf("%v\n%s", err, r)
	}
	if c := statuses(r)["signature"]; c.Status != vqf.StatusNote || !strings.Contains(c.Detail, "holds, but no trusted key says whose it is") {
		t.Errorf("signature: got %+v", c)
	}

	enc := append(patch(good, map[int]uint32{8: 0x0A3, 216: 7}), make([]byte, 24)...)
	r, err = vqf.Verify(t.Context(), tempFile(t, enc), vqf.VerifyOptions{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if c := statuses(r)["tag"]; r.OK() || c.Status != vqf.StatusFail || !errors.Is(r.Err(), vqf.ErrKey) {
		t.Errorf("encrypted: got %+v, %v", c, r.Err())
	}
}

// TestVerifyUnreadable: not being able to read is an error, not a bad file.
func TestVerifyUnreadable(t *testing.T) {
	path, _ := writeMini(t, miniSpec(vqf.ModeQ4, 45), nil, nil)
	f, err := vqf.Open(path, vqf.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if r, err := f.Verify(t.Context(), vqf.VerifyOptions{}, nil); !errors.Is(err, os.ErrClosed) {
		t.Errorf("closed: got %v, %v", r, err)
	}
	if r, err := vqf.Verify(t.Context(), path+".none", vqf.VerifyOptions{}, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing: got %v, %v", r, err)
	}
	f = open(t, path, vqf.OpenOptions{})
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if r, err := f.Verify(t.Context(), vqf.VerifyOptions{}, nil); err != nil || !r.OK() {
		t.Errorf("removed, still open: got %v, %v", r, err)
	}
}

func TestVerifyCancelled(t *testing.T) {
	path := sparse(t, publishedFiles()[1].plan(t))
	ctx, cancel := context.WithCancel(t.Context())
	var seen int64
	_, err := vqf.Verify(ctx, path, vqf.VerifyOptions{}, func(done, _ int64) { seen = done; cancel() })
	if !errors.Is(err, context.Canceled) || seen > 16<<20 {
		t.Errorf("got %v after %d bytes, want context.Canceled soon", err, seen)
	}
}

// TestVerifyAgreesWithOpen damages files at random: Verify never fails to
// report, and never passes what Open refuses.
func TestVerifyAgreesWithOpen(t *testing.T) {
	path, _ := writeMini(t, miniSpec(vqf.ModeDual, 0), nil, map[string]string{vqf.NameMeta: "{}"})
	good := readFile(t, path)
	rng := rand.New(rand.NewPCG(3, 4))
	path = filepath.Join(t.TempDir(), "x.vqf")
	refusals := 0
	for range 1000 {
		b := append([]byte(nil), good...)
		for range 1 + rng.IntN(3) {
			at := rng.IntN(448 + 64*23)
			if rng.IntN(2) == 0 {
				b[at] ^= 1 << rng.IntN(8)
			} else {
				b[at] = byte(rng.Uint32())
			}
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := vqf.Verify(t.Context(), path, vqf.VerifyOptions{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		f, err := vqf.Open(path, vqf.OpenOptions{FullCheck: true})
		if err == nil {
			if err := f.Close(); err != nil {
				t.Error(err)
			}
			continue
		}
		refusals++
		if r.OK() {
			t.Errorf("Verify passes what Open refuses: %v", err)
		}
		info, ierr := vqf.Inspect(path)
		if ierr != nil || info.Refused == nil && !errors.Is(err, vqf.ErrChecksum) {
			t.Errorf("Inspect: got %v, %v, want %v", info, ierr, err)
		}
	}
	if refusals < 500 {
		t.Errorf("only %d of 1000 damaged files were refused", refusals)
	}
}
