// SPDX-License-Identifier: Apache-2.0

package vqf_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"windhover/vqf"
)

// TestStrictGate compares the layout bits with the engine's.
func TestStrictGate(t *testing.T) {
	const both, q4only = vqf.FlagQ8x8 | vqf.FlagQ4x4, vqf.FlagQ4x4
	for _, c := range []struct {
		name         string
		mode         vqf.Mode
		want         vqf.Layout
		or           uint32 // flags set afterwards
		expect       vqf.Flags
		file, engine string // in the refusal; empty: accepted
	}{
		{"8x8, engine 8x8", vqf.ModeQ8, vqf.Layout8x8, 0, both, "", ""},
		{"8x8, engine 4x4", vqf.ModeQ8, vqf.Layout8x8, 0, q4only, "0x03", "0x02"},
		{"4x4, engine 8x8", vqf.ModeQ8, vqf.Layout4x4, 0, both, "0x02", "0x03"},
		{"4x4, engine 4x4", vqf.ModeQ8, vqf.Layout4x4, 0, q4only, "", ""},
		{"bits above the mask do not count", vqf.ModeQ8, vqf.Layout8x8, 0, both | vqf.FlagVision | vqf.FlagMoE, "", ""},
		{"q4i", vqf.ModeQ4I, vqf.LayoutRow, 0, both, "0x0a", "0x03"},
		{"q4i, engine too", vqf.ModeQ4I, vqf.LayoutRow, 0, vqf.FlagQ4x4 | vqf.FlagQ8BufQ4, "", ""},
		{"g256", vqf.ModeG256, vqf.Layout8x8, 0, both, "0x13", "0x03"},
		{"x8 copies", vqf.ModeQ4, vqf.Layout8x8, uint32(vqf.FlagX8), both, "0x07", "0x03"},
		{"an engine that expects nothing", vqf.ModeQ4, vqf.Layout8x8, 0, 0, "0x03", "0x00"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path, _ := writeMini(t, specOf(miniArch(), c.mode, c.want, 0), nil, nil)
			b := readFile(t, path)
			path = tempFile(t, patch(b, map[int]uint32{8: binary.LittleEndian.Uint32(b[8:]) | c.or}))
			f := open(t, path, vqf.OpenOptions{}) // "any" takes them all
			if _, err := f.Q8Layout(); f.HasQ8() && err != nil {
				t.Error(err)
			}
			f, err := vqf.Open(path, vqf.OpenOptions{Strict: true, Expect: c.expect})
			if c.file == "" {
				if err != nil {
					t.Fatalf("refused: %v", err)
				}
				if err := f.Close(); err != nil {
					t.Error(err)
				}
				return
			}
			want := fmt.Sprintf("[VQF] layout mismatch: file=%s engine=%s (check VLLM_Q8_8X8 / wmode match the conversion)", c.file, c.engine)
			if !errors.Is(err, vqf.ErrLayoutMismatch) || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("got %v, want %s…", err, want)
			}
			var me *vqf.MismatchError
			if !errors.As(err, &me) || me.Engine != c.expect&vqf.LayoutMask {
				t.Errorf("got %#v", err)
			}
		})
	}
}

// TestContradictions gives flags that the directory denies.
func TestContradictions(t *testing.T) {
	q4, _ := writeMini(t, miniSpec(vqf.ModeQ4, 45), nil, nil)
	q8, _ := writeMini(t, miniSpec(vqf.ModeQ8, 45), nil, nil)
	q4old, _ := writeMini(t, miniSpec(vqf.ModeQ4, 41), nil, nil)
	for _, c := range []struct {
		name, path string
		words      map[int]uint32
		field      string
		offset     int64
		say        string
	}{
		{"Q8BUF_Q4 without q8", q4, map[int]uint32{8: 0x02A}, "flags", 8, "Q8BUF_Q4 is set, but there are no q8_*"},
		{"G256 without q8", q4, map[int]uint32{8: 0x033}, "flags", 8, "G256 is set, but there are no q8_*"},
		{"Q8BUF_Q4 tiled", q8, map[int]uint32{8: 0x02B}, "flags", 8, "always row-major"},
		{"Q8BUF_Q4 and G256", q8, map[int]uint32{8: 0x03A}, "flags", 8, "cannot be both"},
		{"VISION without vision", q4, map[int]uint32{8: 0x063}, "flags", 8, "no vision tensors"},
		{"EMB_F16 cleared", q4, map[int]uint32{8: 0x003}, `tensor "token_embed" qtype`, 480, "EMB_F16"},
		{"MOE without experts", q4, map[int]uint32{8: 0x223}, "n_experts", 180, "is 0"},
		{"MOE without a router", q4, map[int]uint32{8: 0x223, 180: 2, 184: 32, 188: 1}, "directory", 448, `"moe_router" is missing`},
		{"version 3 in the short header", q4old, map[int]uint32{4: 3}, "version", 4, "no place for experts"},
		{"MOE in the short header", q4old, map[int]uint32{8: 0x223}, "flags", 8, "no place for experts"},
		{"a bit nobody knows", q4, map[int]uint32{8: 0x10023}, "flags", 8, "unknown bits 0x10000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := vqf.Open(tempFile(t, patch(readFile(t, c.path), c.words)), vqf.OpenOptions{})
			refused(t, err, c.field, c.offset)
			if err != nil && !strings.Contains(err.Error(), c.say) {
				t.Errorf("got %v, want it to say %q", err, c.say)
			}
		})
	}
}

// TestRouterInDenseFile is the reverse of a mixture without its router.
func TestRouterInDenseFile(t *testing.T) {
	plan, err := vqf.NewPlan(miniSpec(vqf.ModeQ4, 45))
	if err != nil {
		t.Fatal(err)
	}
	plan.Tensors = append(plan.Tensors, vqf.Tensor{Name: "moe_router", Type: vqf.F32, Rows: 4, Cols: 32, Bytes: 512})
	if err := plan.Rechain(); err != nil {
		t.Fatal(err)
	}
	_, err = vqf.Open(sparse(t, plan), vqf.OpenOptions{})
	refused(t, err, "flags", 8)
}

// TestVersions: version 1 is refused by name, 3 needs experts.
func TestVersions(t *testing.T) {
	path, _ := writeMini(t, miniSpec(vqf.ModeQ4, 45), nil, nil)
	for version, say := range map[uint32]string{1: "version 1 unsupported (need 2/3)", 4: "version 4 unsupported (need 2/3)", 0: "version 0 unsupported"} {
		_, err := vqf.Open(tempFile(t, patch(readFile(t, path), map[int]uint32{4: version})), vqf.OpenOptions{})
		if !errors.Is(err, vqf.ErrVersion) || !strings.Contains(err.Error(), say) {
			t.Errorf("version %d: got %v, want %q", version, err, say)
		}
		if errors.Is(err, vqf.ErrFormat) {
			t.Errorf("version %d: %v counts as malformed", version, err)
		}
	}
}

// TestEncrypted: recognised, shown, and refused without a passphrase.
func TestEncrypted(t *testing.T) {
	for _, fields := range []int{41, 45} {
		path, _ := writeMini(t, miniSpec(vqf.ModeQ4, fields), nil, nil)
		b := readFile(t, path)
		iv := 216
		if fields == 41 {
			iv = 200
		}
		b = patch(b, map[int]uint32{8: 0x0A3, iv: 0x03020100})
		b = append(b, make([]byte, 24)...) // a tag of 32 bytes
		path = tempFile(t, b)
		_, err := vqf.Open(path, vqf.OpenOptions{})
		if !errors.Is(err, vqf.ErrKey) || !strings.Contains(err.Error(), "encrypted: a passphrase is needed (vqf.key_file, the systemd credential vqf-key, or VLLM_VQF_KEY)") {
			t.Errorf("got %v", err)
		}
		info, err := vqf.Inspect(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Header.Fields != fields || info.Header.EncIV[1] != 1 || len(info.Tensors) != 14 || info.Refused != nil {
			t.Errorf("Inspect: got %+v", info)
		}
	}
}

// TestSigned: a plaintext signed file opens; who signed it is not asked here.
func TestSigned(t *testing.T) {
	for _, fields := range []int{41, 45} {
		path, _ := writeMini(t, miniSpec(vqf.ModeQ4, fields), nil, nil)
		b := readFile(t, path)
		sig := 248
		if fields == 41 {
			sig = 232
		}
		b = patch(b, map[int]uint32{8: 0x123, sig + 192: 12})
		copy(b[sig+160:], "vllm-shs-vqf")
		b[sig], b[sig+64], b[sig+96], b[sig+128] = 1, 2, 3, 4
		f := open(t, tempFile(t, b), vqf.OpenOptions{FullCheck: true})
		s := f.Header().Sig
		if s.Pub[0] != 1 || s.R[0] != 2 || s.S[0] != 3 || s.Digest[0] != 4 || string(s.ID[:s.IDLen]) != "vllm-shs-vqf" {
			t.Errorf("%d fields: got %+v", fields, s)
		}
	}
}

func TestFlagNames(t *testing.T) {
	for _, c := range []struct {
		f    vqf.Flags
		want string
	}{
		{0, "0"}, {0x023, "Q8_8X8|Q4_4X4|EMB_F16"}, {0x3FF, "Q8_8X8|Q4_4X4|X8|Q8BUF_Q4|G256|EMB_F16|VISION|ENC|SIGNED|MOE"},
	} {
		if got := c.f.String(); got != c.want {
			t.Errorf("0x%x: got %q, want %q", uint32(c.f), got, c.want)
		}
		if got, err := vqf.ParseFlags(c.want); err != nil || got != c.f {
			t.Errorf("%q: got 0x%x, %v, want 0x%x", c.want, uint32(got), err, uint32(c.f))
		}
	}
	if got := vqf.Flags(1 << 12).String(); got != "BIT12" {
		t.Errorf("got %q, want BIT12", got)
	}
	if got, err := vqf.ParseFlags(" Q8_8X8 | MOE "); err != nil || got != vqf.FlagQ8x8|vqf.FlagMoE {
		t.Errorf("got 0x%x, %v", uint32(got), err)
	}
	for _, bad := range []string{"q8_8x8", "Q8_8X8|", "BIT12"} {
		if got, err := vqf.ParseFlags(bad); err == nil {
			t.Errorf("%q: got 0x%x, want an error", bad, uint32(got))
		}
	}
}
