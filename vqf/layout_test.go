// SPDX-License-Identifier: Apache-2.0

package vqf_test

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"windhover/vqf"
)

// q8File writes a q8 file whose q8_* lie as given, sets or clears flag bits,
// and opens it.
func q8File(t *testing.T, a vqf.Arch, mode vqf.Mode, l func(name string) vqf.Layout, flags uint32, extra map[string]string) (*vqf.File, error) {
	t.Helper()
	s := vqf.Spec{Arch: a, Mode: mode, Fields: 45}
	path, _ := writeMini(t, s, l, extra)
	b := patch(readFile(t, path), map[int]uint32{8: flags})
	f, err := vqf.Open(tempFile(t, b), vqf.OpenOptions{})
	if err == nil {
		t.Cleanup(func() { _ = f.Close() })
	}
	return f, err
}

func all(l vqf.Layout) func(string) vqf.Layout { return func(string) vqf.Layout { return l } }

// TestQ8Layout is the reader's rule for q8_*, docs/FORMAT.md section 6.10.
func TestQ8Layout(t *testing.T) {
	odd4 := miniArch() // divisible by 4, not by 8
	odd4.VocabSize = 12
	odd := miniArch()
	odd.VocabSize = 14
	wide := func(l vqf.Layout) func(string) vqf.Layout { // q8_lm stays row-major
		return func(name string) vqf.Layout {
			if name == "q8_lm" {
				return vqf.LayoutRow
			}
			return l
		}
	}
	for _, c := range []struct {
		name  string
		arch  vqf.Arch
		mode  vqf.Mode
		lie   func(string) vqf.Layout
		flags uint32
		meta  string
		want  vqf.Layout
		err   string // part of the refusal
	}{
		{"8x8 by flag", miniArch(), vqf.ModeQ8, all(vqf.Layout8x8), 0x021, "", vqf.Layout8x8, ""},
		{"row by probe", miniArch(), vqf.ModeQ8, all(vqf.LayoutRow), 0x020, "", vqf.LayoutRow, ""},
		{"4x4 by probe", miniArch(), vqf.ModeQ8, all(vqf.Layout4x4), 0x020, "", vqf.Layout4x4, ""},
		{"g256 4x4 by probe", miniArch(), vqf.ModeG256, all(vqf.Layout4x4), 0x030, "", vqf.Layout4x4, ""},
		{"row by t_meta", miniArch(), vqf.ModeQ8, all(vqf.LayoutRow), 0x020, `{"q8_layout":"row"}`, vqf.LayoutRow, ""},
		{"4x4 by t_meta", miniArch(), vqf.ModeQ8, all(vqf.Layout4x4), 0x020, `{"q8_layout":"4x4"}`, vqf.Layout4x4, ""},
		{"t_meta without the word", miniArch(), vqf.ModeQ8, all(vqf.Layout4x4), 0x020, `{"v":1}`, vqf.Layout4x4, ""},
		{"q4i is row-major", miniArch(), vqf.ModeQ4I, all(vqf.LayoutRow), 0x02A, "", vqf.LayoutRow, ""},
		{"vocabulary of 12 in 4x4", odd4, vqf.ModeQ8, all(vqf.Layout4x4), 0x020, "", vqf.Layout4x4, ""},
		{"vocabulary of 14 in row-major", odd, vqf.ModeQ8, all(vqf.LayoutRow), 0x020, "", vqf.LayoutRow, ""},
		{"hazard 1 in 8x8", odd4, vqf.ModeQ8, wide(vqf.Layout8x8), 0x021, "", 0, "hazard 1"},
		{"hazard 1 in 4x4", odd, vqf.ModeQ8, wide(vqf.Layout4x4), 0x020, "", 0, "hazard 1"},
		{"flag set on row-major bytes", miniArch(), vqf.ModeQ8, all(vqf.LayoutRow), 0x021, "", 0, "their scales are not"},
		{"flag set on 4x4 bytes", miniArch(), vqf.ModeQ8, all(vqf.Layout4x4), 0x021, "", 0, "their scales are not"},
		{"flag lost from 8x8 bytes", miniArch(), vqf.ModeQ8, all(vqf.Layout8x8), 0x020, "", 0, "neither row-major nor 4x4"},
		{"q4i flag lost", miniArch(), vqf.ModeQ4I, all(vqf.LayoutRow), 0x022, "", 0, "neither row-major nor 4x4"},
		{"t_meta lies", miniArch(), vqf.ModeQ8, all(vqf.LayoutRow), 0x020, `{"q8_layout":"4x4"}`, 0, "their scales are not"},
		{"t_meta against the flag", miniArch(), vqf.ModeQ8, all(vqf.Layout8x8), 0x020, `{"q8_layout":"8x8"}`, 0, "flag is clear"},
		{"t_meta with another word", miniArch(), vqf.ModeQ8, all(vqf.LayoutRow), 0x020, `{"q8_layout":"16x1"}`, 0, "t_meta"},
		{"t_meta is no JSON", miniArch(), vqf.ModeQ8, all(vqf.LayoutRow), 0x020, `{"q8_layout`, 0, "no JSON object"},
	} {
		t.Run(c.name, func(t *testing.T) {
			extra := map[string]string{}
			if c.meta != "" {
				extra[vqf.NameMeta] = c.meta
			}
			f, err := q8File(t, c.arch, c.mode, c.lie, c.flags, extra)
			var got vqf.Layout
			if err == nil {
				got, err = f.Q8Layout()
			}
			if c.err == "" && (err != nil || got != c.want) {
				t.Errorf("got %v, %v, want %v", got, err, c.want)
			}
			var fe *vqf.FormatError
			if c.err != "" && (!errors.As(err, &fe) || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("got %v, %v, want a FormatError with %q", got, err, c.err)
			}
		})
	}
}

// TestQ4Layout is the same for q4_*.
func TestQ4Layout(t *testing.T) {
	odd := miniArch() // the Q4 gate is closed by the vocabulary alone
	odd.VocabSize = 14
	oddKV := miniArch() // … and here by the keys, which stay row-major
	oddKV.NHeads, oddKV.HeadDim, oddKV.HeadDimFull = 16, 2, 2
	for _, c := range []struct {
		name  string
		arch  vqf.Arch
		lie   func(string) vqf.Layout
		flags uint32
		want  vqf.Layout
		err   string
	}{
		{"4x4 by flag", miniArch(), all(vqf.Layout4x4), 0x022, vqf.Layout4x4, ""},
		{"row-major", miniArch(), all(vqf.LayoutRow), 0x020, vqf.LayoutRow, ""},
		{"row-major, gate closed", odd, all(vqf.LayoutRow), 0x020, vqf.LayoutRow, ""},
		{"flag lost", miniArch(), all(vqf.Layout4x4), 0x020, 0, "are not row-major"},
		{"flag set on row-major bytes", miniArch(), all(vqf.LayoutRow), 0x022, 0, "are not 4x4"},
		{"flag set, gate closed", odd, all(vqf.LayoutRow), 0x022, 0, "is not a multiple of 4"},
		{"hazard 2: all but lm", odd, func(name string) vqf.Layout {
			if name == "q4_lm" {
				return vqf.LayoutRow
			}
			return vqf.Layout4x4
		}, 0x020, 0, "hazard 2"},
		{"hazard 2: all but k and v", oddKV, func(name string) vqf.Layout {
			if name == "q4_k" || name == "q4_v" {
				return vqf.LayoutRow
			}
			return vqf.Layout4x4
		}, 0x020, 0, "hazard 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := q8File(t, c.arch, vqf.ModeQ4, c.lie, c.flags, nil)
			var got vqf.Layout
			if err == nil {
				got, err = f.Q4Layout()
			}
			if c.err == "" && (err != nil || got != c.want) {
				t.Errorf("got %v, %v, want %v", got, err, c.want)
			}
			if c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("got %v, %v, want an error with %q", got, err, c.err)
			}
		})
	}
}

// TestAmbiguous: scales that are all zero tell nothing.
func TestAmbiguous(t *testing.T) {
	plan, err := vqf.NewPlan(vqf.Spec{Arch: miniArch(), Mode: vqf.ModeQ8})
	if err != nil {
		t.Fatal(err)
	}
	f := open(t, sparse(t, plan), vqf.OpenOptions{})
	for range 2 { // the answer is kept
		if l, err := f.Q8Layout(); !errors.Is(err, vqf.ErrUnsupported) || !strings.Contains(err.Error(), "ambiguous") {
			t.Errorf("got %v, %v, want an ambiguity", l, err)
		}
	}
	if _, err := f.Q4Layout(); !errors.Is(err, vqf.ErrUnsupported) {
		t.Errorf("Q4Layout without q4_*: got %v", err)
	}
}

// TestLayoutBitsFlipped: whichever layout bit flips, the reader notices or the
// numbers do not change.
func TestLayoutBitsFlipped(t *testing.T) {
	for _, mode := range []vqf.Mode{vqf.ModeDual, vqf.ModeQ4, vqf.ModeQ8, vqf.ModeQ4I, vqf.ModeG256} {
		path, _ := writeMini(t, miniSpec(mode, 0), nil, nil)
		b := readFile(t, path)
		for bit := range 5 {
			flag := vqf.Flags(1) << bit
			flags := binary.LittleEndian.Uint32(b[8:]) ^ uint32(flag)
			harmless := flag == vqf.FlagX8 || flag == vqf.FlagG256 && mode.HasQ8() && mode != vqf.ModeQ4I ||
				flag == vqf.FlagQ8x8 && !mode.HasQ8() || flag == vqf.FlagQ4x4 && !mode.HasQ4()
			f, err := vqf.Open(tempFile(t, patch(b, map[int]uint32{8: flags})), vqf.OpenOptions{})
			if err == nil {
				if f.HasQ8() {
					_, err = f.Q8Layout()
				}
				if f.HasQ4() && err == nil {
					_, err = f.Q4Layout()
				}
				if cerr := f.Close(); cerr != nil {
					t.Error(cerr)
				}
			}
			if (err == nil) != harmless {
				t.Errorf("%s, %s flipped: got %v, harmless is %v", mode, flag, err, harmless)
			}
		}
	}
}
