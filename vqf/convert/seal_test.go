// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"windhover/vqf"
	"windhover/vqf/convert"
	"windhover/vqf/seal"
)

func passphrase(t *testing.T, text string) *seal.Key {
	t.Helper()
	k, err := seal.KeyFromPassphrase([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func signer(t *testing.T) *seal.PrivateKey {
	t.Helper()
	k, err := seal.GenerateSM2()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// plainOf is every tensor of a file, deciphered where it has to be.
func plainOf(t *testing.T, path string, key *seal.Key) map[string][]byte {
	t.Helper()
	f, err := vqf.Open(path, vqf.OpenOptions{FullCheck: true, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out := map[string][]byte{}
	for _, w := range f.Tensors() {
		b := make([]byte, w.Bytes)
		if err := f.ReadTensor(w.Name, 0, b); err != nil {
			t.Fatal(err)
		}
		out[w.Name] = b
	}
	return out
}

// An encrypted and signed result holds the tensors of the plain one, and is what
// the readers of such files accept.
func TestSealed(t *testing.T) {
	src := miniature.ggufFile(t, "qwen3", "F32", nil)
	key, sign := passphrase(t, "open sesame"), signer(t)
	plain, _ := run(t, src, convert.Options{Mode: "dual"})
	want := plainOf(t, plain, nil)
	for _, c := range []struct {
		opt   convert.Options
		flags vqf.Flags
	}{
		{convert.Options{Encrypt: key}, vqf.FlagEnc},
		{convert.Options{Sign: sign}, vqf.FlagSigned},
		{convert.Options{Encrypt: key, Sign: sign, SignID: seal.IDShs}, vqf.FlagEnc | vqf.FlagSigned},
	} {
		c.opt.Mode = "dual"
		dst, r := run(t, src, c.opt)
		if got := r.Flags & (vqf.FlagEnc | vqf.FlagSigned); got != c.flags || r.MemSum != r.FileSum {
			t.Errorf("flags %s, sums %s and %s", r.Flags, r.MemSum, r.FileSum)
		}
		got := plainOf(t, dst, c.opt.Encrypt)
		for name := range want {
			if !bytes.Equal(got[name], want[name]) {
				t.Errorf("%s: %s differs from the plain file's", c.flags, name)
			}
		}
		trust := &seal.Trust{SM2: []seal.TrustedSM2{{Name: "me", Key: sign.Public()}}}
		v, err := vqf.Verify(context.Background(), dst, vqf.VerifyOptions{Key: c.opt.Encrypt, Trust: trust}, nil)
		if err != nil || !v.OK() {
			t.Errorf("%s: verify: %v\n%s", c.flags, err, v)
		}
		if c.opt.Sign != nil {
			if err := v.RequireSignature(); err != nil || !strings.Contains(r.String(), "signed     by "+sign.Public().Fingerprint()) {
				t.Errorf("%s: %v, report\n%s", c.flags, err, r)
			}
		}
	}
	mustFail(t, src, convert.Options{Encrypt: key, Header: "41"}, convert.ErrOption, "45 fields")
	mustFail(t, src, convert.Options{Sign: sign, SignID: "me"}, convert.ErrOption, `signer id "me"`)
	mustFail(t, src, convert.Options{SignID: seal.IDShs}, convert.ErrOption, "goes with a key")
}

// An encrypted conversion is continued under its own counter block, and not with
// another passphrase: the file would have two.
func TestResumeSealed(t *testing.T) {
	src := resumable.ggufFile(t, "qwen3", "F32", nil)
	plain, _ := run(t, src, convert.Options{Mode: "dual"})
	want := plainOf(t, plain, nil)
	for _, again := range []string{"one", "two"} {
		dst := filepath.Join(t.TempDir(), "out.vqf")
		opt := often("dual")
		opt.Encrypt, opt.Sign = passphrase(t, "one"), signer(t)
		if err := interrupt(t, src, dst, opt, 30); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		opt.Encrypt = passphrase(t, again)
		r, err := convert.Run(context.Background(), src, dst, opt, nil)
		if err != nil {
			t.Fatal(err)
		}
		if continued := r.Resumed > 0; continued != (again == "one") || !continued && !strings.Contains(strings.Join(r.Notes, "; "), "begun anew: another passphrase") {
			t.Errorf("passphrase %q: resumed %d, notes %q", again, r.Resumed, r.Notes)
		}
		got := plainOf(t, dst, opt.Encrypt)
		for name := range want {
			if !bytes.Equal(got[name], want[name]) {
				t.Errorf("passphrase %q: %s differs from the plain file's", again, name)
			}
		}
		if v, err := vqf.Verify(context.Background(), dst, vqf.VerifyOptions{Key: opt.Encrypt}, nil); err != nil || !v.OK() {
			t.Errorf("passphrase %q: verify: %v\n%s", again, err, v)
		}
	}
}
