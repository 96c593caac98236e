// SPDX-License-Identifier: Apache-2.0

package seal_test

import (
	"errors"
	"strings"
	"testing"

	"windhover/vqf/seal"
)

func TestSM2SignVerify(t *testing.T) {
	k, err := seal.GenerateSM2()
	if err != nil {
		t.Fatal(err)
	}
	other, err := seal.GenerateSM2()
	if err != nil {
		t.Fatal(err)
	}
	digest := [32]byte(sm3([]byte("a model")))
	for _, id := range []string{seal.IDKestrel, seal.IDShs} {
		r, s, err := k.Sign(id, digest)
		if err != nil {
			t.Fatal(err)
		}
		if !k.Public().Verify(id, digest, r, s) {
			t.Fatalf("%s: the signature does not verify", id)
		}
		if other.Public().Verify(id, digest, r, s) {
			t.Errorf("%s: another key verifies it", id)
		}
		// Every bit of what is signed and of the signature counts.
		for bit := range 256 {
			flip := func(b [32]byte) [32]byte { b[bit/8] ^= 1 << (bit % 8); return b }
			if k.Public().Verify(id, flip(digest), r, s) || k.Public().Verify(id, digest, flip(r), s) || k.Public().Verify(id, digest, r, flip(s)) {
				t.Fatalf("%s: verifies with bit %d flipped", id, bit)
			}
		}
		r2, s2, err := k.Sign(id, digest)
		if err != nil {
			t.Fatal(err)
		}
		if r == r2 || s == s2 {
			t.Errorf("%s: two signatures share a nonce", id)
		}
	}
	var zero [32]byte
	if k.Public().Verify(seal.IDKestrel, digest, zero, zero) {
		t.Error("r = s = 0 verifies")
	}
	if (seal.PublicKey{}).Verify(seal.IDKestrel, digest, zero, zero) {
		t.Error("the empty key verifies")
	}
	for _, id := range []string{"", strings.Repeat("x", 33)} {
		if _, _, err := k.Sign(id, digest); !errors.Is(err, seal.ErrSignature) {
			t.Errorf("the id %q: %v", id, err)
		}
	}
}

func TestParseSM2(t *testing.T) {
	const (
		n = "FFFFFFFEFFFFFFFFFFFFFFFFFFFFFFFF7203DF6B21C6052B53BBF40939D54123"
		// the generator of the curve, so the public key of 1
		g = "32c4ae2c1f1981195f9904466a39c9948fe30bbff2660be1715a4589334c74c7" + "bc3736a2f4f6779c59bdcee36b692153d0a9877cc62a474002df32e52139f0a0"
	)
	one, err := seal.ParseSM2Private(strings.Repeat("0", 63) + "1")
	if err != nil {
		t.Fatal(err)
	}
	if one.Public().String() != g {
		t.Errorf("the public key of 1 is %s", one.Public())
	}
	for name, digits := range map[string]string{
		"zero":        strings.Repeat("0", 64),
		"n - 1":       n[:62] + "22", // 1 + d has no inverse
		"n":           n,
		"above n":     strings.Repeat("F", 64),
		"short":       n[:62],
		"long":        strings.Repeat("1", 66),
		"not hex":     strings.Repeat("g", 64),
		"with prefix": "0x" + strings.Repeat("1", 62),
	} {
		_, err := seal.ParseSM2Private(digits)
		if !errors.Is(err, seal.ErrKey) {
			t.Errorf("private, %s: %v", name, err)
		} else if strings.Contains(err.Error(), digits) {
			t.Errorf("private, %s: the error shows the key: %v", name, err)
		}
	}
	if _, err := seal.ParseSM2Private(n[:62] + "21"); err != nil { // n - 2
		t.Errorf("n - 2: %v", err)
	}

	p, err := seal.ParseSM2Public(strings.ToUpper(g))
	if err != nil {
		t.Fatal(err)
	}
	if p != one.Public() {
		t.Error("the parsed key is another one")
	}
	for name, digits := range map[string]string{
		"off the curve": g[:127] + "1",
		"zero":          strings.Repeat("0", 128),
		"x above p":     strings.Repeat("f", 64) + g[64:],
		"short":         g[:126],
		"with 04":       "04" + g,
		"not hex":       "z" + g[1:],
	} {
		if _, err := seal.ParseSM2Public(digits); !errors.Is(err, seal.ErrKey) {
			t.Errorf("public, %s: %v", name, err)
		}
	}
}

func TestFingerprint(t *testing.T) {
	p, err := seal.ParseSM2Public("852611f744af045689dcfbf4c0437730d2d2de332ab7f0fc02769c5fab8a8943" + "7d9384f19ab882ed668a28936db92475aa79aef8690ee36f6fb77c69b9b571f8")
	if err != nil {
		t.Fatal(err)
	}
	sum := sm3(p[:])
	if got := p.Fingerprint(); len(got) != 32 || string(unhex(t, got)) != string(sum[:16]) {
		t.Errorf("fingerprint %s, want the first half of %x", got, sum)
	}
}
