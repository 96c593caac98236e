// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"windhover/internal/testmodel"
)

// Whose signature it is, and what the policy makes of it.
func TestSignedModels_P138(t *testing.T) {
	ours, theirs := newSM2(t), newSM2(t)
	signed, foreign, unsigned := sealedModel(t, sealing{signer: ours}, nil), sealedModel(t, sealing{signer: theirs}, nil), sealedModel(t, sealing{}, nil)
	cleared := append([]byte(nil), signed...)
	cleared[offFlags+1] &^= 1
	stripped := append([]byte(nil), cleared...)
	clear(stripped[offSig:headerSize])
	fingerprint := ours.Public().Fingerprint()
	tests := []struct {
		name    string
		data    []byte
		env     map[string]string
		trusted bool // our key lies in the trust directory
		require bool
		want    string
		trust   string
	}{
		{"ours", signed, nil, true, true, "m ready*", "sm2"},
		{"ours, no policy", signed, nil, true, false, "m ready*", "sm2"},
		{"ours, by the environment", signed, map[string]string{"VLLM_VQF_SIGN_PUB": ours.Public().String()}, false, true, "m ready*", "sm2"},
		{"nobody is trusted", signed, nil, false, true, "m failed key_unknown", ""},
		{"nobody is trusted, no policy", signed, nil, false, false, "m ready*", "local"},
		{"theirs", foreign, nil, true, true, "m failed key_unknown", ""},
		{"theirs, no policy", foreign, nil, true, false, "m ready*", "local"},
		{"theirs, to be verified", foreign, map[string]string{"VLLM_VQF_VERIFY": "1"}, true, false, "m failed key_unknown", ""},
		{"unsigned, to be verified", unsigned, map[string]string{"VLLM_VQF_VERIFY": "1"}, true, false, "m ready*", "local"},
		{"unsigned", unsigned, nil, true, true, "m failed signature_missing", ""},
		{"unsigned, no policy", unsigned, nil, true, false, "m ready*", "local"},
		{"flag cleared", cleared, nil, true, true, "m failed signature_missing", ""},
		{"flag cleared, no policy", cleared, nil, true, false, "m failed format_invalid", ""},
		{"stripped", stripped, nil, true, true, "m failed signature_missing", ""},
		{"stripped, no policy", stripped, nil, true, false, "m ready*", "local"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, t.TempDir())
			if r.who.require = tt.require; tt.trusted {
				r.trustSM2Key(t, "maker", ours.Public())
			}
			for k, v := range tt.env {
				r.env[k] = v
			}
			r.put(t, "m.vqf", tt.data)
			r.scan(context.Background())
			r.clock = r.clock.Add(signatureWait)
			r.scan(context.Background())
			expect(t, r, tt.want)
			if tt.trust == "" {
				if doc, ok := readMarker(t, filepath.Join(r.drop, "m.vqf.failed")); !ok || doc.Code != strings.Fields(tt.want)[2] || doc.Message == "" {
					t.Errorf("marker %+v, %v", doc, ok)
				}
				return
			}
			doc, ok := readMarker(t, filepath.Join(r.drop, "m.vqf.ready"))
			if got := r.trustOf(t, "m"); got != tt.trust || !ok || doc.Trust != tt.trust {
				t.Errorf("trust %q, marker %+v, want %q", got, doc, tt.trust)
			}
			if (tt.trust == "sm2") != strings.Contains(doc.Signer, fingerprint) {
				t.Errorf("signer %q", doc.Signer)
			}
		})
	}
}

// One bit of a signed or encrypted file, wherever it is, with or without a checksum
// that was made right again: refused, each by its own code, whatever the policy.
func TestFlippedBits(t *testing.T) {
	key := newSM2(t)
	signed := sealedModel(t, sealing{signer: key}, padded)
	secret := sealedModel(t, sealing{passphrase: "swordfish"}, padded)
	both := sealedModel(t, sealing{passphrase: "swordfish", signer: key}, padded)
	weight, last, padding := places(t, signed)
	tests := []struct {
		name string
		data []byte
		code string
	}{
		{"architecture", flip(signed, offTheta, false), "digest_mismatch"},
		{"directory", flip(signed, offDir+40, false), "format_invalid"},
		{"data", flip(signed, weight, false), "digest_mismatch"},
		{"data, checksum again", flip(signed, weight, true), "digest_mismatch"},
		{"last byte, checksum again", flip(signed, last, true), "digest_mismatch"},
		{"padding, checksum again", flip(signed, padding, true), "digest_mismatch"},
		{"checksum", flip(signed, len(signed)-1, false), "digest_mismatch"},
		{"public key", flip(signed, offSig, false), "signature_invalid"},
		{"r", flip(signed, offSig+64, false), "signature_invalid"},
		{"s", flip(signed, offSig+127, false), "signature_invalid"},
		{"digest", flip(signed, offSig+128, false), "digest_mismatch"},
		{"signer id", flip(signed, offSig+160, false), "signature_invalid"},
		{"encrypted: architecture", flip(secret, offTheta, false), "tag_mismatch"},
		{"encrypted: IV", flip(secret, offIV+15, false), "tag_mismatch"},
		{"encrypted: directory", flip(secret, offDir+40, false), "format_invalid"},
		{"encrypted: data", flip(secret, weight, false), "tag_mismatch"},
		{"encrypted: last byte", flip(secret, last, false), "tag_mismatch"},
		{"encrypted: padding", flip(secret, padding, false), "tag_mismatch"},
		{"encrypted: tag", flip(secret, len(secret)-1, false), "tag_mismatch"},
		{"both: data", flip(both, weight, false), "tag_mismatch"},
		{"both: s", flip(both, offSig+127, false), "signature_invalid"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, require := range []bool{false, true} {
				r := newRig(t, t.TempDir())
				r.who.require = require
				r.trustSM2Key(t, "maker", key.Public())
				r.env[keyVariable] = "swordfish"
				if strings.HasPrefix(tt.name, "encrypted") && require {
					return // it has no signature
				}
				r.put(t, "m.vqf", tt.data)
				r.scan(context.Background())
				expect(t, r, "m failed "+tt.code)
				if entries, err := os.ReadDir(r.store.dir); err != nil || len(entries) != 0 {
					t.Errorf("the store keeps %v, %v", entries, err)
				}
			}
		})
	}
	for name, data := range map[string][]byte{"signed": signed, "secret": secret, "both": both} {
		r := newRig(t, t.TempDir())
		r.trustSM2Key(t, "maker", key.Public())
		r.env[keyVariable] = "swordfish"
		r.put(t, name+".vqf", data)
		r.scan(context.Background())
		expect(t, r, name+" ready*")
	}
}

// A restart reads no file again and still knows who signed it. What it may be
// trusted with is asked anew: a key that was removed counts no more.
func TestRestartJudgesAgain(t *testing.T) {
	key := newSM2(t)
	data := sealedModel(t, sealing{signer: key}, padded)
	weight, _, _ := places(t, data)
	state, keys := t.TempDir(), t.TempDir()
	start := func(require bool) *rig {
		r := newRig(t, state)
		r.who.require, r.who.dir = require, keys
		return r
	}
	ctx := context.Background()
	r := start(true)
	file := r.trustSM2Key(t, "maker", key.Public())
	r.put(t, "m.vqf", data)
	r.scan(ctx)
	expect(t, r, "m ready*")
	r.close(context.Background())
	r.spoil(t, "m", weight)

	r = start(true)
	r.scan(ctx)
	expect(t, r, "m ready*")
	if got := r.trustOf(t, "m"); got != "sm2" {
		t.Errorf("trust %q after a restart", got)
	}
	r.close(context.Background())
	if err := os.Rename(file, file+".gone"); err != nil {
		t.Fatal(err)
	}

	r = start(true)
	r.scan(ctx)
	expect(t, r, "m failed key_unknown")
	r.says(t, "m", "maker", key.Public().Fingerprint(), "no longer trusted")
	if exists(filepath.Join(r.drop, "m.vqf.ready")) {
		t.Error("the marker says that it serves")
	}
	r.close(context.Background())

	r = start(false)
	r.scan(ctx)
	expect(t, r, "m ready*")
	if got := r.trustOf(t, "m"); got != "local" {
		t.Errorf("without policy and key: trust %q", got)
	}
	r.close(context.Background())

	r = start(true)
	r.scan(ctx)
	expect(t, r, "m failed key_unknown")
	if err := os.Rename(file+".gone", file); err != nil {
		t.Fatal(err)
	}
	r.scan(ctx) // nobody has to remove the marker
	expect(t, r, "m ready*")
	if got := r.trustOf(t, "m"); got != "sm2" {
		t.Errorf("with the key back: trust %q", got)
	}
	r.close(context.Background())

	// With vqf.check = "always" the change is found.
	r = start(true)
	r.check = "always"
	r.scan(ctx)
	expect(t, r, "m failed digest_mismatch")
}

// A signed update of a key that is not trusted leaves the version that serves alone.
func TestUntrustedUpdate(t *testing.T) {
	ours, theirs := newSM2(t), newSM2(t)
	r := newRig(t, t.TempDir())
	r.who.require = true
	r.trustSM2Key(t, "maker", ours.Public())
	ctx := context.Background()
	r.put(t, "m.vqf", sealedModel(t, sealing{signer: ours}, nil))
	r.scan(ctx)
	first := r.reg.list()[0].SHA256
	r.put(t, "m.vqf", sealedModel(t, sealing{signer: theirs}, func(c *testmodel.Config) { c.Seed = 2 }))
	r.scan(ctx)
	expect(t, r, "m ready* key_unknown")
	if got := r.reg.list()[0].SHA256; got != first || r.trustOf(t, "m") != "sm2" {
		t.Errorf("serves %s, want %s", got, first)
	}
}

// A model of an older version's book, which did not look at signatures.
func TestOldBook(t *testing.T) {
	key := newSM2(t)
	state := t.TempDir()
	r := newRig(t, state)
	ctx := context.Background()
	r.put(t, "signed.vqf", sealedModel(t, sealing{signer: key}, nil))
	r.put(t, "plain.vqf", sealedModel(t, sealing{}, func(c *testmodel.Config) { c.Seed = 3 }))
	r.scan(ctx)
	for name, in := range r.book.Models {
		in.File, in.Beside, in.Sigs, in.Signed, in.Foreign, in.Regime, in.Sealed = "", nil, nil, nil, "", "", ""
		r.book.Models[name] = in
	}
	r.save()
	r.close(context.Background())
	r = newRig(t, state)
	r.who.require = true
	r.trustSM2Key(t, "maker", key.Public())
	r.scan(ctx)
	r.clock = r.clock.Add(signatureWait)
	r.scan(ctx)
	expect(t, r, "plain failed signature_missing, signed ready*")
	if r.trustOf(t, "signed") != "sm2" {
		t.Error("the signature is not looked at")
	}
}

// A policy that was read again counts from the next look on, in both directions and
// without a file being read again; so does another directory of keys.
func TestPolicyTakenOver_P141(t *testing.T) {
	key := newSM2(t)
	r := newRig(t, t.TempDir())
	ctx := context.Background()
	other := t.TempDir()
	writeBytes(t, filepath.Join(other, "maker.sm2.pub"), []byte(key.Public().String()))
	r.put(t, "signed.vqf", sealedModel(t, sealing{signer: key}, nil))
	r.put(t, "unsigned.vqf", sealedModel(t, sealing{}, func(c *testmodel.Config) { c.Seed = 3 }))
	r.scan(ctx)
	expect(t, r, "signed ready, unsigned ready*")
	r.scan(ctx) // being taken into the store touched the files
	r.clock = r.clock.Add(signatureWait)
	for _, step := range []struct {
		dir     string
		require bool
		want    string
		trust   string
	}{
		{r.who.dir, true, "signed failed key_unknown, unsigned failed signature_missing", ""},
		{other, true, "signed ready*, unsigned failed signature_missing", "sm2"},
		{other, false, "signed ready, unsigned ready*", "sm2"},
		{"", false, "signed ready, unsigned ready*", "local"},
	} {
		r.who.adopt(Config{Paths: Paths{Trust: step.dir}, Drop: Drop{RequireSignature: step.require}})
		r.scan(ctx)
		expect(t, r, step.want)
		if p := r.who.policy(); p.dir != step.dir || p.require != step.require {
			t.Errorf("the policy is %+v, want %+v", p, step)
		}
		if step.trust != "" && r.trustOf(t, "signed") != step.trust {
			t.Errorf("%+v: trust %q", step, r.trustOf(t, "signed"))
		}
	}
}
