// SPDX-License-Identifier: Apache-2.0

package vqf_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"windhover/vqf"
	"windhover/vqf/seal"
)

// odd is a sound file that no writer makes: unknown tensors, a gap between
// tensors, another order.
func odd(t *testing.T, fields int) []byte {
	t.Helper()
	s := miniSpec(vqf.ModeQ4, fields)
	plan, err := vqf.NewPlan(s)
	if err != nil {
		t.Fatal(err)
	}
	plan.Tensors = append(plan.Tensors,
		vqf.Tensor{Name: "z_future", Type: 77, Rows: 3, Cols: 5, Bytes: 1000},
		vqf.Tensor{Name: "z_empty", Type: vqf.F32},
	)
	if err := plan.Rechain(); err != nil {
		t.Fatal(err)
	}
	last := &plan.Tensors[len(plan.Tensors)-2]
	last.Offset += 128 // nothing lies in between
	plan.Tensors[len(plan.Tensors)-1].Offset = last.Offset + 1024
	plan.Header.FileLen = last.Offset + 1024
	plan.Tensors[2], plan.Tensors[3] = plan.Tensors[3], plan.Tensors[2]
	b := append(plan.Prefix(), make([]byte, plan.Size()-int64(plan.Header.DataOffset))...)
	for _, e := range plan.Tensors {
		p := bytes.Repeat([]byte{0xA5}, int(e.Bytes))
		if _, known := s.Arch.Shape(e.Name); known {
			p = payload(t, s.Arch, s.Mode, e, layoutOf(s, e.Name))
		}
		copy(b[e.Offset:], p)
	}
	sum := vqf.FNV(append(append([]byte(nil), b[448:448+64*len(plan.Tensors)]...), b[plan.Header.DataOffset:plan.Header.FileLen]...))
	for i := range 8 {
		b[int(plan.Header.FileLen)+i] = byte(sum >> (8 * i))
	}
	return b
}

// TestReseal goes from every kind of file to every other; the plain bytes behind
// the header stay, whatever they are, and so do those of the way back.
func TestReseal(t *testing.T) {
	k1, k2, signer := vectorKey(t), passphrase(t, "second"), private(t, vectorD)
	tr := trust(t, map[string]*seal.PrivateKey{"maker": signer, "other": stranger(t)})
	for _, fields := range []int{41, 45} {
		plain := odd(t, fields)
		for _, from := range []sealing{{}, {key: k1, iv: vectorIV()}, {id: seal.IDShs}, {k1, vectorIV(), seal.IDKestrel}} {
			src := plain
			if from != (sealing{}) {
				src = sealedBytes(t, plain, fields, from)
			}
			for _, to := range []vqf.ResealOptions{
				{}, {To: k2}, {Sign: stranger(t)}, {To: k1, Sign: stranger(t), SignID: seal.IDShs},
			} {
				to.From, to.DropSignature = from.key, true
				dir := t.TempDir()
				path, dst := tempFile(t, src), filepath.Join(dir, "dst.vqf")
				res, err := vqf.Reseal(t.Context(), path, dst, to, nil)
				if from.key == nil && from.id == "" && to.To == nil && to.Sign == nil {
					if !errors.Is(err, vqf.ErrUnsupported) || !strings.Contains(err.Error(), "nothing would change") {
						t.Errorf("plain to plain: got %v", err)
					}
					continue
				}
				if err != nil {
					t.Fatalf("%d fields, %+v to %+v: %v", fields, from, to, err)
				}
				r, err := vqf.Verify(t.Context(), dst, vqf.VerifyOptions{Key: to.To, Trust: tr}, nil)
				if err != nil || r.SHA256 != res.SHA256 || r.Signature.Trusted != (to.Sign != nil) || r.Encrypted != (to.To != nil) {
					t.Errorf("%v\n%s", err, r)
				}
				for _, name := range []string{"checksum", "tag", "signature", "padding", "bounds"} {
					if c, ok := statuses(r)[name]; ok && c.Status == vqf.StatusFail {
						t.Errorf("%s: %s", name, c.Detail)
					}
				}
				f := open(t, dst, vqf.OpenOptions{Key: to.To})
				if want := map[bool]int{true: 45, false: fields}[to.To != nil || to.Sign != nil]; f.Header().Fields != want {
					t.Errorf("got %d fields, want %d", f.Header().Fields, want)
				}
				if d, err := f.Data("z_future"); err != nil || !bytes.Equal(d, bytes.Repeat([]byte{0xA5}, 1000)) {
					t.Errorf("the unknown tensor: %v, or other bytes", err)
				}
				// All of it, and back where it was.
				back := filepath.Join(dir, "back.vqf")
				if to.To == nil && to.Sign == nil {
					back = dst
				} else if _, err := vqf.Reseal(t.Context(), dst, back, vqf.ResealOptions{From: to.To, DropSignature: true}, nil); err != nil {
					t.Fatal(err)
				}
				if got := readFile(t, back); !bytes.Equal(got[448:], plain[448:]) {
					t.Errorf("%d fields, %+v to %+v: other bytes after the way back", fields, from, to)
				}
				ls(t, filepath.Join(dir, "x"), map[bool][]string{true: {"dst.vqf"}, false: {"back.vqf", "dst.vqf"}}[back == dst]...)
			}
		}
	}
}

// TestResealInPlace: the file keeps its name, and progress counts to the end.
func TestResealInPlace(t *testing.T) {
	path, _ := writeMini(t, miniSpec(vqf.ModeQ4, 41), nil, nil)
	plain := readFile(t, path)
	var last, total int64
	if _, err := vqf.Reseal(t.Context(), path, path, vqf.ResealOptions{To: vectorKey(t)}, func(d, n int64) { last, total = d, n }); err != nil {
		t.Fatal(err)
	}
	if last != total || total == 0 {
		t.Errorf("progress: got %d of %d", last, total)
	}
	if b := readFile(t, path); bytes.Contains(b, plain[5000:5064]) {
		t.Error("plain bytes in the encrypted file")
	}
	if _, err := vqf.Reseal(t.Context(), path, path, vqf.ResealOptions{From: vectorKey(t)}, nil); err != nil {
		t.Fatal(err)
	}
	if b := readFile(t, path); !bytes.Equal(b[448:], plain[448:]) {
		t.Error("other bytes after the way back")
	}
	ls(t, path, "mini.vqf")
}

// TestResealRefuses: what would lose a signature, or read what it must not.
func TestResealRefuses(t *testing.T) {
	_, signed := sealedMini(t, vqf.ModeQ4, 45, sealing{id: seal.IDKestrel}, nil)
	plain, enc := sealedMini(t, vqf.ModeQ4, 45, sealing{key: vectorKey(t), iv: vectorIV()}, nil)
	flip := func(b []byte) []byte { b = bytes.Clone(b); b[6000] ^= 4; return b }
	for _, c := range []struct {
		name string
		file []byte
		opt  vqf.ResealOptions
		is   error
	}{
		{"a signature lost", signed, vqf.ResealOptions{To: vectorKey(t)}, vqf.ErrUnsupported},
		{"no passphrase", enc, vqf.ResealOptions{}, vqf.ErrKey},
		{"another passphrase", enc, vqf.ResealOptions{From: passphrase(t, "x")}, vqf.ErrTag},
		{"changed", flip(enc), vqf.ResealOptions{From: vectorKey(t)}, vqf.ErrTag},
		{"damaged", flip(plain), vqf.ResealOptions{To: vectorKey(t)}, vqf.ErrChecksum},
		{"no VQF file", []byte("GGUF"), vqf.ResealOptions{To: vectorKey(t)}, vqf.ErrFormat},
	} {
		path := tempFile(t, c.file)
		dst := filepath.Join(t.TempDir(), "dst.vqf")
		if _, err := vqf.Reseal(t.Context(), path, dst, c.opt, nil); !errors.Is(err, c.is) {
			t.Errorf("%s: got %v, want %v", c.name, err, c.is)
		}
		ls(t, dst)
	}
	ctx, cancel := context.WithCancel(t.Context())
	path, dst := tempFile(t, enc), filepath.Join(t.TempDir(), "dst.vqf")
	calls := 0
	_, err := vqf.Reseal(ctx, path, dst, vqf.ResealOptions{From: vectorKey(t)}, func(int64, int64) {
		if calls++; calls == 2 { // while copying
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got %v", err)
	}
	ls(t, dst)
	if _, err := vqf.Reseal(t.Context(), filepath.Join(t.TempDir(), "none"), dst, vqf.ResealOptions{}, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: got %v", err)
	}
}
