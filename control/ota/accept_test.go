// SPDX-License-Identifier: Apache-2.0

package ota_test

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"windhover/control"
	"windhover/control/ota"
)

func TestAccept_P76(t *testing.T) {
	d := document(t)
	a, m, err := judge(t).Accept(signed(d, "a"), ota.Memory{}, atNoon)
	if err != nil {
		t.Fatal(err)
	}
	if a.Known || a.Held || !reflect.DeepEqual(a.Signers, []string{"a"}) || a.Desired.Models[0].Release != 14 {
		t.Errorf("accepted %+v", a)
	}
	if m.Targets["group/canary"].Rev != 42 || m.Floors["qwen3-0.6b"] != 12 || !m.Time.Equal(noon) {
		t.Errorf("remembered %+v", m)
	}
	// Over a restart, and delivered again at the next connection.
	stored, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var again ota.Memory
	if err := json.Unmarshal(stored, &again); err != nil {
		t.Fatal(err)
	}
	if a, _, err = judge(t).Accept(signed(d, "a"), again, atNoon); err != nil || !a.Known {
		t.Errorf("delivered again: known %v, %v", a != nil && a.Known, err)
	}
	// The counters of targets are apart.
	d.Target, d.Rev = ota.Target{Device: "edge1"}, 1
	if _, m, err = judge(t).Accept(signed(d, "a"), again, atNoon); err != nil || m.Targets["device/edge1"].Rev != 1 || m.Targets["group/canary"].Rev != 42 {
		t.Errorf("for the device: %+v, %v", m, err)
	}
}

func TestThreshold_P75(t *testing.T) {
	j := judge(t)
	j.Keys.Desired = role(t, 2, "abc")
	d := document(t)
	twice := ota.Sign(ota.TypeDesired, d.Encode(), privateKey('a'))
	twice.Signatures = append(twice.Signatures, twice.Signatures[0])
	nameless := ota.Sign(ota.TypeDesired, d.Encode(), privateKey('a'), privateKey('b'))
	nameless.Signatures[0].KeyID, nameless.Signatures[1].KeyID = "", ""
	spoiled := ota.Sign(ota.TypeDesired, d.Encode(), privateKey('a'), privateKey('b'), privateKey('c'))
	spoiled.Signatures[2].Sig[0] ^= 1
	for _, c := range []struct {
		name string
		data []byte
		want *control.Code
	}{
		{"two of three", signed(d, "cb"), nil},
		{"three of three", signed(d, "abc"), nil},
		{"beside an unknown one", signed(d, "axb"), nil},
		{"without ids", nameless.Encode(), nil},
		{"one", signed(d, "a"), &control.SignatureMissing},
		{"one and an unknown one", signed(d, "ax"), &control.SignatureMissing},
		{"one twice", twice.Encode(), &control.SignatureMissing},
		{"two good ones and a bad one", spoiled.Encode(), &control.SignatureInvalid},
		{"unknown ones alone", signed(d, "xyz"), &control.KeyUnknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := j.Accept(c.data, ota.Memory{}, atNoon)
			if c.want != nil {
				wantCode(t, err, *c.want)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
	// One key under two names counts once, and a role that was not made by NewRole still
	// asks for one.
	double := ota.Role{Threshold: 2, Keys: []ota.Key{publicKey('a'), {Name: "again", Public: publicKey('a').Public}}}
	_, _, err := ota.Sign(ota.TypeDesired, nil, privateKey('a')).Open(ota.TypeDesired, double)
	wantCode(t, err, control.SignatureMissing)
	_, _, err = ota.Sign(ota.TypeDesired, nil, privateKey('a')).Open(ota.TypeDesired, ota.Role{})
	wantCode(t, err, control.KeyUnknown)
	for _, c := range []struct {
		threshold int
		keys      []ota.Key
	}{{0, []ota.Key{publicKey('a')}}, {2, double.Keys}, {1, nil}, {1, []ota.Key{{Name: "short", Public: []byte("k")}}}} {
		if _, err := ota.NewRole(c.threshold, c.keys...); err == nil {
			t.Errorf("a role of %d of %d keys was made", c.threshold, len(c.keys))
		}
	}
}

// Expiry needs a clock: one that is known to be set, or a document signed later.
func TestExpiry_P146(t *testing.T) {
	d := document(t) // expires a day after noon
	later := ota.Memory{Time: noon.Add(24 * time.Hour)}
	for _, c := range []struct {
		name    string
		clock   ota.Clock
		memory  ota.Memory
		expired bool
	}{
		{"in time", atNoon, ota.Memory{}, false},
		{"at its end", ota.Clock{Now: d.ExpiresAt, Sane: true}, ota.Memory{}, true},
		{"too late by a clock that nobody set", ota.Clock{Now: noon.AddDate(1, 0, 0)}, ota.Memory{}, false},
		{"a clock in 1970", ota.Clock{Now: time.Unix(60, 0)}, ota.Memory{}, false},
		{"a clock in 1970, but a later document was seen", ota.Clock{Now: time.Unix(60, 0)}, later, true},
		{"a clock set back, but a later document was seen", atNoon, later, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := judge(t).Accept(signed(d, "a"), c.memory, c.clock)
			if c.expired {
				wantCode(t, err, control.ManifestExpired)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
	// A signer whose clock runs ahead does not expire what others sign.
	d.IssuedAt, d.ExpiresAt = noon.AddDate(5, 0, 0), noon.AddDate(6, 0, 0)
	_, m, err := judge(t).Accept(signed(d, "a"), ota.Memory{}, atNoon)
	if err != nil || m.Time.After(atNoon.Now) {
		t.Errorf("it is at least %v, %v", m.Time, err)
	}
}

// Floors rise and never fall, and a memory is a value.
func TestRaise_P147(t *testing.T) {
	m := ota.Memory{}.Raise("a", 5)
	for _, r := range []int64{3, 5, 0, -1} {
		if m.Raise("a", r).Floors["a"] != 5 {
			t.Errorf("release %d moved the floor", r)
		}
	}
	if n := m.Raise("a", 7).Raise("b", 1); n.Floors["a"] != 7 || n.Floors["b"] != 1 || m.Floors["a"] != 5 || len(m.Floors) != 1 {
		t.Errorf("floors %v, before %v", n.Floors, m.Floors)
	}
}

func TestDocumentBounds_P146_P148(t *testing.T) {
	many := make([]ota.Model, 17)
	for _, c := range []struct {
		says   string
		change func(*ota.Desired)
	}{
		{"rev 0", func(d *ota.Desired) { d.Rev = 0 }},
		{"target is a device or a group", func(d *ota.Desired) { d.Target = ota.Target{} }},
		{"target is a device or a group", func(d *ota.Desired) { d.Target.Device = "edge1" }},
		{"no name of a device or group", func(d *ota.Desired) { d.Target.Group = "Canary/#" }},
		{"17 models", func(d *ota.Desired) { d.Models = many }},
		{"is there twice", func(d *ota.Desired) { d.Models = append(d.Models, d.Models[0]) }},
		{"active", func(d *ota.Desired) { d.Active = "../x" }},
		{"keep 0", func(d *ota.Desired) { d.Keep = 0 }},
		{"keep 17", func(d *ota.Desired) { d.Keep = 17 }},
		{"issued_at and expires_at", func(d *ota.Desired) { d.ExpiresAt = time.Time{} }},
		{"not after", func(d *ota.Desired) { d.ExpiresAt = d.IssuedAt }},
		{"ten years", func(d *ota.Desired) { d.ExpiresAt = d.IssuedAt.AddDate(11, 0, 0) }},
		{"no name of a model", func(d *ota.Desired) { d.Models[0].Name = ".." }},
		{"version", func(d *ota.Desired) { d.Models[0].Version = "a/b" }},
		{"release 0", func(d *ota.Desired) { d.Models[0].Release = 0 }},
		{"min_release 15", func(d *ota.Desired) { d.Models[0].MinRelease = 15 }},
		{"0 urls", func(d *ota.Desired) { d.Models[0].URLs = nil }},
		{"only https", func(d *ota.Desired) { d.Models[0].URLs = []string{"http://cdn.example/m"} }},
		{"only https", func(d *ota.Desired) { d.Models[0].Index.URL = "file://localhost/etc/passwd" }},
		{"no url", func(d *ota.Desired) { d.Models[0].URLs = []string{"https://user:word@cdn.example/m"} }},
		{"no url", func(d *ota.Desired) { d.Models[0].URLs = []string{"/m.vqf"} }},
		{"bytes, the limit is 2048", func(d *ota.Desired) { d.Models[0].URLs = []string{"https://x/" + strings.Repeat("m", 2048)} }},
		{"sha256", func(d *ota.Desired) { d.Models[0].SHA256 = ota.Digest{} }},
		{"size 0", func(d *ota.Desired) { d.Models[0].Size = 0 }},
		{"no power of two", func(d *ota.Desired) { d.Models[0].Index.Block = 5000 }},
		{"no power of two", func(d *ota.Desired) { d.Models[0].Index.Block = 2048 }},
		{"no power of two", func(d *ota.Desired) { d.Models[0].Index.Block = 128 << 20 }},
		{"take larger ones", func(d *ota.Desired) { d.Models[0].Size = 1 << 40 }},
		{"ram_bytes", func(d *ota.Desired) { d.Models[0].Compat.RAMBytes = -1 }},
		{"more than 64", func(d *ota.Desired) { d.Models[0].Compat.Features = make([]string, 65) }},
		{"salt", func(d *ota.Desired) { d.Rollout.Salt = "a b" }},
		{"percent 101", func(d *ota.Desired) { d.Rollout.Percent = 101 }},
		{"percent -1", func(d *ota.Desired) { d.Rollout.Percent = -1 }},
		{"window", func(d *ota.Desired) { d.Rollout.Window = "2-5" }},
		{"jitter_s", func(d *ota.Desired) { d.Rollout.JitterS = -1 }},
		{"max_bps or max_bytes", func(d *ota.Desired) { d.Rollout.MaxBytes = -1 }},
		{"probe", func(d *ota.Desired) { d.Health.Probe = "../golden" }},
		{"from 0 to 1", func(d *ota.Desired) { d.Health.MinTPSRatio = 1.5 }},
		{"from 0 to 1", func(d *ota.Desired) { d.Health.MaxErrorRatio = math.Copysign(0, -1) }},
		{"observe_s", func(d *ota.Desired) { d.Health.ObserveS = -1 }},
		{"golden", func(d *ota.Desired) { d.Health.Golden = &ota.Golden{Tokens: 1} }},
		{"tokens 0", func(d *ota.Desired) { d.Health.Golden = &ota.Golden{Prompt: "p"} }},
		{"golden", func(d *ota.Desired) {
			d.Health.Golden = &ota.Golden{Prompt: "p", Tokens: 1, Answer: strings.Repeat("a", 5000)}
		}},
	} {
		d := document(t)
		c.change(d)
		_, err := ota.ParseDesired(d.Encode())
		wantCode(t, err, control.BadRequest)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("got %v, want %q", err, c.says)
		}
	}
}

// What a document leaves out is what docs/PROTOCOL.md says.
func TestDocumentDefaults_P149(t *testing.T) {
	d, err := ota.ParseDesired([]byte(`{"rev":1,"issued_at":"2026-11-29T12:00:00Z","expires_at":"2026-12-29T12:00:00Z","target":{"device":"edge1"},"rollout":{"salt":"x"},"future":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	if d.V != 1 || d.Keep != 2 || d.Rollout.Percent != 100 || d.Health != (ota.Health{MinTPSRatio: 0.7, ObserveS: 300, MaxErrorRatio: 0.05}) || d.Health.Observe() != 5*time.Minute {
		t.Errorf("got %+v", d)
	}
	for _, local := range []string{"http://127.0.0.1:8000/m", "http://localhost/m", "http://[::1]:80/m", "https://cdn.example:444/a/b?c=d"} {
		d := document(t)
		d.Models[0].URLs = []string{local}
		if _, err := ota.ParseDesired(d.Encode()); err != nil {
			t.Errorf("%s: %v", local, err)
		}
	}
	if document(t).Find("qwen3-0.6b") == nil || document(t).Find("other") != nil {
		t.Error("Find finds the wrong models")
	}
}

func TestPrefer_P145(t *testing.T) {
	group, device, newer := document(t), document(t), document(t)
	device.Target, device.IssuedAt = ota.Target{Device: "edge1"}, noon.Add(-time.Hour)
	newer.Target, newer.IssuedAt = ota.Target{Group: "all"}, noon.Add(time.Hour)
	higher := document(t)
	higher.Rev++
	for _, c := range []struct{ a, b, want *ota.Desired }{
		{nil, group, group}, {group, device, device}, {group, newer, newer}, {newer, device, device}, {group, higher, higher},
	} {
		if ota.Prefer(c.a, c.b) != c.want || ota.Prefer(c.b, c.a) != c.want {
			t.Errorf("of %+v and %+v the wrong one counts", c.a, c.b)
		}
	}
	if ota.Prefer(nil, nil) != nil {
		t.Error("of no documents one counts")
	}
}
