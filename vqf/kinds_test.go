// SPDX-License-Identifier: Apache-2.0

package vqf_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	"windhover/vqf"
)

// TestKinds writes every kind of file there is and reads it back, plain and
// encrypted: flags by docs/FORMAT.md section 4.1, layouts, bytes.
func TestKinds(t *testing.T) {
	seven, six := miniArch(), miniArch() // vocabularies that 8, and that 4 does not divide
	seven.VocabSize, six.VocabSize = 12, 14
	for _, c := range []struct {
		name   string
		arch   vqf.Arch
		mode   vqf.Mode
		want   vqf.Layout
		f32    bool // embedding
		flags  vqf.Flags
		q8, q4 vqf.Layout
	}{
		{"q8", miniArch(), vqf.ModeQ8, vqf.Layout8x8, false, 0x023, vqf.Layout8x8, 0},
		{"q4", miniArch(), vqf.ModeQ4, vqf.Layout8x8, false, 0x023, 0, vqf.Layout4x4},
		{"dual", miniArch(), vqf.ModeDual, vqf.Layout8x8, false, 0x023, vqf.Layout8x8, vqf.Layout4x4},
		{"q8 4x4", miniArch(), vqf.ModeQ8, vqf.Layout4x4, false, 0x022, vqf.Layout4x4, 0},
		{"dual 4x4", miniArch(), vqf.ModeDual, vqf.Layout4x4, false, 0x022, vqf.Layout4x4, vqf.Layout4x4},
		{"q8 row-major", miniArch(), vqf.ModeQ8, vqf.LayoutRow, false, 0x022, vqf.LayoutRow, 0},
		{"q4i", miniArch(), vqf.ModeQ4I, vqf.Layout8x8, false, 0x02A, vqf.LayoutRow, 0},
		{"g256", miniArch(), vqf.ModeG256, vqf.Layout8x8, false, 0x033, vqf.Layout8x8, 0},
		{"g256 4x4", miniArch(), vqf.ModeG256, vqf.Layout4x4, false, 0x032, vqf.Layout4x4, 0},
		{"q8, vocabulary of 12", seven, vqf.ModeQ8, vqf.Layout8x8, false, 0x022, vqf.LayoutRow, 0},
		{"dual, vocabulary of 12", seven, vqf.ModeDual, vqf.Layout8x8, false, 0x022, vqf.LayoutRow, vqf.Layout4x4},
		{"dual, vocabulary of 14", six, vqf.ModeDual, vqf.Layout8x8, false, 0x020, vqf.LayoutRow, vqf.LayoutRow},
		{"q4, vocabulary of 14", six, vqf.ModeQ4, vqf.Layout8x8, false, 0x021, 0, vqf.LayoutRow},
		{"q8, F32 embedding", miniArch(), vqf.ModeQ8, vqf.Layout8x8, true, 0x003, vqf.Layout8x8, 0},
		{"q4i, F32 embedding", miniArch(), vqf.ModeQ4I, vqf.Layout8x8, true, 0x00A, vqf.LayoutRow, 0},
	} {
		for _, fields := range []int{41, 45} {
			t.Run(fmt.Sprintf("%s-%d", c.name, fields), func(t *testing.T) {
				s := specOf(c.arch, c.mode, c.want, fields)
				s.EmbF32 = c.f32
				if c.name == "q4, vocabulary of 14" { // bit 0 mirrors the setting, though there are no q8_*
					s.Q8 = vqf.Layout8x8
				}
				path, _ := writeMini(t, s, nil, nil)
				plain := readFile(t, path)
				key := vectorKey(t)
				for _, f := range []*vqf.File{
					open(t, path, vqf.OpenOptions{FullCheck: true, Strict: true, Expect: c.flags}),
					open(t, tempFile(t, sealedBytes(t, plain, fields, sealing{key: key, iv: vectorIV()})), vqf.OpenOptions{Key: key}),
				} {
					if got := f.Flags() &^ vqf.FlagEnc; got != c.flags {
						t.Errorf("flags: got 0x%03x, want 0x%03x", uint32(got), uint32(c.flags))
					}
					if l, err := f.Q8Layout(); f.HasQ8() && (err != nil || l != c.q8) {
						t.Errorf("Q8Layout: got %v, %v, want %v", l, err, c.q8)
					}
					if l, err := f.Q4Layout(); f.HasQ4() && (err != nil || l != c.q4) {
						t.Errorf("Q4Layout: got %v, %v, want %v", l, err, c.q4)
					}
					for _, e := range f.Tensors() {
						d, err := f.Data(e.Name)
						if err != nil || !bytes.Equal(d, payload(t, s.Arch, s.Mode, e, layoutOf(s, e.Name))) {
							t.Errorf("%s: %v, or other bytes", e.Name, err)
						}
					}
					x, err := f.Floats("token_embed")
					if c.f32 && (err != nil || len(x) != 32*int(c.arch.VocabSize) || x[1] != float32(37-125)/128) {
						t.Errorf("F32 embedding: got %d values, %v", len(x), err)
					}
				}
			})
		}
	}
}

// TestShortHeaderVectors are the files "41 fields, q8" and "41 fields, dual": the
// 45-field vectors with the four words of experts taken out, and the pad moved.
func TestShortHeaderVectors(t *testing.T) {
	for mode, sha := range map[vqf.Mode]string{
		vqf.ModeQ8:   "4f5b7b6891474d02962c4840b6acbf82d4fb985c35f57dec56de505f9d638624",
		vqf.ModeDual: "01e05b7041df2d77a8966d00bfa39078263c8a9008fa76d264a7891bab471b36",
	} {
		long, _ := writeMini(t, miniSpec(mode, 45), nil, nil)
		b := readFile(t, long)
		if got := sha256.Sum256(b); hex.EncodeToString(got[:]) != sha {
			t.Fatalf("%s: got %x, want %s", mode, got, sha)
		}
		want := append([]byte(nil), b[:180]...)
		want = append(append(want, b[196:448]...), make([]byte, 16)...)
		want = append(want, b[448:]...)
		short, _ := writeMini(t, miniSpec(mode, 41), nil, nil)
		if !bytes.Equal(readFile(t, short), want) {
			t.Errorf("%s: the 41-field file is not the vector's", mode)
		}
	}
}

// TestX8Copies: a file with x8_* copies is read as if they were not there, with
// and without the flag; the strict gate refuses the flag, as the original does.
func TestX8Copies(t *testing.T) {
	s := miniSpec(vqf.ModeQ4, 45)
	plan, err := vqf.NewPlan(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range plan.Tensors {
		if m, ok := strings.CutPrefix(e.Name, "q4_"); ok && m != "lm" {
			e.Name, e.Type = "x8_"+m, vqf.Q4_8X8L
			plan.Tensors = append(plan.Tensors, e)
		}
	}
	if err := plan.Rechain(); err != nil {
		t.Fatal(err)
	}
	b := append(plan.Prefix(), bytes.Repeat([]byte{0xFF}, int(plan.Size())-int(plan.Header.DataOffset))...)
	clear(b[plan.Header.FileLen:]) // no checksum
	for _, e := range plan.Tensors {
		if e.Type != vqf.Q4_8X8L { // whose bytes are no numbers at all: nobody may look at them
			copy(b[e.Offset:], payload(t, s.Arch, s.Mode, e, layoutOf(s, e.Name)))
		}
	}
	for _, flags := range []uint32{0x027, 0x023} {
		path := tempFile(t, patch(b, map[int]uint32{8: flags}))
		f := open(t, path, vqf.OpenOptions{})
		if l, err := f.Q4Layout(); err != nil || l != vqf.Layout4x4 || f.HasQ8() {
			t.Errorf("0x%03x: got %v, %v", flags, l, err)
		}
		if e, ok := f.Tensor("x8_down"); !ok || e.Type != vqf.Q4_8X8L || e.Bytes != 2304 {
			t.Errorf("x8_down: got %+v", e)
		}
		strict, err := vqf.Open(path, vqf.OpenOptions{Strict: true, Expect: 0x023})
		if flags == 0x027 && (!errors.Is(err, vqf.ErrLayoutMismatch) || !strings.Contains(err.Error(), "the file has X8")) {
			t.Errorf("strict: got %v", err)
		}
		if err == nil {
			if err := strict.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	// They are known names all the same, and held to their size.
	bad := append([]byte(nil), b...)
	at := 448 + 64*14
	bad[at+36] -= 32 // rows of x8_q; its bytes follow
	bad[at+56], bad[at+57] = 0x80, 0x04
	_, _, err = parse(bad)
	refused(t, err, `tensor "x8_q" bytes`, int64(at+56))
}

// TestStraddling is hazard 3 of docs/FORMAT.md section 6.10: where 32 does not
// divide the columns, blocks straddle rows; nothing can compute with such a file.
func TestStraddling(t *testing.T) {
	path, _ := writeMini(t, miniSpec(vqf.ModeQ4, 45), nil, nil)
	good := readFile(t, path)
	for _, c := range []struct {
		field  string
		offset int64
		words  map[int]uint32
	}{
		{"dim", 16, map[int]uint32{16: 48}},
		{"ffn_dim", 36, map[int]uint32{36: 80}},
		{"n_heads", 24, map[int]uint32{24: 1, 32: 48, 72: 48}},
	} {
		_, err := vqf.Open(tempFile(t, patch(good, c.words)), vqf.OpenOptions{})
		if !errors.Is(err, vqf.ErrUnsupported) && !errors.Is(err, vqf.ErrFormat) {
			t.Errorf("%s: got %v", c.field, err)
		}
		a := miniArch()
		switch c.field {
		case "dim":
			a.Dim = 48
		case "ffn_dim":
			a.FFNDim = 80
		default:
			a.NHeads, a.HeadDim, a.HeadDimFull = 1, 48, 48
		}
		_, err = vqf.NewPlan(vqf.Spec{Arch: a, Mode: vqf.ModeQ4})
		if !errors.Is(err, vqf.ErrUnsupported) || !strings.Contains(err.Error(), "straddle rows") {
			t.Errorf("%s: plan: got %v", c.field, err)
		}
	}
}
