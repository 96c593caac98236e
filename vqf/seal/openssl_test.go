// SPDX-License-Identifier: Apache-2.0

package seal_test

import (
	"bytes"
	"encoding/asn1"
	"encoding/hex"
	"encoding/pem"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"windhover/vqf/seal"
)

// openssl runs the program, an implementation that shares no code with ours.
func openssl(t *testing.T, stdin []byte, args ...string) []byte {
	t.Helper()
	program, err := exec.LookPath("openssl")
	if err != nil {
		t.Skip("the program openssl is not installed")
	}
	if exec.Command(program, "dgst", "-sm3", os.DevNull).Run() != nil {
		t.Skip("this openssl has no SM3")
	}
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Stdin = bytes.NewReader(stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("openssl %v: %v: %s", args, err, stderr.Bytes())
	}
	return out
}

func sample(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * i >> 3)
	}
	return b
}

func TestOpenSSLDigests(t *testing.T) {
	mac := sm3([]byte("correct horse battery staple"))[16:]
	for _, n := range []int{0, 1, 63, 64, 65, 100_000} {
		if got, want := sm3(sample(n)), openssl(t, sample(n), "dgst", "-sm3", "-binary"); !bytes.Equal(got, want) {
			t.Errorf("SM3 of %d bytes: %x, want %x", n, got, want)
		}
		h := vectorKey(t).NewTag()
		_, _ = h.Write(sample(n)) // a hash takes everything
		if got, want := h.Sum(nil), openssl(t, sample(n), "dgst", "-sm3", "-mac", "HMAC", "-macopt", "hexkey:"+hex.EncodeToString(mac), "-binary"); !bytes.Equal(got, want) {
			t.Errorf("HMAC-SM3 of %d bytes: %x, want %x", n, got, want)
		}
	}
}

func TestOpenSSLStream(t *testing.T) {
	key := hex.EncodeToString(sm3([]byte("correct horse battery staple"))[:16])
	for name, iv := range ivs {
		s, err := vectorKey(t).Stream(iv)
		if err != nil {
			t.Fatal(err)
		}
		got := sample(10_007)
		s.XORKeyStreamAt(got, got, 0)
		if want := openssl(t, sample(10_007), "enc", "-sm4-ctr", "-K", key, "-iv", hex.EncodeToString(iv[:])); !bytes.Equal(got, want) {
			t.Errorf("%s: the stream differs", name)
		}
	}
}

// OpenSSL accepts our signature for the id it was made for, and for no other.
func TestOpenSSLSignature(t *testing.T) {
	k, err := seal.GenerateSM2()
	if err != nil {
		t.Fatal(err)
	}
	digest := [32]byte(sm3([]byte("a model")))
	r, s, err := k.Sign(seal.IDKestrel, digest)
	if err != nil {
		t.Fatal(err)
	}
	der, err := asn1.Marshal(struct{ R, S *big.Int }{new(big.Int).SetBytes(r[:]), new(big.Int).SetBytes(s[:])})
	if err != nil {
		t.Fatal(err)
	}
	// SubjectPublicKeyInfo: id-ecPublicKey with the curve 1.2.156.10197.1.301.
	pub := k.Public()
	spki := append(unhex(t, "3059301306072a8648ce3d020106082a811ccf5501822d034200 04"), pub[:]...)
	dir := t.TempDir()
	put(t, dir, "key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: spki})))
	put(t, dir, "sig", string(der))
	put(t, dir, "digest", string(digest[:]))
	openssl(t, nil, "version") // or skip
	for id, want := range map[string]bool{seal.IDKestrel: true, seal.IDShs: false} {
		out, err := exec.CommandContext(t.Context(), "openssl", "pkeyutl", "-verify", "-pubin", "-inkey", filepath.Join(dir, "key.pem"), "-in", filepath.Join(dir, "digest"),
			"-sigfile", filepath.Join(dir, "sig"), "-rawin", "-digest", "sm3", "-pkeyopt", "distid:"+id).CombinedOutput()
		if (err == nil) != want {
			t.Errorf("id %s: openssl says %v: %s", id, err, out)
		}
	}
}
