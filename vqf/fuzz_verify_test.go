// SPDX-License-Identifier: Apache-2.0

package vqf_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"windhover/vqf"
	"windhover/vqf/seal"
)

// -update writes testdata/fuzz anew: the seeds of FuzzOpen and FuzzVerify, in Go's
// own form, so that a plain "go test" runs them and "go test -fuzz" starts there.
var update = flag.Bool("update", false, "write the fuzz corpora of testdata anew")

// FuzzVerify gives Verify, with passphrase and trusted keys, any file: it always
// reports, never passes what Open refuses, and finds a signature trusted only if
// everything before that held.
func FuzzVerify(f *testing.F) {
	dir := f.TempDir()
	key := vectorKey(f)
	tr := trust(f, map[string]*seal.PrivateKey{"maker": private(f, vectorD)})
	f.Fuzz(func(t *testing.T, b []byte, size uint32) {
		full := make([]byte, min(size, 1<<18))
		copy(full, b)
		path := filepath.Join(dir, "x.vqf")
		if err := os.WriteFile(path, full, 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := vqf.Verify(t.Context(), path, vqf.VerifyOptions{Key: key, Trust: tr}, nil)
		if err != nil {
			t.Fatalf("no report: %v", err)
		}
		_ = r.String()
		s := r.Signature
		if s.Trusted && !(s.Present && s.DigestOK && s.Valid) || s.Valid && !s.DigestOK || s.Trusted != (r.RequireSignature() == nil) {
			t.Fatalf("signature: %+v, %v", s, r.RequireSignature())
		}
		file, err := vqf.Open(path, vqf.OpenOptions{Key: key, FullCheck: true})
		if err != nil {
			if r.OK() {
				t.Fatalf("Verify passes what Open refuses: %v", err)
			}
			return
		}
		for _, e := range file.Tensors() {
			p := make([]byte, e.Bytes)
			if err := file.ReadTensor(e.Name, 0, p); err != nil {
				t.Fatalf("%s: %v", e.Name, err)
			}
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestCorpora keeps the seeds in testdata those that the code makes.
func TestCorpora(t *testing.T) {
	type seed struct {
		name string
		b    []byte
		size uint32
	}
	var heads, files []seed
	for i, plan := range small(t) {
		b := plan.Prefix()[:448+64*len(plan.Tensors)]
		heads = append(heads, seed{fmt.Sprintf("plan%d", i), b, uint32(plan.Size())}, seed{fmt.Sprintf("short%d", i), b, uint32(plan.Size() - 1)})
	}
	for _, h := range hostileFiles(t) {
		if len(h.prefix) <= 4096 {
			heads = append(heads, seed{"hostile " + h.name, h.prefix, 1 << 20})
		}
	}
	for _, fields := range []int{41, 45} {
		plain, _ := writeMini(t, miniSpec(vqf.ModeQ4, fields), nil, nil)
		b := readFile(t, plain)
		for name, s := range map[string]sealing{
			"encrypted": {key: vectorKey(t), iv: vectorIV()}, "signed": {id: seal.IDShs}, "both": {vectorKey(t), vectorIV(), seal.IDKestrel},
		} {
			b := sealedBytes(t, b, fields, s)
			files = append(files, seed{fmt.Sprintf("%s %d", name, fields), b, uint32(len(b))})
			heads = append(heads, seed{fmt.Sprintf("%s %d", name, fields), b[:448+64*14], uint32(len(b))})
		}
		files = append(files, seed{fmt.Sprintf("plain %d", fields), b, uint32(len(b))})
	}
	for fuzz, seeds := range map[string][]seed{"FuzzOpen": heads, "FuzzVerify": files} {
		dir := filepath.Join("testdata", "fuzz", fuzz)
		for _, s := range seeds {
			path := filepath.Join(dir, strings.ReplaceAll(s.name, " ", "-"))
			want := fmt.Sprintf("go test fuzz v1\n[]byte(%q)\nuint32(%d)\n", s.b, s.size)
			if *update {
				if err := os.MkdirAll(dir, 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if got := readFile(t, path); string(got) != want {
				t.Errorf("%s is another file: run this test with -update if that is meant", path)
			}
		}
	}
}
