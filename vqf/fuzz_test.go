// SPDX-License-Identifier: Apache-2.0

package vqf_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"windhover/vqf"
)

// small are plans whose files are small enough to fuzz.
func small(t testing.TB) []*vqf.Plan {
	t.Helper()
	moe := miniArch()
	moe.NExperts, moe.MoEFFN, moe.TopK, moe.FFNDim = 2, 32, 1, 64
	vis := miniArch()
	vis.HasVision, vis.VisDepth, vis.VisHidden, vis.VisHeads, vis.VisFFN = 1, 1, 32, 2, 32
	vis.VisPatch, vis.VisTemporal, vis.VisMerge, vis.VisOutDim, vis.VisInChan, vis.VisMaxPos, vis.VisDSCount = 2, 1, 1, 32, 3, 4, 1
	var plans []*vqf.Plan
	for _, s := range []vqf.Spec{
		miniSpec(vqf.ModeQ4, 41), miniSpec(vqf.ModeDual, 45), miniSpec(vqf.ModeQ4I, 0), specOf(moe, vqf.ModeQ8, vqf.Layout4x4, 0),
		{Arch: vis, Mode: vqf.ModeQ4, Vision: true, Extra: []vqf.Extra{{Name: vqf.NameMeta, Size: 3}}},
	} {
		plan, err := vqf.NewPlan(s)
		if err != nil {
			t.Fatal(err)
		}
		plans = append(plans, plan)
	}
	return plans
}

// FuzzOpen gives the reader any bytes. What it accepts re-encodes to the same
// header and directory, and every tensor can be read; what it refuses has a
// reason; nothing panics.
func FuzzOpen(f *testing.F) {
	for _, plan := range small(f) {
		b := plan.Prefix()[:448+64*len(plan.Tensors)]
		f.Add(b, uint32(plan.Size()))
		f.Add(b, uint32(plan.Size()-1))
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, b []byte, size uint32) {
		// The size is an argument of its own: the fuzzer need not carry
		// thousands of zeros to get past the size check.
		if size > 1<<20 {
			size = 1 << 20
		}
		full := make([]byte, size)
		copy(full, b)
		h, ts, err := vqf.Parse(bytes.NewReader(full), int64(size))
		if err != nil {
			var fe *vqf.FormatError
			if !errors.As(err, &fe) || fe.Field == "" || fe.Msg == "" {
				t.Fatalf("an error without a field: %v", err)
			}
			return
		}
		got := vqf.Prefix(h, ts)
		hs := 432
		if h.Fields == 45 {
			hs = 448
		}
		if !bytes.Equal(got[:hs], full[:hs]) || !bytes.Equal(got[448:448+64*len(ts)], full[448:448+64*len(ts)]) {
			t.Fatalf("header or directory re-encode differently")
		}
		path := filepath.Join(dir, "x.vqf")
		if err := os.WriteFile(path, full, 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := vqf.Open(path, vqf.OpenOptions{})
		if err != nil {
			if h.Flags&vqf.FlagEnc != 0 && errors.Is(err, vqf.ErrKey) {
				return
			}
			t.Fatalf("parsed, not opened: %v", err)
		}
		for _, e := range ts {
			d, err := file.Data(e.Name)
			if err != nil || !bytes.Equal(d, full[e.Offset:e.Offset+e.Bytes]) {
				t.Fatalf("%s: %v", e.Name, err)
			}
			if _, err := file.Floats(e.Name); err != nil && e.Type == vqf.F32 {
				t.Fatalf("%s: %v", e.Name, err)
			}
		}
		_, _ = file.Q8Layout()
		_, _ = file.Q4Layout()
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzRoundTrip writes a file of any architecture with any bytes and reads it
// back: same header, same directory, same data, and written again from what
// was read, the same file.
func FuzzRoundTrip(f *testing.F) {
	f.Add(uint16(1), uint16(2), uint16(2), uint16(1), uint16(16), uint16(2), uint16(16), uint16(2), uint8(0), uint8(0), []byte("{}"))
	f.Add(uint16(2), uint16(1), uint16(4), uint16(4), uint16(8), uint16(3), uint16(12), uint16(0), uint8(3), uint8(7), []byte("x"))
	f.Add(uint16(1), uint16(1), uint16(1), uint16(1), uint16(32), uint16(1), uint16(14), uint16(4), uint8(4), uint8(1), []byte{0, 1, 2, 0})
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, dim, layers, heads, kv, hd, ff, vocab, experts uint16, mode, bits uint8, data []byte) {
		a := vqf.Arch{
			Dim: uint32(dim) * 32, NLayers: uint32(layers), NHeads: uint32(heads), NKVHeads: uint32(kv), HeadDim: uint32(hd) * 2,
			FFNDim: uint32(ff) * 32, VocabSize: uint32(vocab), MaxSeqLen: 64, RopeTheta: 1e4, BosID: vqf.NoToken, HasQNorm: uint32(bits & 1),
		}
		if bits&2 != 0 {
			a.NExperts, a.MoEFFN, a.TopK, a.FFNDim = uint32(experts), uint32(ff)*32, 1, uint32(experts)*uint32(ff)*32
		}
		m := []vqf.Mode{vqf.ModeQ4, vqf.ModeQ8, vqf.ModeDual, vqf.ModeQ4I, vqf.ModeG256}[mode%5]
		s := specOf(a, m, vqf.Layout(bits>>2%3), 0)
		s.EmbF32 = bits&16 != 0
		if bits&32 != 0 {
			s.Fields = 45
		}
		if len(data) > 0 {
			s.Extra = []vqf.Extra{{Name: vqf.NameTokenizer, Size: int64(len(data))}}
		}
		plan, err := vqf.NewPlan(s)
		if err != nil || plan.Size() > 1<<18 {
			return
		}
		first := writeAll(t, filepath.Join(dir, "a.vqf"), plan, func(e vqf.Tensor) []byte {
			b := make([]byte, e.Bytes)
			for i := range b {
				b[i] = byte(i*7 + len(data))
				if len(data) > 0 {
					b[i] += data[i%len(data)]
				}
			}
			return b
		})
		file, err := vqf.Open(filepath.Join(dir, "a.vqf"), vqf.OpenOptions{FullCheck: true, Strict: true, Expect: plan.Header.Flags})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = file.Close() }()
		again := &vqf.Plan{Header: file.Header(), Tensors: file.Tensors()}
		second := writeAll(t, filepath.Join(dir, "b.vqf"), again, func(e vqf.Tensor) []byte {
			b, err := file.Data(e.Name)
			if err != nil {
				t.Fatal(err)
			}
			return b
		})
		if first != second {
			t.Fatalf("got %+v, want %+v", second, first)
		}
		if file.Header() != plan.Header {
			t.Fatalf("header: got %+v, want %+v", file.Header(), plan.Header)
		}
	})
}

func writeAll(t *testing.T, path string, plan *vqf.Plan, data func(vqf.Tensor) []byte) vqf.Result {
	t.Helper()
	w, err := vqf.Create(path, plan)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	for _, e := range plan.Tensors {
		if _, err := w.Write(data(e)); err != nil {
			t.Fatal(err)
		}
	}
	res, err := w.Commit()
	if err != nil {
		t.Fatal(err)
	}
	return res
}
