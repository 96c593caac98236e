// SPDX-License-Identifier: Apache-2.0

package vqf_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"windhover/vqf"
	"windhover/vqf/seal"
)

// trust makes a trust directory's worth of the public halves of keys.
func trust(t testing.TB, keys map[string]*seal.PrivateKey) *seal.Trust {
	t.Helper()
	tr := new(seal.Trust)
	for name, k := range keys {
		tr.SM2 = append(tr.SM2, seal.TrustedSM2{Name: name, Key: k.Public()})
	}
	return tr
}

func stranger(t testing.TB) *seal.PrivateKey {
	t.Helper()
	return private(t, strings.Repeat("33", 32))
}

// TestVerifySealed: sound files of both headers pass, signed, encrypted and both,
// with both signer ids, and the report says who signed.
func TestVerifySealed(t *testing.T) {
	signer := private(t, vectorD)
	for _, fields := range []int{41, 45} {
		for _, key := range []*seal.Key{nil, vectorKey(t)} {
			for _, id := range []string{"", seal.IDKestrel, seal.IDShs} {
				if key == nil && id == "" {
					continue
				}
				s := sealing{key: key, id: id}
				if key != nil {
					s.iv = vectorIV()
				}
				plain, b := sealedMini(t, vqf.ModeDual, fields, s, map[string]string{vqf.NameMeta: "{}"})
				path := tempFile(t, b)
				var last, total int64
				r, err := vqf.Verify(t.Context(), path, vqf.VerifyOptions{Key: key, Trust: trust(t, map[string]*seal.PrivateKey{"other": stranger(t), "maker": signer})},
					func(d, n int64) { last, total = d, n })
				if err != nil {
					t.Fatal(err)
				}
				if !r.OK() || last != r.Size || total != r.Size {
					t.Errorf("%d fields, %+v, %d of %d:\n%s", fields, s, last, total, r)
				}
				want := vqf.SignatureReport{}
				if id != "" {
					want = vqf.SignatureReport{Present: true, DigestOK: true, Valid: true, Trusted: true, ID: id, Fingerprint: signer.Public().Fingerprint(), Signer: "maker"}
				}
				if r.Signature != want {
					t.Errorf("signature: got %+v, want %+v", r.Signature, want)
				}
				if err := r.RequireSignature(); (err == nil) != (id != "") || err != nil && !errors.Is(err, vqf.ErrUnsigned) {
					t.Errorf("RequireSignature: got %v", err)
				}
				lines := statuses(r)
				for _, name := range []string{"padding", "t_meta", "q8 layout", "q4 layout", "gap"} {
					if lines[name].Status != vqf.StatusOK {
						t.Errorf("line %q: got %+v", name, lines[name])
					}
				}
				computed, stored, match := r.Sums()
				if match != vqf.MatchYes || computed != stored || r.Encrypted != (key != nil) || r.Encrypted != (len(stored) == 64) {
					t.Errorf("sums: got %s, %s, %s", computed, stored, match)
				}
				h, _, err := parse(plain)
				if err != nil {
					t.Fatal(err)
				}
				if r.Version != 2 || r.NTensors != h.NTensors || r.DataOff != h.DataOffset || r.FileLen != h.FileLen || r.DataBytes != h.FileLen-h.DataOffset {
					t.Errorf("numbers: got %+v", r)
				}
			}
		}
	}
}

// TestReportLines: the numbers that people compare are in the text and the JSON.
func TestReportLines(t *testing.T) {
	_, b := sealedMini(t, vqf.ModeQ4, 45, sealing{key: vectorKey(t), iv: vectorIV(), id: seal.IDKestrel}, nil)
	path := tempFile(t, b)
	r, err := vqf.Verify(t.Context(), path, vqf.VerifyOptions{Key: vectorKey(t)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	const tag = "e32af34768fea00aece95301ac34aee92984a38565708db3adc1c19dcda24192"
	for _, want := range []string{
		"version            2\n", "n_tensors          14\n", "data_off           4096\n", "file_len           20416\n", "data_bytes         16320\n",
		"computed           " + tag + "\n", "stored             " + tag + "\n", "match              yes\n", "seconds            0.",
		"ok      tag ", "note    signature          SM2 by ", "note    sha256             bb6262443d3e3825", "PASS: " + path,
	} {
		if !strings.Contains(r.String(), want) {
			t.Errorf("no %q in:\n%s", want, r)
		}
	}
	var got map[string]any
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]float64{"version": 2, "n_tensors": 14, "data_off": 4096, "file_len": 20416, "data_bytes": 16320} {
		if got[name] != want {
			t.Errorf("JSON %s: got %v, want %v", name, got[name], want)
		}
	}
	if s, ok := got["signature"].(map[string]any); !ok || s["valid"] != true || s["trusted"] != false {
		t.Errorf("JSON signature: got %v", got["signature"])
	}
}

// TestSignatureRefused: each way a signature can fail has a message of its own.
func TestSignatureRefused(t *testing.T) {
	signer, other := private(t, vectorD), stranger(t)
	_, signed := sealedMini(t, vqf.ModeQ4, 45, sealing{id: seal.IDKestrel}, nil)
	_, both := sealedMini(t, vqf.ModeQ4, 45, sealing{vectorKey(t), vectorIV(), seal.IDKestrel}, nil)
	const block = 248
	good, wrong := map[string]*seal.PrivateKey{"maker": signer}, map[string]*seal.PrivateKey{"other": other}
	for _, c := range []struct {
		name   string
		file   []byte
		edit   func(b []byte)
		trust  map[string]*seal.PrivateKey
		key    string // passphrase, empty: none
		line   string // that fails; empty: none does
		is     error  // what RequireSignature says
		say    string
		digest bool // DigestOK
	}{
		{"sound", signed, nil, good, "", "", nil, "", true},
		{"header flipped", signed, func(b []byte) { b[45] ^= 1 }, good, "", "signature", vqf.ErrSignature, "SM3 digest mismatch", false},
		{"directory flipped", signed, func(b []byte) { copy(b[448+64*5+36:], []byte{1, 0, 0, 0, 64, 0, 0, 0}) }, good, "", "checksum", vqf.ErrSignature, "SM3 digest mismatch", false},
		{"data flipped", signed, func(b []byte) { b[5000] ^= 1 }, good, "", "checksum", vqf.ErrSignature, "SM3 digest mismatch", false},
		{"digest in the block flipped", signed, func(b []byte) { b[block+128] ^= 1 }, good, "", "signature", vqf.ErrSignature, "SM3 digest mismatch", false},
		{"r flipped", signed, func(b []byte) { b[block+64+31] ^= 1 }, good, "", "signature", vqf.ErrSignature, `SM2 verification fails with the trusted key "maker"`, true},
		{"s flipped", signed, func(b []byte) { b[block+96] ^= 1 }, good, "", "signature", vqf.ErrSignature, `SM2 verification fails with the trusted key "maker"`, true},
		{"r and s zero", signed, func(b []byte) { clear(b[block+64 : block+128]) }, good, "", "signature", vqf.ErrSignature, `SM2 verification fails with the trusted key "maker"`, true},
		{"s flipped, no trust", signed, func(b []byte) { b[block+96] ^= 1 }, nil, "", "signature", vqf.ErrSignature, "SM2 verification fails with the key in the block", true},
		{"key in the block off the curve", signed, func(b []byte) { b[block+63] ^= 1 }, good, "", "signature", vqf.ErrSignature, "not a point on the curve", true},
		{"another key in the block", signed, func(b []byte) { p := other.Public(); copy(b[block:], p[:]) }, good, "", "signature", vqf.ErrSignature,
			`made by the trusted key "maker", but the block names another public key`, true},
		{"another key in the block, which is trusted too", signed, func(b []byte) { p := other.Public(); copy(b[block:], p[:]) },
			map[string]*seal.PrivateKey{"maker": signer, "other": other}, "", "signature", vqf.ErrSignature, `SM2 verification fails with the trusted key "other"`, true},
		{"unknown id", signed, func(b []byte) { b[block+160] = 'V' }, good, "", "signature", vqf.ErrSignature, `unknown signer id "Vllm-kestrel-vqf"`, false},
		{"the other known id", signed, func(b []byte) {
			clear(b[block+160 : block+196])
			copy(b[block+160:], seal.IDShs)
			b[block+192] = byte(len(seal.IDShs))
		}, good, "", "signature", vqf.ErrSignature, `SM2 verification fails with the trusted key "maker"`, true},
		{"key not trusted", signed, nil, wrong, "", "signature", vqf.ErrUntrusted, "none of the 1 SM2 keys trusted", true},
		{"nobody trusted", signed, nil, map[string]*seal.PrivateKey{}, "", "", vqf.ErrUntrusted, "no SM2 key is trusted", true},
		{"SIGNED taken off", signed, func(b []byte) { b[9] &^= 1; clear(b[block:448]) }, good, "", "", vqf.ErrUnsigned, "is required", false},
		{"SIGNED taken off, block left", signed, func(b []byte) { b[9] &^= 1 }, good, "", "header", vqf.ErrFormat, "is set, but the SIGNED flag is not", false},

		{"encrypted, sound", both, nil, good, vectorPassphrase, "", nil, "", true},
		{"encrypted, no passphrase", both, nil, good, "", "tag", vqf.ErrKey, "a passphrase is needed", false},
		{"encrypted, other passphrase", both, nil, good, "x", "tag", vqf.ErrTag, "HMAC-SM3 mismatch", false},
		{"encrypted, header flipped", both, func(b []byte) { b[45] ^= 1 }, good, vectorPassphrase, "tag", vqf.ErrTag, "HMAC-SM3 mismatch", false},
		{"encrypted, data flipped", both, func(b []byte) { b[5000] ^= 1 }, good, vectorPassphrase, "tag", vqf.ErrTag, "HMAC-SM3 mismatch", false},
		{"encrypted, tag flipped", both, func(b []byte) { b[len(b)-1] ^= 1 }, good, vectorPassphrase, "tag", vqf.ErrTag, "HMAC-SM3 mismatch", false},
		{"encrypted, SIGNED taken off", both, func(b []byte) { b[9] &^= 1; clear(b[block:448]) }, good, vectorPassphrase, "tag", vqf.ErrTag, "HMAC-SM3 mismatch", false},
		{"encrypted, r flipped", both, func(b []byte) { b[block+64] ^= 1 }, good, vectorPassphrase, "signature", vqf.ErrSignature, `SM2 verification fails with the trusted key "maker"`, true},
		{"encrypted, digest in the block flipped", both, func(b []byte) { b[block+128] ^= 1 }, good, vectorPassphrase, "signature", vqf.ErrSignature, "SM3 digest mismatch", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := append([]byte(nil), c.file...)
			if c.edit != nil {
				c.edit(b)
			}
			var opt vqf.VerifyOptions
			if c.trust != nil {
				opt.Trust = trust(t, c.trust)
			}
			if c.key != "" {
				opt.Key = passphrase(t, c.key)
			}
			r, err := vqf.Verify(t.Context(), tempFile(t, b), opt, nil)
			if err != nil {
				t.Fatal(err)
			}
			if c.line == "" != r.OK() || c.line != "" && statuses(r)[c.line].Status != vqf.StatusFail {
				t.Errorf("want line %q to fail:\n%s", c.line, r)
			}
			if got := r.RequireSignature(); !errors.Is(got, c.is) || c.is != nil && (!strings.Contains(got.Error(), c.say) || strings.Contains(got.Error(), "\n")) {
				t.Errorf("RequireSignature: got %v, want %v: %q", got, c.is, c.say)
			}
			if r.Signature.DigestOK != c.digest || r.Signature.Trusted != (c.is == nil) {
				t.Errorf("signature: got %+v", r.Signature)
			}
			if computed, _, match := r.Sums(); match == vqf.MatchNo && r.Encrypted && computed != "a different tag" {
				t.Errorf("the tag of a changed file is told: %s", computed)
			}
		})
	}
}

// TestRequireSignatureBroken: a file too broken to be read is refused for that.
func TestRequireSignatureBroken(t *testing.T) {
	r, err := vqf.Verify(t.Context(), tempFile(t, []byte("FQFW")), vqf.VerifyOptions{Trust: new(seal.Trust)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.RequireSignature(); !errors.Is(got, vqf.ErrFormat) {
		t.Errorf("got %v, want ErrFormat", got)
	}
}
