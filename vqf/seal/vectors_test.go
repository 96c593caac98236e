// SPDX-License-Identifier: Apache-2.0

package seal_test

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/emmansun/gmsm/sm4"

	"windhover/internal/testsm2"
	"windhover/vqf/seal"
)

// The vectors of docs/FORMAT.md section 17.7.

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func unhex32(t testing.TB, s string) [32]byte {
	t.Helper()
	return [32]byte(unhex(t, s))
}

func vectorKey(t testing.TB) *seal.Key {
	t.Helper()
	k, err := seal.KeyFromPassphrase([]byte("correct horse battery staple"))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func sm3(b []byte) []byte {
	h := seal.NewSM3()
	_, _ = h.Write(b) // a hash takes everything
	return h.Sum(nil)
}

func TestSM3Vector(t *testing.T) {
	got, want := sm3([]byte("abc")), unhex(t, "66c7f0f462eeedd9d1f2d46bdc10e4e24167c4875cf2f7a2297da02b8f4ba8e0")
	if !bytes.Equal(got, want) {
		t.Errorf("SM3(abc) = %x, want %x", got, want)
	}
}

func TestSM4Vector(t *testing.T) {
	key := unhex(t, "0123456789abcdeffedcba9876543210")
	c, err := sm4.NewCipher(key)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 16)
	c.Encrypt(got, key)
	if want := unhex(t, "681edf34d206965e86b3e94f536e4246"); !bytes.Equal(got, want) {
		t.Errorf("SM4 = %x, want %x", got, want)
	}
}

// The key stream's counter carries out of its low word here, in the third block.
func TestKeyStreamVector(t *testing.T) {
	s, err := vectorKey(t).Stream([16]byte(unhex(t, "00112233445566778899aabbfffffffe")))
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 48)
	s.XORKeyStreamAt(got, got, 0)
	want := unhex(t, "bedc214593f5943537b09583977e4e8f 7e61cd70f6b6bf82c9daa4dc9ea0fce6 ab71530a2081a00031f8c839b38e5a23")
	if !bytes.Equal(got, want) {
		t.Errorf("key stream\n%x, want\n%x", got, want)
	}
}

func TestTagVector(t *testing.T) {
	h := vectorKey(t).NewTag()
	_, _ = h.Write([]byte("abc")) // a hash takes everything
	got, want := h.Sum(nil), unhex(t, "3099f9ee6a101b6ddeed58a8c8a8cdbe64efd66f7b7d1a4bbc93b5dd2cbe59b0")
	if !seal.Equal(got, want) {
		t.Errorf("HMAC-SM3(abc) = %x, want %x", got, want)
	}
	if got[0] ^= 1; seal.Equal(got, want) || seal.Equal(got[:31], want) {
		t.Error("Equal takes a changed tag or a short one")
	}
}

// A signature of package seal has a nonce nobody knows, so r and s of a vector
// are computed by testsm2, which must give them to the bit; seal must accept
// them, and testsm2's key must be seal's.
func TestSM2Vectors(t *testing.T) {
	ones, twos := strings.Repeat("11", 32), strings.Repeat("22", 32)
	const pub = "852611f744af045689dcfbf4c0437730d2d2de332ab7f0fc02769c5fab8a8943 7d9384f19ab882ed668a28936db92475aa79aef8690ee36f6fb77c69b9b571f8"
	for _, c := range []struct {
		name, d, k, id string
		pub, z         string // checked where given
		message        []byte
		r, s           string
	}{
		{
			name: "standard sample",
			d:    "3945208F7B2144B13F36E38AC6D39F95889393692860B51A42FB81EF4DF7C5B8",
			k:    "59276E27D506861A16680F3AD9C02DCCEF3CC1FA3CDBE4CE6D54B80DEAC1BC21",
			id:   "1234567812345678", message: []byte("message digest"),
			r: "F5A03B0648D2C4630EEAC513E1BB81A15944DA3827D5B74143AC7EACEEE720B3",
			s: "B1B6AA29DF212FD8763182BC0D421CA1BB9038FD1F7F42D4840B69C485BBC1AA",
		},
		{
			name: seal.IDShs, d: ones, k: twos, id: seal.IDShs, pub: pub, message: sm3([]byte("abc")),
			z: "3f60f2282795822debc9aed9d4d8afeacb9052d0456a03fa1bd88f6f632558d3",
			r: "c8f8528971d1b3206e57b4cbbf1522b61eb14788b48276b46278c1e62b13788b",
			s: "4632c59a103e93e22fe4c37eecd1f98e2207fac438a39c956a5a6175213598e5",
		},
		{
			name: seal.IDKestrel, d: ones, k: twos, id: seal.IDKestrel, pub: pub, message: sm3([]byte("abc")),
			z: "c5bdf3aec7a8796a5cad1b6eed2138e21d27068677198b20b201297d77972c9e",
			r: "e360482da29e686d926110b981918988145e77266e0defecc9a14e1c2d31c810",
			s: "1fedbce9f5fee3ceccd79f129c1760096cfd4d3a99ca1af7293ec35238663c24",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := unhex32(t, c.d)
			r, s := testsm2.Sign(d, unhex32(t, c.k), c.id, c.message)
			if r != unhex32(t, c.r) || s != unhex32(t, c.s) {
				t.Errorf("r, s = %x, %x\nwant   %s, %s", r, s, c.r, c.s)
			}
			key, err := seal.ParseSM2Private(c.d)
			if err != nil {
				t.Fatal(err)
			}
			if key.Public() != testsm2.Public(d) {
				t.Errorf("public key %s, want %x", key.Public(), testsm2.Public(d))
			}
			if c.pub != "" && !bytes.Equal(unhex(t, c.pub), unhex(t, key.Public().String())) {
				t.Errorf("public key %s, want %s", key.Public(), c.pub)
			}
			if c.z != "" && testsm2.Z(c.id, key.Public()) != unhex32(t, c.z) {
				t.Errorf("Z = %x, want %s", testsm2.Z(c.id, key.Public()), c.z)
			}
			if len(c.message) != 32 { // of the length that the file's digest has
				return
			}
			digest := [32]byte(c.message)
			if !key.Public().Verify(c.id, digest, r, s) {
				t.Error("Verify refuses the vector")
			}
			for _, other := range []string{seal.IDKestrel, seal.IDShs, "1234567812345678", ""} {
				if other != c.id && key.Public().Verify(other, digest, r, s) {
					t.Errorf("Verify accepts the vector for the id %q", other)
				}
			}
		})
	}
}
