// SPDX-License-Identifier: Apache-2.0

package ota_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"testing"
	"time"

	"windhover/control"
	"windhover/control/ota"
)

// Each attack on a fleet has its own code, whatever else is in order, and leaves
// nothing behind in what the device remembers.
func TestAttacks_P78(t *testing.T) {
	good := document(t)
	seen := ota.Memory{Targets: map[string]ota.Seen{"group/canary": {Rev: 41}}, Floors: map[string]int64{"qwen3-0.6b": 13}}
	alter := func(change func(*ota.Desired)) []byte {
		d := document(t)
		change(d)
		return signed(d, "a")
	}
	envelope := func(change func(*ota.Envelope)) []byte {
		e, err := ota.ParseEnvelope(signed(good, "a"), ota.MaxDocument)
		if err != nil {
			t.Fatal(err)
		}
		change(e)
		return e.Encode()
	}
	for _, c := range []struct {
		name string
		data []byte
		want control.Code
	}{
		{"arbitrary software, unsigned", envelope(func(e *ota.Envelope) { e.Signatures = nil }), control.SignatureMissing},
		{"arbitrary software, payload exchanged", envelope(func(e *ota.Envelope) { e.Payload = bytes.Replace(e.Payload, []byte("1.4.0"), []byte("6.6.6"), 1) }), control.SignatureInvalid},
		{"arbitrary software, signature cut", envelope(func(e *ota.Envelope) { e.Signatures[0].Sig = e.Signatures[0].Sig[:63] }), control.SignatureInvalid},
		{"key unknown", signed(good, "x"), control.KeyUnknown},
		{"key unknown under a trusted id", envelope(func(e *ota.Envelope) {
			e.Signatures = ota.Sign(e.PayloadType, e.Payload, privateKey('x')).Signatures
			e.Signatures[0].KeyID = ota.KeyID(publicKey('a').Public)
		}), control.SignatureInvalid},
		{"rollback of the document", alter(func(d *ota.Desired) { d.Rev = 40 }), control.RollbackRejected},
		{"rollback, same revision with other content", alter(func(d *ota.Desired) { d.Rev = 41 }), control.RollbackRejected},
		{"rollback of the model", alter(func(d *ota.Desired) { d.Models[0].Release, d.Models[0].MinRelease = 12, 0 }), control.RollbackRejected},
		{"freeze", alter(func(d *ota.Desired) { d.IssuedAt, d.ExpiresAt = noon.Add(-48*time.Hour), noon }), control.ManifestExpired},
		{"wrong target, another device", alter(func(d *ota.Desired) { d.Target = ota.Target{Device: "edge2"} }), control.WrongTarget},
		{"wrong target, another group", alter(func(d *ota.Desired) { d.Target = ota.Target{Group: "stable"} }), control.WrongTarget},
		{"mix and match, an index as a document", ota.Sign(ota.TypeIndex, index(t).Encode(), privateKey('a')).Encode(), control.MixAndMatch},
		{"a type that nobody knows", ota.Sign("text/plain", good.Encode(), privateKey('a')).Encode(), control.Unsupported},
		{"no envelope", []byte(`{"payloadType":`), control.BadRequest},
		{"something behind the envelope", append(signed(good, "a"), "{}"...), control.BadRequest},
		{"no UTF-8", bytes.Replace(signed(good, "a"), []byte("payloadType"), []byte("payload\xffype"), 1), control.BadRequest},
		{"no document", ota.Sign(ota.TypeDesired, []byte("[]"), privateKey('a')).Encode(), control.BadRequest},
		{"a later version", alter(func(d *ota.Desired) { d.V = 2 }), control.Unsupported},
		{"endless", bytes.Repeat([]byte(" "), ota.MaxDocument+1), control.PayloadTooLarge},
		{"too many signatures", envelope(func(e *ota.Envelope) {
			for range 40 {
				e.Signatures = append(e.Signatures, e.Signatures[0])
			}
		}), control.BadRequest},
		{"another architecture", alter(func(d *ota.Desired) { d.Models[0].Compat.Arch = []string{"amd64"} }), control.Incompatible},
		{"a CPU feature", alter(func(d *ota.Desired) { d.Models[0].Compat.Features = []string{"i8mm"} }), control.Incompatible},
		{"a later format", alter(func(d *ota.Desired) { d.Models[0].Compat.VQF = []int{4} }), control.Incompatible},
		{"more memory", alter(func(d *ota.Desired) { d.Models[0].Compat.RAMBytes = 1 << 40 }), control.Incompatible},
	} {
		t.Run(c.name, func(t *testing.T) {
			before, _ := json.Marshal(seen)
			a, after, err := judge(t).Accept(c.data, seen, atNoon)
			wantCode(t, err, c.want)
			if a != nil {
				t.Error("a refused document was returned")
			}
			if got, _ := json.Marshal(after); !bytes.Equal(got, before) {
				t.Errorf("the device remembers %s, before it was %s", got, before)
			}
		})
	}
}

// What nobody trusted has signed is not looked into, so that it cannot say what is
// wrong with it.
func TestSignatureComesFirst(t *testing.T) {
	d := document(t)
	d.Rev, d.Target = 0, ota.Target{Device: "another"}
	_, _, err := judge(t).Accept(signed(d, "x"), ota.Memory{}, atNoon)
	wantCode(t, err, control.KeyUnknown)
	_, _, err = judge(t).Accept(ota.Sign(ota.TypeDesired, []byte("{"), privateKey('x')).Encode(), ota.Memory{}, atNoon)
	wantCode(t, err, control.KeyUnknown)
}

// An index is of one file and named by one document.
func TestMixAndMatchIndex(t *testing.T) {
	x := index(t)
	m := document(t).Models[0]
	r := role(t, 1, "a")
	served := ota.Sign(ota.TypeIndex, x.Encode(), privateKey('a')).Encode()
	if got, err := ota.OpenIndex(served, &m, r); err != nil || got.SHA256 != x.SHA256 {
		t.Fatalf("the right index: %v", err)
	}
	for _, c := range []struct {
		name   string
		change func(*ota.Index) (typ string, key byte)
		named  bool // by the document, as if its signer had been tricked
		want   control.Code
	}{
		{"another index of the same file", func(x *ota.Index) (string, byte) { x.Block = 8192; return ota.TypeIndex, 'a' }, false, control.MixAndMatch},
		{"of another file", func(x *ota.Index) (string, byte) { x.SHA256[0]++; return ota.TypeIndex, 'a' }, true, control.MixAndMatch},
		{"of another size", func(x *ota.Index) (string, byte) { x.Size--; return ota.TypeIndex, 'a' }, true, control.MixAndMatch},
		{"by an unknown key", func(*ota.Index) (string, byte) { return ota.TypeIndex, 'x' }, true, control.KeyUnknown},
		{"signed as something else", func(*ota.Index) (string, byte) { return ota.TypeRelease, 'a' }, true, control.MixAndMatch},
		{"too few digests", func(x *ota.Index) (string, byte) { x.Hashes = x.Hashes[:32]; return ota.TypeIndex, 'a' }, true, control.BadRequest},
	} {
		x, m := index(t), m
		typ, key := c.change(x)
		data := ota.Sign(typ, x.Encode(), privateKey(key)).Encode()
		if c.named {
			m.Index.SHA256 = sha256.Sum256(data)
		}
		_, err := ota.OpenIndex(data, &m, r)
		if t.Run(c.name, func(t *testing.T) { wantCode(t, err, c.want) }); err == nil {
			t.Error("no error")
		}
	}
}

// Where release keys are apart, who signs documents can choose among releases and
// make none.
func TestReleaseRecords_P150(t *testing.T) {
	j := judge(t)
	j.Keys.Release = role(t, 1, "r")
	with := func(key byte, change func(*ota.Release)) []byte {
		d := document(t)
		if change != nil {
			r := ota.ReleaseOf(&d.Models[0], noon)
			change(r)
			d.Models[0].Record = ota.Sign(ota.TypeRelease, r.Encode(), privateKey(key))
		}
		return signed(d, "a")
	}
	if _, _, err := j.Accept(with('r', func(*ota.Release) {}), ota.Memory{}, atNoon); err != nil {
		t.Fatalf("a document with its release record: %v", err)
	}
	for _, c := range []struct {
		name   string
		key    byte
		change func(*ota.Release)
		want   control.Code
	}{
		{"none", 0, nil, control.SignatureMissing},
		{"by the key for documents", 'a', func(*ota.Release) {}, control.KeyUnknown},
		{"of another version", 'r', func(r *ota.Release) { r.Version = "1.3.0" }, control.MixAndMatch},
		{"of a lower release", 'r', func(r *ota.Release) { r.Release = 13 }, control.MixAndMatch},
		{"of another name", 'r', func(r *ota.Release) { r.Name = "other" }, control.MixAndMatch},
		{"of another file", 'r', func(r *ota.Release) { r.SHA256[3]++ }, control.MixAndMatch},
		{"of another index", 'r', func(r *ota.Release) { r.Index[3]++ }, control.MixAndMatch},
		{"for other devices", 'r', func(r *ota.Release) { r.Compat.RAMBytes++ }, control.MixAndMatch},
		{"of a later version of records", 'r', func(r *ota.Release) { r.V = 9 }, control.Unsupported},
		{"without a digest", 'r', func(r *ota.Release) { r.SHA256 = ota.Digest{} }, control.BadRequest},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := j.Accept(with(c.key, c.change), ota.Memory{}, atNoon)
			wantCode(t, err, c.want)
		})
	}
}
