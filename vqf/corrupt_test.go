// SPDX-License-Identifier: Apache-2.0

package vqf_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"windhover/vqf"
)

// parse is Open without a file: what lies before the data area.
func parse(b []byte) (vqf.Header, []vqf.Tensor, error) {
	return vqf.Parse(bytes.NewReader(b), int64(len(b)))
}

// refused holds an error to its field and offset.
func refused(t *testing.T, err error, field string, offset int64) {
	t.Helper()
	var fe *vqf.FormatError
	switch {
	case err == nil:
		t.Errorf("accepted, want an error about %s", field)
	case !errors.As(err, &fe):
		t.Errorf("got %v, want a FormatError about %s", err, field)
	case fe.Field != field || fe.Offset != offset:
		t.Errorf("got %v, want field %s at offset %d", err, field, offset)
	case strings.ContainsAny(err.Error(), "\n"):
		t.Errorf("got %q, want one line", err)
	}
}

// TestHeaderFields corrupts each header field whose value can be told wrong.
func TestHeaderFields(t *testing.T) {
	f32 := math.Float32bits
	for _, fields := range []int{41, 45} {
		path, _ := writeMini(t, miniSpec(vqf.ModeDual, fields), nil, nil)
		good := readFile(t, path)
		tail := int64(184)
		if fields == 45 {
			tail = 200
		}
		for _, c := range []struct {
			field  string
			offset int64 // of the field the error names
			words  map[int]uint32
		}{
			{"magic", 0, map[int]uint32{0: 0x57465156}},
			{"version", 4, map[int]uint32{4: 0}},
			{"version", 4, map[int]uint32{4: 1}},
			{"version", 4, map[int]uint32{4: 4}},
			{"version", 4, map[int]uint32{4: 0x02000000}},
			{"flags", 8, map[int]uint32{8: 0x423}},
			{"flags", 8, map[int]uint32{8: 0x80000023}},
			{"n_tensors", 12, map[int]uint32{12: 0}},
			{"n_tensors", 12, map[int]uint32{12: 4097}},
			{"n_tensors", 12, map[int]uint32{12: math.MaxUint32}},
			{"dim", 16, map[int]uint32{16: 0}},
			{"dim", 16, map[int]uint32{16: 33}},
			{"dim", 16, map[int]uint32{16: 0xFFFFFFE0}},
			{"n_layers", 20, map[int]uint32{20: 0}},
			{"n_layers", 20, map[int]uint32{20: 0x80000000}},
			{"n_heads", 24, map[int]uint32{24: 0}},
			{"n_heads", 24, map[int]uint32{24: 0x7FFFFFFF}},
			{"n_kv_heads", 28, map[int]uint32{28: 0}},
			{"n_kv_heads", 28, map[int]uint32{28: 3}},
			{"n_kv_heads", 28, map[int]uint32{28: math.MaxUint32}},
			{"head_dim", 32, map[int]uint32{32: 0}},
			{"head_dim", 32, map[int]uint32{32: 31}},
			{"ffn_dim", 36, map[int]uint32{36: 0}},
			{"ffn_dim", 36, map[int]uint32{36: 63}},
			{"vocab_size", 40, map[int]uint32{40: 0}},
			{"max_seq_len", 44, map[int]uint32{44: 0}},
			{"max_seq_len", 44, map[int]uint32{44: math.MaxUint32}},
			{"rope_theta", 48, map[int]uint32{48: 0}},
			{"rope_theta", 48, map[int]uint32{48: f32(-1)}},
			{"rope_theta", 48, map[int]uint32{48: f32(float32(math.NaN()))}},
			{"rope_theta", 48, map[int]uint32{48: f32(float32(math.Inf(1)))}},
			{"norm_eps", 52, map[int]uint32{52: f32(-1e-6)}},
			{"norm_eps", 52, map[int]uint32{52: f32(float32(math.NaN()))}},
			{"norm_eps", 52, map[int]uint32{52: f32(1)}},
			{"bos_id", 56, map[int]uint32{56: 16}},
			{"eos_id", 60, map[int]uint32{60: 0xFFFFFFFE}},
			{"has_q_norm", 64, map[int]uint32{64: 0}},
			{"has_q_norm", 64, map[int]uint32{64: 2}},
			{"has_mrope", 68, map[int]uint32{68: 2}},
			{"head_dim_full", 72, map[int]uint32{72: 64}},
			{"kv_lora_rank", 76, map[int]uint32{76: 512}},
			{"has_vision", 80, map[int]uint32{80: 1}},
			{"has_vision", 80, map[int]uint32{84: 2}},
			{"vis_ds_count", 124, map[int]uint32{124: 5}},
			{"mrope_n_sec", 128, map[int]uint32{128: 5}},
			{"vis_ds_idx[0]", 132, map[int]uint32{132: 0x80000000}},
			{"vis_ds_idx[3]", 144, map[int]uint32{144: math.MaxUint32}},
			{"mrope_sections[0]", 148, map[int]uint32{148: math.MaxUint32}},
			{"mrope_sections[3]", 160, map[int]uint32{160: 0x80000000}},
			{"pad after arch", tail - 4, map[int]uint32{int(tail - 4): 1}},
			{"pad after arch", tail - 1, map[int]uint32{int(tail - 4): 0x01000000}},
			{"file_len", tail + 8, map[int]uint32{int(tail + 8): 47168}},
			{"enc_iv", tail + 16, map[int]uint32{int(tail + 16): 1}},
			{"enc_iv", tail + 31, map[int]uint32{int(tail + 28): 0x80000000}},
			{"enc_rsvd", tail + 32, map[int]uint32{int(tail + 32): 1}},
			{"signature", tail + 48, map[int]uint32{int(tail + 48): 1}},
			{"signature", tail + 247, map[int]uint32{int(tail + 244): 0x01000000}},
			// SIGNED set, block malformed.
			{"signature id_len", tail + 240, map[int]uint32{8: 0x123, int(tail + 240): 33}},
			{"signature id", tail + 212, map[int]uint32{8: 0x123, int(tail + 240): 4, int(tail + 212): 'x'}},
			{"signature reserved", tail + 244, map[int]uint32{8: 0x123, int(tail + 244): 1}},
			// data_offset wrong: neither reading of the header fits.
			{"data_offset", 184, map[int]uint32{int(tail): 0}},
			{"data_offset", 184, map[int]uint32{int(tail): 4097}},
			{"data_offset", 184, map[int]uint32{int(tail): 64}},
			{"data_offset", 184, map[int]uint32{int(tail): 47168}},
		} {
			t.Run(fmt.Sprintf("%d-%s-%v", fields, c.field, c.words), func(t *testing.T) {
				_, _, err := parse(patch(good, c.words))
				refused(t, err, c.field, c.offset)
			})
		}
	}
}

// TestExperts corrupts what only a mixture of experts has.
func TestExperts(t *testing.T) {
	a := miniArch()
	a.NExperts, a.MoEFFN, a.TopK, a.FFNDim = 4, 32, 2, 128
	plan, err := vqf.NewPlan(specOf(a, vqf.ModeQ4, vqf.Layout8x8, 0))
	if err != nil {
		t.Fatal(err)
	}
	good := append(plan.Prefix(), make([]byte, plan.Size()-int64(plan.Header.DataOffset))...)
	if _, _, err := parse(good); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		field  string
		offset int64
		words  map[int]uint32
	}{
		{"n_experts", 180, map[int]uint32{180: 0}},
		{"moe_ffn", 184, map[int]uint32{184: 0}},
		{"moe_ffn", 184, map[int]uint32{184: 33}},
		{"ffn_dim", 36, map[int]uint32{184: 64}},
		{"ffn_dim", 36, map[int]uint32{180: 8}},
		{"top_k", 188, map[int]uint32{188: 0}},
		{"top_k", 188, map[int]uint32{188: 5}},
		{"n_experts", 180, map[int]uint32{4: 2, 8: 0x023}},
		// Either sign of a mixture is enough, so losing one is not noticed.
	} {
		t.Run(fmt.Sprintf("%s-%v", c.field, c.words), func(t *testing.T) {
			_, _, err := parse(patch(good, c.words))
			refused(t, err, c.field, c.offset)
		})
	}
}

// TestDirectoryFields corrupts each field of entries.
func TestDirectoryFields(t *testing.T) {
	path, _ := writeMini(t, miniSpec(vqf.ModeQ4, 41), nil, nil)
	good := readFile(t, path)
	at := func(i, within int) int { return 448 + 64*i + within }
	for _, c := range []struct {
		name   string
		field  string
		offset int
		edit   func(b []byte)
	}{
		{"empty name", "tensor 3 name", at(3, 0), func(b []byte) { b[at(3, 0)] = 0 }},
		{"unterminated name", "tensor 3 name", at(3, 0), func(b []byte) { copy(b[at(3, 0):], strings.Repeat("x", 32)) }},
		{"control character", "tensor 3 name", at(3, 2), func(b []byte) { b[at(3, 2)] = 7 }},
		{"space", "tensor 3 name", at(3, 2), func(b []byte) { b[at(3, 2)] = ' ' }},
		{"not ASCII", "tensor 3 name", at(3, 2), func(b []byte) { b[at(3, 2)] = 0xC3 }},
		{"bytes after the name", "tensor 3 name", at(3, 31), func(b []byte) { b[at(3, 31)] = 'x' }},
		{"duplicate", `tensor "attn_norm" name`, at(3, 0), func(b []byte) { copy(b[at(3, 0):at(3, 32)], b[at(2, 0):at(2, 32)]) }},
		{"missing", "directory", 448, func(b []byte) { b[at(3, 0)] = 'g' }},
		{"type of a known name", `tensor "q4_q" qtype`, at(6, 32), func(b []byte) { b[at(6, 32)] = 9 }},
		{"same size, other type", `tensor "q4_q" qtype`, at(6, 32), func(b []byte) { b[at(6, 32)] = 4 }},
		{"rows", `tensor "q4_q" bytes`, at(6, 56), func(b []byte) { b[at(6, 36)]++ }},
		{"rows and cols that wrap 64 bits in bytes", `tensor "final_norm" bytes`, at(1, 56), func(b []byte) {
			binary.LittleEndian.PutUint32(b[at(1, 36):], math.MaxUint32)
			binary.LittleEndian.PutUint32(b[at(1, 40):], math.MaxUint32)
		}},
		{"pad", `tensor "q4_q" pad`, at(6, 44), func(b []byte) { b[at(6, 44)] = 1 }},
		{"offset off by one", `tensor "q4_q" offset`, at(6, 48), func(b []byte) { b[at(6, 48)]++ }},
		{"offset before the data", `tensor "q4_q" offset`, at(6, 48), func(b []byte) { binary.LittleEndian.PutUint64(b[at(6, 48):], 448) }},
		{"offset on the end", `tensor "q4_q" offset`, at(6, 48), func(b []byte) { binary.LittleEndian.PutUint64(b[at(6, 48):], 20416) }},
		{"offset past the end", `tensor "q4_q" offset`, at(6, 48), func(b []byte) { binary.LittleEndian.PutUint64(b[at(6, 48):], 1<<40) }},
		{"offset + bytes wraps", `tensor "q4_q" offset`, at(6, 48), func(b []byte) {
			binary.LittleEndian.PutUint64(b[at(6, 48):], math.MaxUint64-63)
		}},
		{"overlap", `tensor "q4_k" offset`, at(7, 48), func(b []byte) { copy(b[at(7, 48):at(7, 56)], b[at(6, 48):at(6, 56)]) }},
		{"overlap by one block", `tensor "q4_q" offset`, at(6, 48), func(b []byte) {
			at := b[at(6, 48):]
			binary.LittleEndian.PutUint64(at, binary.LittleEndian.Uint64(at)-64)
		}},
		{"bytes too few", `tensor "q4_q" bytes`, at(6, 56), func(b []byte) { b[at(6, 56)]-- }},
		{"bytes huge", `tensor "q4_q" offset`, at(6, 48), func(b []byte) { binary.LittleEndian.PutUint64(b[at(6, 56):], math.MaxUint64) }},
		{"consistent, but not what the architecture says", `tensor "attn_norm" bytes`, at(2, 56), func(b []byte) {
			b[at(2, 36)], b[at(2, 56)], b[at(2, 57)] = 32, 128, 0
		}},
		{"embedding type against the flag", `tensor "token_embed" qtype`, at(0, 32), func(b []byte) { b[8] &^= 0x20 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := append([]byte(nil), good...)
			c.edit(b)
			_, _, err := parse(b)
			refused(t, err, c.field, int64(c.offset))
			if _, err := vqf.Open(tempFile(t, b), vqf.OpenOptions{}); !errors.Is(err, vqf.ErrFormat) {
				t.Errorf("Open: got %v, want ErrFormat", err)
			}
		})
	}
}

// TestEveryBit flips each bit before the data area, one at a time. Nothing may
// panic; every bit of the directory is noticed; a header bit that is not
// noticed belongs to a field that any value suits; and what is accepted
// re-encodes to the bytes it came from.
func TestEveryBit(t *testing.T) {
	// Fields whose value nothing in the file can contradict.
	free := []string{"max_seq_len", "rope_theta", "norm_eps", "bos_id", "eos_id", "has_mrope", "mrope_n_sec", "mrope_sections",
		"vis_", "vision_start_id", "vision_end_id", "image_token_id", "video_token_id",
		"n_experts", "moe_ffn", "top_k", "shared_experts", // of a dense model, unless all of them say MoE
		"flags", // X8 marks copies that nobody uses; SIGNED is checked by who has the key
	}
	for _, fields := range []int{41, 45} {
		path, _ := writeMini(t, miniSpec(vqf.ModeDual, fields), nil, nil)
		b := readFile(t, path)
		dirEnd := 448 + 64*22
		for bit := range dirEnd * 8 {
			at := bit / 8
			if fields == 41 && at >= 432 && at < 448 {
				continue // gap: no reader looks
			}
			b[at] ^= 1 << (bit % 8)
			h, ts, err := parse(b)
			var fe *vqf.FormatError
			switch {
			case err == nil && at >= 448:
				t.Errorf("%d fields: directory bit %d of byte %d not noticed", fields, bit%8, at)
			case err == nil:
				name := wordName(at)
				ok := false
				for _, f := range free {
					ok = ok || strings.HasPrefix(name, f)
				}
				if !ok {
					t.Errorf("%d fields: bit %d of byte %d (%s) not noticed", fields, bit%8, at, name)
				}
				if got := vqf.Prefix(h, ts); !bytes.Equal(got[:dirEnd], b[:dirEnd]) {
					t.Errorf("%d fields: bit %d of byte %d is lost in re-encoding", fields, bit%8, at)
				}
			case !errors.As(err, &fe) || fe.Field == "":
				t.Errorf("%d fields: byte %d: got %v, want a FormatError with a field", fields, at, err)
			}
			b[at] ^= 1 << (bit % 8)
		}
	}
}

// wordName names the header word at an offset.
func wordName(at int) string {
	names := strings.Fields(`magic version flags n_tensors
		dim n_layers n_heads n_kv_heads head_dim ffn_dim vocab_size max_seq_len rope_theta norm_eps bos_id eos_id
		has_q_norm has_mrope head_dim_full kv_lora_rank has_vision vis_depth vis_hidden vis_heads vis_ffn vis_patch
		vis_temporal vis_merge vis_out_dim vis_in_chan vis_max_pos vis_ds_count mrope_n_sec vis_ds_idx vis_ds_idx vis_ds_idx vis_ds_idx
		mrope_sections mrope_sections mrope_sections mrope_sections vision_start_id vision_end_id image_token_id video_token_id
		n_experts moe_ffn top_k shared_experts`)
	if at/4 < len(names) {
		return names[at/4]
	}
	return "tail"
}

// TestLengths cuts a file at every length and lets it grow.
func TestLengths(t *testing.T) {
	for _, fields := range []int{41, 45} {
		path, _ := writeMini(t, miniSpec(vqf.ModeQ4, fields), nil, nil)
		b := readFile(t, path)
		for n := range b {
			if _, _, err := parse(b[:n]); !errors.Is(err, vqf.ErrFormat) {
				t.Fatalf("%d of %d bytes: got %v, want ErrFormat", n, len(b), err)
			}
		}
		for _, more := range []int{1, 7, 8, 24, 64, 4096} {
			want := fmt.Sprintf("%d bytes too long", more)
			if more == 1 {
				want = "1 byte too long"
			}
			long := append(append([]byte(nil), b...), make([]byte, more)...)
			_, err := vqf.Open(tempFile(t, long), vqf.OpenOptions{})
			if !errors.Is(err, vqf.ErrFormat) || !strings.Contains(err.Error(), want) {
				t.Errorf("%d bytes more: got %v", more, err)
			}
		}
		_, err := vqf.Open(tempFile(t, b[:len(b)-100]), vqf.OpenOptions{})
		if !errors.Is(err, vqf.ErrFormat) || !strings.Contains(err.Error(), "100 bytes short") {
			t.Errorf("100 bytes less: got %v", err)
		}
	}
}

// TestAbsurdArch lets products of the architecture wrap in every way two and
// three factors can.
func TestAbsurdArch(t *testing.T) {
	big := []uint32{1 << 16, 1 << 20, 1 << 30, 0x7FFFFFE0, 0x80000000, 0xFFFFFFE0, math.MaxUint32}
	for _, v := range big {
		for _, p := range []func(*vqf.Arch){
			func(a *vqf.Arch) { a.Dim = v },
			func(a *vqf.Arch) { a.NLayers = v },
			func(a *vqf.Arch) { a.NLayers, a.Dim = v, v },
			func(a *vqf.Arch) { a.NHeads, a.NKVHeads = v, v },
			func(a *vqf.Arch) { a.NHeads, a.NKVHeads, a.HeadDim, a.HeadDimFull = v, v, v, v },
			func(a *vqf.Arch) { a.FFNDim, a.NLayers = v, v },
			func(a *vqf.Arch) { a.VocabSize, a.Dim = v, v },
			func(a *vqf.Arch) { a.NExperts, a.MoEFFN, a.TopK = v, v, 1 },
		} {
			a := miniArch()
			p(&a)
			plan, err := vqf.NewPlan(vqf.Spec{Arch: a, Mode: vqf.ModeDual})
			if err != nil {
				continue
			}
			// What is planned must be what real numbers say.
			if got := float64(plan.Size()); got < float64(a.VocabSize)*float64(a.Dim)*2 || got < float64(a.NLayers)*float64(a.FFNDim)*float64(a.Dim)*3 {
				t.Errorf("%+v: planned %d bytes: a product wrapped", a, plan.Size())
			}
		}
		vis := qwen3VL2B()
		vis.VisHidden, vis.VisMerge = v, v
		if _, err := vqf.NewPlan(vqf.Spec{Arch: vis, Mode: vqf.ModeQ4, Vision: true}); !errors.Is(err, vqf.ErrFormat) {
			t.Errorf("vision of %d: got %v, want ErrFormat", v, err)
		}
	}
}
