// SPDX-License-Identifier: Apache-2.0

package vqf_test

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"

	"windhover/vqf"
)

// TestDefaultLayouts is the writer's rule: a family whose geometry does not
// divide is row-major with its flag clear.
func TestDefaultLayouts(t *testing.T) {
	with := func(edit func(a *vqf.Arch)) vqf.Arch { a := miniArch(); edit(&a); return a }
	row, l4, l8 := vqf.LayoutRow, vqf.Layout4x4, vqf.Layout8x8
	for _, c := range []struct {
		name   string
		arch   vqf.Arch
		mode   vqf.Mode
		want   vqf.Layout
		q8, q4 vqf.Layout
		flags  vqf.Flags
	}{
		{"q4", miniArch(), vqf.ModeQ4, l8, l8, l4, 0x023},
		{"q8", miniArch(), vqf.ModeQ8, l8, l8, l4, 0x023},
		{"dual", miniArch(), vqf.ModeDual, l8, l8, l4, 0x023},
		{"dual in 4x4", miniArch(), vqf.ModeDual, l4, l4, l4, 0x022},
		{"dual row-major", miniArch(), vqf.ModeDual, row, row, l4, 0x022},
		{"q4i", miniArch(), vqf.ModeQ4I, l8, row, l4, 0x02A},
		{"g256", miniArch(), vqf.ModeG256, l8, l8, l4, 0x033},
		{"vocabulary of 12: no q8_lm, no matter", with(func(a *vqf.Arch) { a.VocabSize = 12 }), vqf.ModeQ4, l8, l8, l4, 0x023},
		{"vocabulary of 12 with q8_lm", with(func(a *vqf.Arch) { a.VocabSize = 12 }), vqf.ModeQ8, l8, row, l4, 0x022},
		{"vocabulary of 12 in 4x4", with(func(a *vqf.Arch) { a.VocabSize = 12 }), vqf.ModeQ8, l4, l4, l4, 0x022},
		{"vocabulary of 14", with(func(a *vqf.Arch) { a.VocabSize = 14 }), vqf.ModeDual, l8, row, row, 0x020},
		{"vocabulary of 14, q4", with(func(a *vqf.Arch) { a.VocabSize = 14 }), vqf.ModeQ4, l8, l8, row, 0x021},
		{"keys of 4", with(func(a *vqf.Arch) { a.NHeads, a.HeadDim, a.HeadDimFull = 8, 4, 4 }), vqf.ModeDual, l8, row, l4, 0x022},
		{"keys of 2", with(func(a *vqf.Arch) { a.NHeads, a.HeadDim, a.HeadDimFull = 16, 2, 2 }), vqf.ModeDual, l8, row, row, 0x020},
	} {
		t.Run(c.name, func(t *testing.T) {
			q8, q4 := vqf.DefaultLayouts(c.arch, c.mode, c.want)
			if q8 != c.q8 || q4 != c.q4 {
				t.Fatalf("got %s, %s, want %s, %s", q8, q4, c.q8, c.q4)
			}
			plan, err := vqf.NewPlan(vqf.Spec{Arch: c.arch, Mode: c.mode, Q8: q8, Q4: q4})
			if err != nil {
				t.Fatal(err)
			}
			if plan.Header.Flags != c.flags {
				t.Errorf("flags: got 0x%03x, want 0x%03x", uint32(plan.Header.Flags), uint32(c.flags))
			}
			if f := open(t, sparse(t, plan), vqf.OpenOptions{}); f.Flags() != c.flags {
				t.Errorf("opened: got 0x%03x", uint32(f.Flags()))
			}
		})
	}
}

// TestPlanRefuses what no file can be.
func TestPlanRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(s *vqf.Spec)
		say  string
	}{
		{"no mode", func(s *vqf.Spec) { s.Mode = "" }, `unknown mode ""`},
		{"q2mix", func(s *vqf.Spec) { s.Mode = "q2mix" }, `unknown mode "q2mix"`},
		{"header", func(s *vqf.Spec) { s.Fields = 42 }, "no header of 42 fields"},
		{"experts in the short header", func(s *vqf.Spec) {
			s.Fields, s.Arch.NExperts, s.Arch.MoEFFN, s.Arch.TopK = 41, 2, 32, 1
		}, "no place for experts"},
		{"q4i tiled", func(s *vqf.Spec) { s.Mode = vqf.ModeQ4I }, "q4i is row-major"},
		{"q4 in 8x8", func(s *vqf.Spec) { s.Q4 = vqf.Layout8x8 }, "no such layout"},
		{"tiles that do not divide", func(s *vqf.Spec) { s.Arch.VocabSize = 12 }, "vocab_size = 12 is not a multiple of 8"},
		{"q4 that does not divide", func(s *vqf.Spec) { s.Q8, s.Arch.VocabSize = 0, 14 }, "vocab_size = 14 is not a multiple of 4"},
		{"dim", func(s *vqf.Spec) { s.Arch.Dim = 48 }, "not a multiple of 32"},
		{"ffn", func(s *vqf.Spec) { s.Arch.FFNDim = 72 }, "not a multiple of 32"},
		{"heads", func(s *vqf.Spec) { s.Arch.NHeads, s.Arch.HeadDim, s.Arch.HeadDimFull = 3, 24, 24 }, "not a multiple of 32"},
		{"kv heads", func(s *vqf.Spec) { s.Arch.NHeads, s.Arch.NKVHeads = 3, 2 }, "does not divide n_heads"},
		{"experts across blocks", func(s *vqf.Spec) {
			s.Arch.NExperts, s.Arch.MoEFFN, s.Arch.TopK = 4, 16, 1
		}, "blocks would cross experts"},
		{"vision without a tower", func(s *vqf.Spec) { s.Vision = true }, "has_vision"},
		{"foreign extra", func(s *vqf.Spec) { s.Extra = []vqf.Extra{{Name: "t_x", Size: 1}} }, "only t_tokenizer and t_meta"},
		{"empty extra", func(s *vqf.Spec) { s.Extra = []vqf.Extra{{Name: vqf.NameMeta}} }, "0 bytes"},
		{"huge extra", func(s *vqf.Spec) { s.Extra = []vqf.Extra{{Name: vqf.NameMeta, Size: math.MaxInt64}} }, "want 1 to"},
		{"extra twice", func(s *vqf.Spec) { s.Extra = []vqf.Extra{{Name: vqf.NameMeta, Size: 1}, {Name: vqf.NameMeta, Size: 1}} }, "twice"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := miniSpec(vqf.ModeDual, 0)
			c.edit(&s)
			plan, err := vqf.NewPlan(s)
			if err == nil || !strings.Contains(err.Error(), c.say) {
				t.Errorf("got %v, %v, want an error with %q", plan, err, c.say)
			}
		})
	}
}

// TestAdd: entries added later give the file that planning them at once gives.
func TestAdd(t *testing.T) {
	extra := []vqf.Extra{{Name: vqf.NameTokenizer, Size: 100}, {Name: vqf.NameMeta, Size: 2}}
	s := miniSpec(vqf.ModeQ4, 0)
	plan, err := vqf.NewPlan(s)
	if err != nil {
		t.Fatal(err)
	}
	if err := plan.Add(extra...); err != nil {
		t.Fatal(err)
	}
	s.Extra = extra
	want, err := vqf.NewPlan(s)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(plan.Prefix(), want.Prefix()) {
		t.Errorf("got %+v, want %+v", plan, want)
	}
	if err := plan.Add(extra[0]); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("added twice: got %v", err)
	}
	want.Header.Flags |= vqf.FlagSigned
	if err := want.Add(); !errors.Is(err, vqf.ErrUnsupported) {
		t.Errorf("signed: got %v", err)
	}
}

// TestDataOffset: the directory decides where the data starts.
func TestDataOffset(t *testing.T) {
	for n, want := range map[int]uint64{14: 4096, 57: 4096, 58: 8192, 121: 8192, 122: 12288} {
		plan, err := vqf.NewPlan(miniSpec(vqf.ModeQ4, 0))
		if err != nil {
			t.Fatal(err)
		}
		for len(plan.Tensors) < n {
			plan.Tensors = append(plan.Tensors, vqf.Tensor{Name: "u" + strings.Repeat("x", len(plan.Tensors)%20) + string(rune('A'+len(plan.Tensors)/20)), Type: vqf.F32})
		}
		if err := plan.Rechain(); err != nil {
			t.Fatal(err)
		}
		if plan.Header.DataOffset != want {
			t.Errorf("%d entries: got %d, want %d", n, plan.Header.DataOffset, want)
		}
		open(t, sparse(t, plan), vqf.OpenOptions{})
	}
}

// TestShape: the real shapes are not the directory's, but hold as many values.
func TestShape(t *testing.T) {
	for _, p := range publishedFiles() {
		for _, e := range p.plan(t).Tensors {
			s, ok := p.arch.Shape(e.Name)
			if !ok || uint64(s.Parts)*uint64(s.Rows)*uint64(s.Cols) != uint64(e.Rows)*uint64(e.Cols) {
				t.Errorf("%s %s: got %+v, %v for %d x %d", p.name, e.Name, s, ok, e.Rows, e.Cols)
			}
		}
	}
	vl, moe := qwen3VL2B(), qwen330BA3B()
	for _, c := range []struct {
		arch *vqf.Arch
		name string
		want vqf.Shape
	}{
		{&vl, "q4_k", vqf.Shape{Parts: 28, Rows: 1024, Cols: 2048}},
		{&vl, "q8_o", vqf.Shape{Parts: 28, Rows: 2048, Cols: 2048}},
		{&vl, "q8_down", vqf.Shape{Parts: 28, Rows: 2048, Cols: 6144}},
		{&vl, "v_q8_fc2", vqf.Shape{Parts: 24, Rows: 1024, Cols: 4096}},
		{&vl, "v_ds_f2w", vqf.Shape{Parts: 3, Rows: 2048, Cols: 4096}},
		{&vl, "v_pos_embed", vqf.Shape{Parts: 1, Rows: 2304, Cols: 1024}},
		{&moe, "q4_o", vqf.Shape{Parts: 48, Rows: 2048, Cols: 4096}},
		{&moe, "q4_gate", vqf.Shape{Parts: 48, Rows: 98304, Cols: 2048}},
		{&moe, "moe_router", vqf.Shape{Parts: 48, Rows: 128, Cols: 2048}},
	} {
		if got, ok := c.arch.Shape(c.name); !ok || got != c.want {
			t.Errorf("%s: got %+v, %v, want %+v", c.name, got, ok, c.want)
		}
	}
	if s, ok := vl.Shape("q4_x"); ok {
		t.Errorf("q4_x: got %+v", s)
	}
}

func TestQTypeSize(t *testing.T) {
	for _, c := range []struct {
		t          vqf.QType
		rows, cols uint32
		want       uint64
	}{
		{vqf.F32, 3, 5, 60}, {vqf.F16, 3, 5, 30}, {vqf.F16, 151936, 2048, 622329856},
		{vqf.Q8_0, 1, 32, 34}, {vqf.Q8_0, 1, 33, 68}, {vqf.Q8_0, 0, 9, 0},
		{vqf.Q4_0, 2, 32, 36}, {vqf.Q4_8X8L, 1, 1, 18},
		{vqf.F32, 1 << 31, 1 << 30, 1 << 63}, {vqf.Q8_0, math.MaxUint32, 256, (math.MaxUint32 * 8) * 34},
	} {
		if got, err := c.t.Size(c.rows, c.cols); err != nil || got != c.want {
			t.Errorf("%s %d x %d: got %d, %v, want %d", c.t, c.rows, c.cols, got, err, c.want)
		}
	}
	for _, c := range []struct {
		t          vqf.QType
		rows, cols uint32
	}{{vqf.F32, math.MaxUint32, math.MaxUint32}, {vqf.Q8_0, math.MaxUint32, math.MaxUint32}, {0, 1, 1}, {6, 1, 1}} {
		if got, err := c.t.Size(c.rows, c.cols); !errors.Is(err, vqf.ErrFormat) {
			t.Errorf("%s %d x %d: got %d, %v, want ErrFormat", c.t, c.rows, c.cols, got, err)
		}
	}
	if got := vqf.QType(9).String(); got != "qtype(9)" {
		t.Errorf("got %q", got)
	}
	for _, l := range []vqf.Layout{vqf.LayoutRow, vqf.Layout4x4, vqf.Layout8x8} {
		if got, err := vqf.ParseLayout(l.String()); err != nil || got != l {
			t.Errorf("%s: got %v, %v", l, got, err)
		}
	}
	if got, err := vqf.ParseLayout("2x2"); err == nil {
		t.Errorf("2x2: got %v", got)
	}
}
