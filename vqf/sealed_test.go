// SPDX-License-Identifier: Apache-2.0

package vqf_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"strings"
	"sync"
	"testing"

	"windhover/vqf"
	"windhover/vqf/seal"
)

// TestSealedVector holds the test's own sealing to the last row of docs/FORMAT.md
// section 17.6, so that what it makes can be trusted below.
func TestSealedVector(t *testing.T) {
	_, b := sealedMini(t, vqf.ModeQ4, 45, sealing{key: vectorKey(t), iv: vectorIV(), id: seal.IDKestrel}, nil)
	digest := sha256.Sum256(b)
	if got, want := hex.EncodeToString(digest[:]), "bb6262443d3e3825a9f39c3aa14d66c1be705fc04714eeb2785052cba72fd4f3"; got != want {
		t.Errorf("file: got %s, want %s", got, want)
	}
	if got, want := hex.EncodeToString(b[376:408]), "6c789e5ac805a2b98be917f0556e848764476de3d38f0f27ab5c2fe19199d74d"; got != want {
		t.Errorf("digest: got %s, want %s", got, want)
	}
	if got, want := hex.EncodeToString(b[20416:]), "e32af34768fea00aece95301ac34aee92984a38565708db3adc1c19dcda24192"; got != want {
		t.Errorf("tag: got %s, want %s", got, want)
	}
}

// TestOpenEncrypted reads encrypted files of both headers in every way there is,
// and gets what the plain file has.
func TestOpenEncrypted(t *testing.T) {
	extra := map[string]string{vqf.NameTokenizer: `{"t":1}`, vqf.NameMeta: `{"v":1}`}
	for _, fields := range []int{41, 45} {
		for _, mode := range []vqf.Mode{vqf.ModeDual, vqf.ModeQ4I} {
			for _, id := range []string{"", seal.IDKestrel, seal.IDShs} {
				plain, b := sealedMini(t, mode, fields, sealing{vectorKey(t), vectorIV(), id}, extra)
				want := open(t, tempFile(t, plain), vqf.OpenOptions{})
				path := tempFile(t, b)
				for _, opt := range []vqf.OpenOptions{
					{}, {Verified: true}, {Lazy: true}, {Lazy: true, Verified: true}, {FullCheck: true, Verified: true}, {Lazy: true, FullCheck: true},
					{Strict: true, Expect: want.Flags()},
				} {
					opt.Key = vectorKey(t)
					same(t, open(t, path, opt), want, opt)
				}
			}
		}
	}
}

// same compares all that a file hands out.
func same(t *testing.T, got, want *vqf.File, opt vqf.OpenOptions) {
	t.Helper()
	if !got.Encrypted() || want.Encrypted() {
		t.Errorf("encrypted: got %v, want %v", got.Encrypted(), want.Encrypted())
	}
	for _, e := range want.Tensors() {
		w, err := want.Data(e.Name)
		if err != nil {
			t.Fatal(err)
		}
		d, err := got.Data(e.Name)
		switch {
		case opt.Lazy && !errors.Is(err, vqf.ErrUnsupported):
			t.Errorf("lazy: Data(%s): got %v, want ErrUnsupported", e.Name, err)
		case !opt.Lazy && (err != nil || !bytes.Equal(d, w) || cap(d) != len(d)):
			t.Errorf("%s: %v, or other bytes", e.Name, err)
		}
		floats, err := got.Floats(e.Name)
		if e.Type == vqf.F32 && !opt.Lazy && (err != nil || 4*len(floats) != len(w)) {
			t.Errorf("Floats(%s): got %d, %v", e.Name, len(floats), err)
		}
		for _, f := range []*vqf.File{got, want} {
			for _, r := range [][2]int{{0, len(w)}, {1, len(w) - 1}, {len(w) / 3, len(w) / 2}, {len(w), len(w)}} {
				p := make([]byte, r[1]-r[0])
				if err := f.ReadTensor(e.Name, int64(r[0]), p); err != nil || !bytes.Equal(p, w[r[0]:r[1]]) {
					t.Errorf("ReadTensor(%s, %d, %d): %v, or other bytes", e.Name, r[0], len(p), err)
				}
			}
		}
	}
	if string(got.Tokenizer()) != string(want.Tokenizer()) || string(got.Meta()) != string(want.Meta()) {
		t.Errorf("embedded: got %q and %q", got.Tokenizer(), got.Meta())
	}
	gl, gerr := got.Q8Layout()
	wl, werr := want.Q8Layout()
	if gl != wl || (gerr == nil) != (werr == nil) {
		t.Errorf("Q8Layout: got %v, %v, want %v, %v", gl, gerr, wl, werr)
	}
	gl, gerr = got.Q4Layout()
	wl, werr = want.Q4Layout()
	if gl != wl || (gerr == nil) != (werr == nil) {
		t.Errorf("Q4Layout: got %v, %v, want %v, %v", gl, gerr, wl, werr)
	}
}

// TestReadTensorRefuses ranges outside a tensor, whatever the numbers.
func TestReadTensorRefuses(t *testing.T) {
	plain, b := sealedMini(t, vqf.ModeQ4, 45, sealing{key: vectorKey(t)}, nil)
	for _, f := range []*vqf.File{
		open(t, tempFile(t, plain), vqf.OpenOptions{}),
		open(t, tempFile(t, b), vqf.OpenOptions{Key: vectorKey(t)}),
		open(t, tempFile(t, b), vqf.OpenOptions{Key: vectorKey(t), Lazy: true}),
	} {
		for _, c := range []struct {
			off int64
			n   int
		}{{-1, 0}, {-1, 10}, {0, 1025}, {1024, 1}, {1025, 0}, {1 << 62, 1}, {-1 << 63, 1}} {
			if err := f.ReadTensor("token_embed", c.off, make([]byte, c.n)); !errors.Is(err, vqf.ErrFormat) {
				t.Errorf("%d bytes from %d: got %v, want ErrFormat", c.n, c.off, err)
			}
		}
		if err := f.ReadTensor("none", 0, nil); !errors.Is(err, vqf.ErrFormat) {
			t.Errorf("unknown name: got %v", err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Errorf("second Close: %v", err)
		}
		if err := f.ReadTensor("token_embed", 0, make([]byte, 8)); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("closed: got %v, want ErrClosed", err)
		}
		if _, err := f.Data("token_embed"); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("closed: Data: got %v, want ErrClosed", err)
		}
	}
}

// TestTagCovers flips one byte in each region of an encrypted file: what the tag
// covers is refused before anything is handed out.
func TestTagCovers(t *testing.T) {
	for _, fields := range []int{41, 45} {
		_, good := sealedMini(t, vqf.ModeQ4, fields, sealing{vectorKey(t), vectorIV(), seal.IDKestrel}, nil)
		tail := 184
		if fields == 45 {
			tail = 200
		}
		for _, c := range []struct {
			region string
			at     int
			breaks bool
		}{
			{"header", 44, true}, // max_seq_len, which a plain file does not protect
			{"header, SIGNED", 9, true},
			{"IV", tail + 20, true},
			{"signature block, key", tail + 48, false},
			{"signature block, r", tail + 48 + 64, false},
			{"signature block, digest", tail + 48 + 130, false},
			{"gap", 4000, false},
			{"data", 4096, true},
			{"data, last tensor", 20416 - 33, true},
			{"padding", 20416 - 1, true},
			{"tag, first byte", 20416, true},
			{"tag, last byte", 20416 + 31, true},
		} {
			b := append([]byte(nil), good...)
			b[c.at] ^= 1
			if c.at == 9 { // SIGNED taken off: the block must go too, or the header is malformed
				clear(b[tail+48 : tail+248])
			}
			path := tempFile(t, b)
			for _, lazy := range []bool{false, true} {
				f, err := vqf.Open(path, vqf.OpenOptions{Key: vectorKey(t), Lazy: lazy})
				if c.breaks && (!errors.Is(err, vqf.ErrTag) || !strings.Contains(err.Error(), "HMAC-SM3 mismatch")) {
					t.Errorf("%d fields, %s: got %v, want ErrTag", fields, c.region, err)
				}
				if !c.breaks && err != nil {
					t.Errorf("%d fields, %s: got %v, but nothing covers it", fields, c.region, err)
				}
				if err == nil {
					if err := f.Close(); err != nil {
						t.Error(err)
					}
				}
			}
		}
		// The directory, in a way that no other check minds: k_norm's rows and cols swapped.
		b := append([]byte(nil), good...)
		copy(b[448+64*5+36:], []byte{1, 0, 0, 0, 64, 0, 0, 0})
		if _, err := vqf.Open(tempFile(t, b), vqf.OpenOptions{Key: vectorKey(t)}); !errors.Is(err, vqf.ErrTag) {
			t.Errorf("%d fields, directory: got %v, want ErrTag", fields, err)
		}
	}
}

// TestKeys: no passphrase, another one, and one that is not needed.
func TestKeys(t *testing.T) {
	plain, b := sealedMini(t, vqf.ModeQ4, 45, sealing{key: vectorKey(t)}, nil)
	path := tempFile(t, b)
	for _, lazy := range []bool{false, true} {
		if _, err := vqf.Open(path, vqf.OpenOptions{Lazy: lazy, Verified: true}); !errors.Is(err, vqf.ErrKey) || !strings.Contains(err.Error(), "VLLM_VQF_KEY") {
			t.Errorf("no passphrase: got %v, want ErrKey", err)
		}
		if _, err := vqf.Open(path, vqf.OpenOptions{Lazy: lazy, Key: passphrase(t, vectorPassphrase+"\n")}); !errors.Is(err, vqf.ErrTag) {
			t.Errorf("another passphrase: got %v, want ErrTag", err)
		}
	}
	f := open(t, tempFile(t, plain), vqf.OpenOptions{Key: vectorKey(t), Lazy: true})
	if d, err := f.Data("q4_q"); err != nil || len(d) == 0 {
		t.Errorf("a plain file, opened with a key: %v", err)
	}
}

// TestOpenEncryptedCancelled: a load that is no longer wanted ends.
func TestOpenEncryptedCancelled(t *testing.T) {
	_, b := sealedMini(t, vqf.ModeQ4, 45, sealing{key: vectorKey(t)}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, opt := range []vqf.OpenOptions{{}, {Verified: true}, {Lazy: true}} {
		opt.Key = vectorKey(t)
		if _, err := vqf.OpenContext(ctx, tempFile(t, b), opt, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("%+v: got %v, want context.Canceled", opt, err)
		}
	}
	var done, total int64
	f, err := vqf.OpenContext(t.Context(), tempFile(t, b), vqf.OpenOptions{Key: vectorKey(t)}, func(d, n int64) { done, total = d, n })
	if err != nil || done != 20416-448 || total != done {
		t.Errorf("progress: got %d of %d, %v", done, total, err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

// TestRebaseEncrypted moves encrypted files, read both ways, onto a copy and
// destroys the first one.
func TestRebaseEncrypted(t *testing.T) {
	plain, b := sealedMini(t, vqf.ModeQ4, 45, sealing{key: vectorKey(t)}, nil)
	want, err := open(t, tempFile(t, plain), vqf.OpenOptions{}).Data("q4_gate")
	if err != nil {
		t.Fatal(err)
	}
	for _, lazy := range []bool{false, true} {
		path := tempFile(t, b)
		f := open(t, path, vqf.OpenOptions{Key: vectorKey(t), Lazy: lazy})
		other, err := os.Open(tempFile(t, b))
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				p := make([]byte, len(want))
				for range 200 {
					if err := f.ReadTensor("q4_gate", 0, p); err != nil || !bytes.Equal(p, want) {
						t.Errorf("lazy %v: %v, or other bytes while the file moves", lazy, err)
						return
					}
				}
			})
		}
		for range 50 {
			if err := f.Rebase(other); err != nil {
				t.Fatal(err)
			}
		}
		wg.Wait()
		if err := other.Close(); err != nil {
			t.Error(err)
		}
		if err := os.WriteFile(path, []byte("gone"), 0o600); err != nil {
			t.Fatal(err)
		}
		p := make([]byte, len(want))
		if err := f.ReadTensor("q4_gate", 0, p); err != nil || !bytes.Equal(p, want) {
			t.Errorf("lazy %v: %v, or other bytes after the first file was written over", lazy, err)
		}
	}
}

// TestPlainMemoryIsReadOnly: what was deciphered cannot be written to by mistake.
// (A write faults, which a test cannot survive; the kernel's word is taken.)
func TestPlainMemoryIsReadOnly(t *testing.T) {
	_, b := sealedMini(t, vqf.ModeQ4, 45, sealing{key: vectorKey(t)}, nil)
	f := open(t, tempFile(t, b), vqf.OpenOptions{Key: vectorKey(t)})
	d, err := f.Data("token_embed")
	if err != nil {
		t.Fatal(err)
	}
	if perm := permissions(t, d); perm != "r--p" {
		t.Errorf("got %s, want r--p", perm)
	}
}
