// SPDX-License-Identifier: Apache-2.0

package vqf_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"windhover/vqf"
	"windhover/vqf/seal"
)

// changed is a copy with one bit of it flipped and the checksum made right again,
// as anybody can who knows the format.
func changed(b []byte, at int) []byte {
	b = bytes.Clone(b)
	b[at] ^= 4
	data, end := binary.LittleEndian.Uint64(b[200:]), len(b)-8
	dir := b[448 : 448+64*int(binary.LittleEndian.Uint32(b[12:]))]
	sum := vqf.FNV(append(bytes.Clone(dir), b[data:end]...))
	binary.LittleEndian.PutUint64(b[end:], sum)
	return b
}

// TestResealBadSignature: no new signature, and no file without one, comes of a file
// whose own signature does not hold, whatever the checksum says.
func TestResealBadSignature(t *testing.T) {
	key := vectorKey(t)
	_, signed := sealedMini(t, vqf.ModeQ4, 45, sealing{id: seal.IDKestrel}, nil)
	_, both := sealedMini(t, vqf.ModeQ4, 45, sealing{key: key, iv: vectorIV(), id: seal.IDKestrel}, nil)
	flip := func(b []byte, at int) []byte { b = bytes.Clone(b); b[at] ^= 4; return b }
	const block = 248
	for name, file := range map[string][]byte{
		"data":                    changed(signed, len(signed)-100),
		"architecture":            changed(signed, 48), // rope_theta
		"key":                     flip(signed, block+3),
		"r":                       flip(signed, block+64),
		"s":                       flip(signed, block+127),
		"digest":                  flip(signed, block+128),
		"signer id":               flip(signed, block+160),
		"r of an encrypted file":  flip(both, block+64),
		"id of an encrypted file": flip(both, block+160),
	} {
		opts := map[string]vqf.ResealOptions{
			"sign":                   {Sign: private(t, vectorD)},
			"encrypt, sign":          {To: key, Sign: private(t, vectorD)},
			"encrypt, drop":          {To: key, DropSignature: true},
			"drop":                   {DropSignature: true},
			"other passphrase, drop": {To: passphrase(t, "x"), DropSignature: true},
		}
		for what, opt := range opts {
			opt.From = key
			path, dst := tempFile(t, file), filepath.Join(t.TempDir(), "dst.vqf")
			for _, to := range []string{dst, path} {
				if _, err := vqf.Reseal(t.Context(), path, to, opt, nil); !errors.Is(err, vqf.ErrSignature) {
					t.Errorf("%s, %s: got %v, want %v", name, what, err, vqf.ErrSignature)
				}
			}
			ls(t, dst)
			ls(t, path, filepath.Base(path))
			if !bytes.Equal(readFile(t, path), file) {
				t.Errorf("%s, %s: the file was touched", name, what)
			}
		}
	}
	// The same, untouched, passes.
	if _, err := vqf.Reseal(t.Context(), tempFile(t, signed), filepath.Join(t.TempDir(), "dst.vqf"), vqf.ResealOptions{To: key, DropSignature: true}, nil); err != nil {
		t.Error(err)
	}
}

// TestResealBetweenPasses: what is written to the file between the two passes comes
// out of neither, and not under a signature; the time of writing may be set back.
func TestResealBetweenPasses(t *testing.T) {
	key := vectorKey(t)
	plain, enc := sealedMini(t, vqf.ModeQ4, 45, sealing{key: key, iv: vectorIV()}, nil)
	_, signed := sealedMini(t, vqf.ModeQ4, 45, sealing{id: seal.IDKestrel}, nil)
	_, both := sealedMini(t, vqf.ModeQ4, 45, sealing{key: key, iv: vectorIV(), id: seal.IDKestrel}, nil)
	unsummed := bytes.Clone(plain)
	clear(unsummed[len(unsummed)-8:])
	for name, file := range map[string][]byte{"plain": plain, "no checksum": unsummed, "encrypted": enc, "signed": signed, "both": both} {
		for where, at := range map[string]int{"data": len(file) - 100, "directory": 448 + 44} {
			for what, opt := range map[string]vqf.ResealOptions{
				"sign":    {From: key, Sign: private(t, vectorD)},
				"encrypt": {From: key, To: passphrase(t, "x"), DropSignature: true},
			} {
				path, dst := tempFile(t, file), filepath.Join(t.TempDir(), "dst.vqf")
				before, err := os.Stat(path)
				if err != nil {
					t.Fatal(err)
				}
				now := file
				write := func(b []byte) {
					now = b
					if err := os.WriteFile(path, b, 0o644); err != nil {
						t.Error(err)
					}
					if err := os.Chtimes(path, time.Time{}, before.ModTime()); err != nil {
						t.Error(err)
					}
				}
				calls := 0
				_, err = vqf.Reseal(t.Context(), path, dst, opt, func(done, total int64) {
					if calls++; done == total/3 { // the first pass has read everything
						b := bytes.Clone(file)
						b[at] ^= 1
						write(b)
					}
				})
				if !errors.Is(err, vqf.ErrChecksum) || !strings.Contains(err.Error(), "was changed while it was read") || !strings.Contains(err.Error(), path) {
					t.Errorf("%s, %s, %s: got %v", name, where, what, err)
				}
				if calls < 2 || bytes.Equal(now, file) {
					t.Fatalf("the file was not changed in %d calls", calls)
				}
				ls(t, dst)
			}
		}
	}
}

// TestResealReplaced: in place, a file that gets the name during the work keeps it,
// and one that was written to meanwhile is not lost.
func TestResealReplaced(t *testing.T) {
	plain, _ := sealedMini(t, vqf.ModeQ4, 45, sealing{}, nil)
	for _, at := range []int64{1, 2, 3} { // in each of the passes
		for name, meddle := range map[string]func(path string) error{
			"replaced": func(path string) error {
				next := path + ".next"
				if err := os.WriteFile(next, []byte("the next version"), 0o644); err != nil {
					return err
				}
				return os.Rename(next, path)
			},
			"removed": os.Remove,
			"written to, time set back": func(path string) error {
				fi, err := os.Stat(path)
				if err != nil {
					return err
				}
				f, err := os.OpenFile(path, os.O_WRONLY, 0)
				if err != nil {
					return err
				}
				_, err = f.WriteAt([]byte{'F'}, 0) // as it was
				return errors.Join(err, f.Close(), os.Chtimes(path, time.Time{}, fi.ModTime()))
			},
		} {
			path := tempFile(t, plain)
			done := false
			var want []byte
			_, err := vqf.Reseal(t.Context(), path, path, vqf.ResealOptions{Sign: private(t, vectorD)}, func(d, n int64) {
				if !done && d >= at*n/3 {
					done = true
					if err := meddle(path); err != nil {
						t.Error(err)
					}
					want, _ = os.ReadFile(path) // none if it was removed
				}
			})
			if err == nil || !strings.Contains(err.Error(), "meanwhile") || !done {
				t.Errorf("%s in pass %d: got %v", name, at, err)
			}
			if got, _ := os.ReadFile(path); !bytes.Equal(got, want) {
				t.Errorf("%s in pass %d: %d bytes have the name, want %d", name, at, len(got), len(want))
			}
		}
	}
}
