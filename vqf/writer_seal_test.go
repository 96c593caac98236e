// SPDX-License-Identifier: Apache-2.0

package vqf_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"windhover/vqf"
	"windhover/vqf/seal"
)

// vectorOptions make the bytes of the last row of docs/FORMAT.md section 17.6.
func vectorOptions(t testing.TB) vqf.CreateOptions {
	t.Helper()
	opt := vqf.CreateOptions{Key: vectorKey(t), Sign: private(t, vectorD)}
	opt.FixedIV(vectorIV())
	opt.FixedSigner(func(id string, digest [32]byte) (r, s [32]byte, err error) {
		r, s = sm2Sign(t, vectorD, vectorK, id, digest)
		return r, s, nil
	})
	return opt
}

// fill writes all of a plan's tensors and commits.
func fill(t *testing.T, w *vqf.Writer, s vqf.Spec, plan *vqf.Plan) vqf.Result {
	t.Helper()
	for _, e := range plan.Tensors {
		if err := w.WriteTensor(e.Name, payload(t, s.Arch, s.Mode, e, layoutOf(s, e.Name))); err != nil {
			t.Fatal(err)
		}
	}
	res, err := w.Commit()
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// TestWriteSealedVector holds a whole file, its digest and its tag to the vectors.
func TestWriteSealedVector(t *testing.T) {
	s := miniSpec(vqf.ModeQ4, 0)
	s.Encrypt, s.Signed = true, true
	plan, err := vqf.NewPlan(s)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "sealed.vqf")
	w, err := vqf.CreateWith(path, plan, vectorOptions(t))
	if err != nil {
		t.Fatal(err)
	}
	res := fill(t, w, s, plan)
	const want = "bb6262443d3e3825a9f39c3aa14d66c1be705fc04714eeb2785052cba72fd4f3"
	b := readFile(t, path)
	if got := sha256.Sum256(b); hex.EncodeToString(got[:]) != want || res.SHA256 != want || res.Size != 20448 || len(b) != 20448 {
		t.Errorf("got %x, %+v, %d bytes", got, res, len(b))
	}
	f := open(t, path, vqf.OpenOptions{Key: vectorKey(t)})
	h := f.Header()
	if h.Flags != 0x1A3 || h.Fields != 45 || h.NTensors != 14 || h.FileLen != 20416 || h.DataOffset != 4096 || h.EncIV != vectorIV() {
		t.Errorf("header: got %+v", h)
	}
	if got := hex.EncodeToString(h.Sig.Digest[:]); got != "6c789e5ac805a2b98be917f0556e848764476de3d38f0f27ab5c2fe19199d74d" {
		t.Errorf("digest: got %s", got)
	}
	if got := hex.EncodeToString(b[20416:]); got != "e32af34768fea00aece95301ac34aee92984a38565708db3adc1c19dcda24192" {
		t.Errorf("tag: got %s", got)
	}
}

// TestWriteSealed writes encrypted, signed and both, in pieces cut anywhere, and
// holds the bytes to the test's own sealing of the plain file.
func TestWriteSealed(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for _, c := range []struct{ enc, signed bool }{{true, false}, {false, true}, {true, true}} {
		for _, id := range []string{"", seal.IDShs} {
			for _, most := range []int{63, 5000, 1 << 20} {
				t.Run(fmt.Sprintf("%+v %q %d", c, id, most), func(t *testing.T) {
					s := miniSpec(vqf.ModeDual, 45)
					ref, _ := writeMini(t, s, nil, nil)
					how := sealing{}
					s.Encrypt, s.Signed = c.enc, c.signed
					opt := vectorOptions(t)
					if !c.enc {
						opt.Key = nil
					} else {
						how.key, how.iv = vectorKey(t), vectorIV()
					}
					if opt.SignID = id; !c.signed {
						opt.Sign = nil
					} else if how.id = id; id == "" {
						how.id = seal.IDKestrel
					}
					plan, err := vqf.NewPlan(s)
					if err != nil {
						t.Fatal(err)
					}
					path := filepath.Join(t.TempDir(), "x.vqf")
					w, err := vqf.CreateWith(path, plan, opt)
					if err != nil {
						t.Fatal(err)
					}
					for _, e := range plan.Tensors {
						p := payload(t, s.Arch, s.Mode, e, layoutOf(s, e.Name))
						for len(p) > 0 {
							n := min(len(p), 1+rng.IntN(most))
							if _, err := w.Write(p[:n]); err != nil {
								t.Fatal(err)
							}
							clear(p[:n]) // the writer has taken it
							p = p[n:]
						}
					}
					res, err := w.Commit()
					if err != nil {
						t.Fatal(err)
					}
					b := readFile(t, path)
					if want := sealedBytes(t, readFile(t, ref), 45, how); !bytes.Equal(b, want) {
						t.Errorf("%d bytes differ from the %d wanted", len(b), len(want))
					}
					r, err := vqf.Verify(t.Context(), path, vqf.VerifyOptions{Key: opt.Key, Trust: trust(t, map[string]*seal.PrivateKey{"maker": private(t, vectorD)})}, nil)
					if err != nil || !r.OK() || r.Signature.Trusted != c.signed || r.SHA256 != res.SHA256 {
						t.Errorf("%v\n%s", err, r)
					}
					ls(t, path, "x.vqf")
				})
			}
		}
	}
}

// TestCounterBlocks: no two files share one, and signatures are made anew.
func TestCounterBlocks(t *testing.T) {
	s := miniSpec(vqf.ModeQ4, 0)
	s.Encrypt, s.Signed = true, true
	plan, err := vqf.NewPlan(s)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[[16]byte]bool{{}: true}
	for range 4 {
		path := filepath.Join(t.TempDir(), "x.vqf")
		w, err := vqf.CreateWith(path, plan, vqf.CreateOptions{Key: vectorKey(t), Sign: private(t, vectorD)})
		if err != nil {
			t.Fatal(err)
		}
		fill(t, w, s, plan)
		r, err := vqf.Verify(t.Context(), path, vqf.VerifyOptions{Key: vectorKey(t)}, nil)
		if err != nil || !r.OK() || !r.Signature.Valid {
			t.Errorf("%v\n%s", err, r)
		}
		h := open(t, path, vqf.OpenOptions{Key: vectorKey(t)}).Header()
		if seen[h.EncIV] {
			t.Errorf("%x again", h.EncIV)
		}
		seen[h.EncIV] = true
		// A plan made of a file's header brings its counter block along; the writer draws its own.
		plan = &vqf.Plan{Header: h, Tensors: plan.Tensors}
	}
}

// TestCreateWithRefuses: plan and keys must agree.
func TestCreateWithRefuses(t *testing.T) {
	for _, c := range []struct {
		enc, signed bool
		opt         vqf.CreateOptions
		say         string
	}{
		{true, false, vqf.CreateOptions{}, "encrypted: true, but there is a key: false"},
		{false, false, vqf.CreateOptions{Key: vectorKey(t)}, "encrypted: false, but there is a key: true"},
		{false, true, vqf.CreateOptions{}, "signed: true, but there is a signing key: false"},
		{false, false, vqf.CreateOptions{Sign: private(t, vectorD)}, "signed: false, but there is a signing key: true"},
		{false, true, vqf.CreateOptions{Sign: private(t, vectorD), SignID: "me"}, `no reader accepts the signer id "me"`},
	} {
		s := miniSpec(vqf.ModeQ4, 0)
		s.Encrypt, s.Signed = c.enc, c.signed
		plan, err := vqf.NewPlan(s)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "x.vqf")
		if _, err := vqf.CreateWith(path, plan, c.opt); err == nil || !strings.Contains(err.Error(), c.say) {
			t.Errorf("got %v, want %q", err, c.say)
		}
		ls(t, path)
	}
	for _, s := range []vqf.Spec{{Encrypt: true}, {Signed: true}} {
		full := miniSpec(vqf.ModeQ4, 41)
		full.Encrypt, full.Signed = s.Encrypt, s.Signed
		if _, err := vqf.NewPlan(full); err == nil || !strings.Contains(err.Error(), "45-field header") {
			t.Errorf("41 fields: got %v", err)
		}
	}
}

// TestSealedMistakes: a file that is not finished leaves nothing, not even
// goroutines that hash it; damage on its way is found.
func TestSealedMistakes(t *testing.T) {
	s := miniSpec(vqf.ModeQ4, 0)
	s.Encrypt, s.Signed = true, true
	for _, at := range []int64{-1, 3, 44, 220, 250, 500, 4000, 5000, 20400} {
		plan, err := vqf.NewPlan(s)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "x.vqf")
		w, err := vqf.CreateWith(path, plan, vqf.CreateOptions{Key: vectorKey(t), Sign: private(t, vectorD)})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range plan.Tensors {
			if err := w.WriteTensor(e.Name, make([]byte, e.Bytes)); err != nil {
				t.Fatal(err)
			}
		}
		if at < 0 {
			w.Abort()
			w.Abort()
		} else {
			damage(t, tempName(t, path), at)
		}
		_, err = w.Commit()
		// The header is written again at the end: damage there is mended.
		if mended := at >= 0 && at < 448; (err == nil) != mended {
			t.Errorf("byte %d: got %v", at, err)
		} else if !mended {
			ls(t, path)
		}
	}
}

// damage changes a byte, whatever it is: of ciphertext any may be the one that a test
// would write.
func damage(t *testing.T, path string, at int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	var b [1]byte
	if _, err := f.ReadAt(b[:], at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 0xFF
	if _, err := f.WriteAt(b[:], at); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestResumeSealed leaves a sealed file in the middle and continues it: the hashes
// take up where they were, under the same counter block.
func TestResumeSealed(t *testing.T) {
	for _, c := range []struct{ enc, signed bool }{{true, false}, {false, true}, {true, true}} {
		s := miniSpec(vqf.ModeQ4, 0)
		s.Encrypt, s.Signed = c.enc, c.signed
		plan, err := vqf.NewPlan(s)
		if err != nil {
			t.Fatal(err)
		}
		opt := vqf.CreateOptions{}
		if c.enc {
			opt.Key = vectorKey(t)
		}
		if c.signed {
			opt.Sign = private(t, vectorD)
		}
		path := filepath.Join(t.TempDir(), "x.vqf")
		w, err := vqf.CreatePartialWith(path, plan, opt)
		if err != nil {
			t.Fatal(err)
		}
		var all []byte
		for _, e := range plan.Tensors {
			all = append(all, payload(t, s.Arch, s.Mode, e, layoutOf(s, e.Name))...)
		}
		if _, err := w.Write(all[:9001]); err != nil {
			t.Fatal(err)
		}
		mark := w.Mark()
		if _, err := w.Write(all[9001:12000]); err != nil {
			t.Fatal(err)
		}
		w.Leave()
		if c.enc {
			if _, err := vqf.ResumeWith(t.Context(), path, plan, mark, vqf.CreateOptions{Sign: opt.Sign}, nil); err == nil {
				t.Error("resumed without the key")
			}
		}
		w, err = vqf.ResumeWith(t.Context(), path, plan, mark, opt, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(all[9001:]); err != nil {
			t.Fatal(err)
		}
		res, err := w.Commit()
		if err != nil {
			t.Fatal(err)
		}
		r, err := vqf.Verify(t.Context(), path, vqf.VerifyOptions{Key: opt.Key}, nil)
		if err != nil || !r.OK() || r.SHA256 != res.SHA256 || r.Signature.Valid != c.signed {
			t.Errorf("%+v: %v\n%s", c, err, r)
		}
		f := open(t, path, vqf.OpenOptions{Key: opt.Key})
		at := 0
		for _, e := range plan.Tensors {
			d, err := f.Data(e.Name)
			if err != nil || !bytes.Equal(d, all[at:at+int(e.Bytes)]) {
				t.Errorf("%+v: %s: %v, or other bytes", c, e.Name, err)
			}
			at += int(e.Bytes)
		}
		mark.Sum++
		if _, err := vqf.ResumeWith(t.Context(), path, plan, mark, opt, nil); !errors.Is(err, vqf.ErrResume) {
			t.Errorf("nothing to resume: got %v, want ErrResume", err)
		}
	}
}
