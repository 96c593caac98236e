// SPDX-License-Identifier: Apache-2.0

package vqf_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"windhover/vqf"
)

// TestData compares every tensor with what was written.
func TestData(t *testing.T) {
	s := miniSpec(vqf.ModeDual, 0)
	path, _ := writeMini(t, s, nil, nil)
	f := open(t, path, vqf.OpenOptions{})
	if f.Path() != path || !f.HasQ8() || !f.HasQ4() || f.HasVision() || f.Flags() != 0x023 || f.Arch() != miniArch() {
		t.Errorf("got %s, %v, %v, %v, %v", f.Path(), f.HasQ8(), f.HasQ4(), f.HasVision(), f.Flags())
	}
	for _, e := range f.Tensors() {
		got, err := f.Data(e.Name)
		if err != nil {
			t.Fatal(err)
		}
		if want := payload(t, s.Arch, s.Mode, e, layoutOf(s, e.Name)); !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes differ from the %d written", e.Name, len(got), len(want))
		}
		if cap(got) != len(got) {
			t.Errorf("%s: the view reaches past its tensor", e.Name)
		}
		floats, err := f.Floats(e.Name)
		switch {
		case e.Type != vqf.F32:
			if !errors.Is(err, vqf.ErrFormat) {
				t.Errorf("Floats of %s %s: got %v", e.Type, e.Name, err)
			}
		case err != nil:
			t.Error(err)
		default:
			for i, v := range floats {
				if want := math.Float32frombits(binary.LittleEndian.Uint32(got[4*i:])); v != want {
					t.Fatalf("%s[%d]: got %v, want %v", e.Name, i, v, want)
				}
			}
			if 4*len(floats) != len(got) {
				t.Errorf("%s: got %d floats of %d bytes", e.Name, len(floats), len(got))
			}
		}
	}
	for _, name := range []string{"q8_none", "", "Q8_q"} {
		if _, ok := f.Tensor(name); ok {
			t.Errorf("Tensor(%q) is there", name)
		}
		if _, err := f.Data(name); !errors.Is(err, vqf.ErrFormat) {
			t.Errorf("Data(%q): got %v", name, err)
		}
	}
}

// TestEmbedded: t_tokenizer and t_meta come back as they went in.
func TestEmbedded(t *testing.T) {
	for _, n := range []int{2, 63, 64, 65, 5000} {
		extra := map[string]string{
			vqf.NameTokenizer: `{"t":"` + strings.Repeat("x", n) + `"}`,
			vqf.NameMeta:      `"` + strings.Repeat("m", n-2) + `"`,
		}
		path, _ := writeMini(t, miniSpec(vqf.ModeQ4, 0), nil, extra)
		f := open(t, path, vqf.OpenOptions{FullCheck: true})
		if got := string(f.Tokenizer()); got != extra[vqf.NameTokenizer] {
			t.Errorf("%d: tokenizer: got %d bytes, want %d", n, len(got), len(extra[vqf.NameTokenizer]))
		}
		if got := string(f.Meta()); got != extra[vqf.NameMeta] {
			t.Errorf("%d: meta: got %d bytes, want %d", n, len(got), len(extra[vqf.NameMeta]))
		}
		e, _ := f.Tensor(vqf.NameMeta)
		if want := uint32(16 * ((n + 63) / 64)); e.Type != vqf.F32 || e.Cols != 1 || e.Rows != want {
			t.Errorf("%d: got %+v, want %d rows", n, e, want)
		}
	}
	path, _ := writeMini(t, miniSpec(vqf.ModeQ4, 0), nil, nil)
	if f := open(t, path, vqf.OpenOptions{}); f.Tokenizer() != nil || f.Meta() != nil {
		t.Error("a bare file has a tokenizer or metadata")
	}
}

// TestEmbeddedMalformed: the entries are held to their form.
func TestEmbeddedMalformed(t *testing.T) {
	path, _ := writeMini(t, miniSpec(vqf.ModeQ4, 0), nil, map[string]string{vqf.NameMeta: strings.Repeat("{}", 64)})
	good := readFile(t, path)
	at := 448 + 64*14
	for _, c := range []struct {
		field  string
		offset int
		words  map[int]uint32
	}{
		{"qtype", at + 32, map[int]uint32{at + 32: 5, at + 36: 64}},
		{"cols", at + 40, map[int]uint32{at + 36: 16, at + 40: 2}},
		{"rows", at + 36, map[int]uint32{at + 36: 31, at + 56: 124}},
		{"rows", at + 36, map[int]uint32{at + 36: 0, at + 56: 0}},
	} {
		_, _, err := parse(patch(good, c.words))
		refused(t, err, `tensor "t_meta" `+c.field, int64(c.offset))
	}
}

// TestForeignEntries: unknown names, unknown types, empty entries and any
// order are no reason to refuse a file; only Verify minds the order.
func TestForeignEntries(t *testing.T) {
	plan, err := vqf.NewPlan(miniSpec(vqf.ModeDual, 45))
	if err != nil {
		t.Fatal(err)
	}
	plan.Tensors = append(plan.Tensors,
		vqf.Tensor{Name: "x9_future", Type: 77, Rows: 1, Cols: 3, Bytes: 100},
		vqf.Tensor{Name: "empty", Type: vqf.F32, Cols: 9},
		vqf.Tensor{Name: "x8_q", Type: vqf.Q4_8X8L, Rows: 64, Cols: 64, Bytes: 2304},
	)
	if err := plan.Rechain(); err != nil {
		t.Fatal(err)
	}
	ts := plan.Tensors
	ts[0], ts[7], ts[20] = ts[20], ts[0], ts[7]
	f := open(t, sparse(t, plan), vqf.OpenOptions{})
	if len(f.Tensors()) != 25 {
		t.Errorf("got %d entries", len(f.Tensors()))
	}
	for name, want := range map[string]int{"x9_future": 100, "empty": 0, "x8_q": 2304, "token_embed": 1024} {
		if b, err := f.Data(name); err != nil || len(b) != want {
			t.Errorf("%s: got %d bytes, %v, want %d", name, len(b), err, want)
		}
	}
	if v, err := f.Floats("empty"); err != nil || len(v) != 0 {
		t.Errorf("empty: got %v, %v", v, err)
	}
	ts[24].Bytes, ts[24].Rows = 18, 1 // an x8 copy of the wrong size is not ignored
	_, err = vqf.Open(sparse(t, plan), vqf.OpenOptions{})
	refused(t, err, `tensor "x8_q" bytes`, 448+64*24+56)
}

// TestDeepstackless: without deepstack mergers the six entries may be there,
// empty, or not be there.
func TestDeepstackless(t *testing.T) {
	a := qwen3VL2B()
	a.VisDSCount, a.VisDSIdx = 0, [4]int32{}
	s := specOf(a, vqf.ModeQ4, vqf.Layout8x8, 0)
	s.Vision = true
	plan, err := vqf.NewPlan(s)
	if err != nil {
		t.Fatal(err)
	}
	if e, ok := plan.Tensor("v_ds_f1w"); !ok || e.Rows != 0 || e.Bytes != 0 {
		t.Errorf("got %+v", e)
	}
	if f := open(t, sparse(t, plan), vqf.OpenOptions{}); !f.HasVision() {
		t.Error("no vision")
	}
	plan.Tensors = plan.Tensors[:len(plan.Tensors)-6]
	if err := plan.Rechain(); err != nil {
		t.Fatal(err)
	}
	open(t, sparse(t, plan), vqf.OpenOptions{})
	plan.Tensors = plan.Tensors[:len(plan.Tensors)-1]
	if err := plan.Rechain(); err != nil {
		t.Fatal(err)
	}
	_, err = vqf.Open(sparse(t, plan), vqf.OpenOptions{})
	refused(t, err, "directory", 448)
}

// TestTextOnly: a source with vision may give a file without it.
func TestTextOnly(t *testing.T) {
	plan, err := vqf.NewPlan(specOf(qwen3VL2B(), vqf.ModeQ4, vqf.Layout8x8, 0))
	if err != nil {
		t.Fatal(err)
	}
	f := open(t, sparse(t, plan), vqf.OpenOptions{})
	if f.HasVision() || f.Arch().HasVision != 1 {
		t.Errorf("HasVision %v, has_vision %d", f.HasVision(), f.Arch().HasVision)
	}
}

// TestClose: idempotent, and what follows is an error, not a fault.
func TestClose(t *testing.T) {
	path, _ := writeMini(t, miniSpec(vqf.ModeQ4, 0), nil, map[string]string{vqf.NameMeta: "{}"})
	f, err := vqf.Open(path, vqf.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := f.Data("q4_q"); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Data: got %v", err)
	}
	if _, err := f.Floats("final_norm"); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Floats: got %v", err)
	}
	if _, err := f.Q4Layout(); err == nil {
		t.Error("Q4Layout of a closed file works")
	}
	if f.Meta() != nil {
		t.Error("Meta of a closed file works")
	}
}

// TestConcurrent uses one file from many goroutines; the race detector judges.
func TestConcurrent(t *testing.T) {
	path, _ := writeMini(t, specOf(miniArch(), vqf.ModeDual, vqf.Layout4x4, 0), nil, map[string]string{vqf.NameMeta: "{}"})
	f, err := vqf.Open(path, vqf.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for _, e := range f.Tensors() {
				if b, err := f.Data(e.Name); err != nil || uint64(len(b)) != e.Bytes {
					t.Errorf("%s: %d bytes, %v", e.Name, len(b), err)
				}
			}
			if l, err := f.Q8Layout(); err != nil || l != vqf.Layout4x4 {
				t.Errorf("Q8Layout: %v, %v", l, err)
			}
			if r, err := f.Verify(t.Context(), vqf.VerifyOptions{}, nil); err != nil || !r.OK() {
				t.Errorf("Verify: %v, %v", r, err)
			}
			if string(f.Meta()) != "{}" {
				t.Error("Meta differs")
			}
		})
	}
	wg.Wait()
	for range 4 {
		wg.Go(func() { _ = f.Close() })
		wg.Go(func() { _, _ = f.Data("q4_q") })
	}
	wg.Wait()
}

// TestNoFiles: what is no file, or none of ours.
func TestNoFiles(t *testing.T) {
	dir := t.TempDir()
	if _, err := vqf.Open(filepath.Join(dir, "none.vqf"), vqf.OpenOptions{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing: got %v", err)
	}
	if _, err := vqf.Open(dir, vqf.OpenOptions{}); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("directory: got %v", err)
	}
	for _, c := range []struct{ content, say string }{
		{"", "0 bytes are too few"},
		{"FQFW", "4 bytes are too few"},
		{"GGUF" + strings.Repeat("\x00", 600), `magic (at offset 0): is "GGUF", want "FQFW"`},
		{"VQFW" + strings.Repeat("\x00", 600), `is "VQFW"`},
	} {
		_, err := vqf.Open(tempFile(t, []byte(c.content)), vqf.OpenOptions{})
		if !errors.Is(err, vqf.ErrFormat) || !strings.Contains(err.Error(), c.say) {
			t.Errorf("%.8q: got %v, want %q", c.content, err, c.say)
		}
	}
}

// TestFullCheck: damage in the data is found when asked for, and a stored 0 is
// no checksum.
func TestFullCheck(t *testing.T) {
	path, _ := writeMini(t, miniSpec(vqf.ModeQ4, 0), nil, nil)
	good := readFile(t, path)
	for _, at := range []int{4096, 20000, 20415} {
		b := append([]byte(nil), good...)
		b[at] ^= 0x10
		path := tempFile(t, b)
		open(t, path, vqf.OpenOptions{})
		_, err := vqf.Open(path, vqf.OpenOptions{FullCheck: true})
		if !errors.Is(err, vqf.ErrChecksum) {
			t.Errorf("byte %d: got %v, want ErrChecksum", at, err)
		}
	}
	b := append([]byte(nil), good...)
	copy(b[20416:], make([]byte, 8))
	b[5000] ^= 1
	open(t, tempFile(t, b), vqf.OpenOptions{FullCheck: true})
	b = append([]byte(nil), good...)
	b[4000] = 1 // the gap is covered by nothing
	open(t, tempFile(t, b), vqf.OpenOptions{FullCheck: true})
}

// TestDeclaredSize: a file in the making says how long it will be.
func TestDeclaredSize(t *testing.T) {
	for _, p := range publishedFiles() {
		prefix := p.plan(t).Prefix()
		if n, ok := vqf.DeclaredSize(prefix[:448]); !ok || n != p.size {
			t.Errorf("%s: got %d, %v, want %d", p.name, n, ok, p.size)
		}
		if n, ok := vqf.DeclaredSize(prefix[:447]); ok {
			t.Errorf("%s: 447 bytes say %d", p.name, n)
		}
	}
	if n, ok := vqf.DeclaredSize(make([]byte, 448)); ok {
		t.Errorf("zeros say %d", n)
	}
}
