// SPDX-License-Identifier: Apache-2.0

package ota_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"testing"
	"time"

	"windhover/control"
	"windhover/control/ota"
)

// noon is when the documents of these tests are issued.
var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// privateKey makes the same key for the same letter.
func privateKey(letter byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{letter}, ed25519.SeedSize))
}

func publicKey(letter byte) ota.Key {
	return ota.Key{Name: string(letter), Public: privateKey(letter).Public().(ed25519.PublicKey)}
}

// role trusts the keys of the letters.
func role(t *testing.T, threshold int, letters string) ota.Role {
	t.Helper()
	var keys []ota.Key
	for i := range len(letters) {
		keys = append(keys, publicKey(letters[i]))
	}
	r, err := ota.NewRole(threshold, keys...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// content is the file that everything here is about.
var content = bytes.Repeat([]byte("weights "), 2000)

func index(t *testing.T) *ota.Index {
	t.Helper()
	x, err := ota.BuildIndex(t.Context(), bytes.NewReader(content), int64(len(content)), 4096, nil)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// document wants that file on every box of the group canary.
func document(t *testing.T) *ota.Desired {
	x := index(t)
	return &ota.Desired{
		V: 1, Rev: 42, IssuedAt: noon, ExpiresAt: noon.Add(24 * time.Hour), Target: ota.Target{Group: "canary"}, Keep: 2,
		Models: []ota.Model{{
			Name: "qwen3-0.6b", Version: "1.4.0", Release: 14, MinRelease: 12,
			URLs: []string{"https://cdn.example/m.vqf"}, Size: x.Size, SHA256: x.SHA256,
			Index:  ota.IndexRef{URL: "https://cdn.example/m.index", SHA256: sha256.Sum256(ota.Sign(ota.TypeIndex, x.Encode(), privateKey('a')).Encode()), Block: x.Block},
			Compat: ota.Compat{Arch: []string{"arm64"}, Features: []string{"asimddp"}, VQF: []int{2, 3}, RAMBytes: 1 << 30},
		}},
		Active: "qwen3-0.6b", Rollout: ota.Rollout{Salt: "r42", Percent: 100}, Health: ota.Health{ObserveS: 300},
	}
}

// judge is the box edge1, which trusts key a.
func judge(t *testing.T) ota.Judge {
	r := role(t, 1, "a")
	return ota.Judge{
		Device: ota.Device{Name: "edge1", Groups: []string{"canary", "all"}, Arch: "arm64", Features: []string{"asimddp", "fphp"}, VQF: []int{2, 3}, RAMBytes: 4 << 30},
		Keys:   ota.Keyring{Desired: r, Index: r},
	}
}

func signed(d *ota.Desired, letters string) []byte {
	e := ota.Sign(ota.TypeDesired, d.Encode())
	for i := range len(letters) {
		e.Add(privateKey(letters[i]))
	}
	return e.Encode()
}

// atNoon is a clock that can be believed.
var atNoon = ota.Clock{Now: noon.Add(time.Minute), Sane: true}

func wantCode(t *testing.T, err error, code control.Code) {
	t.Helper()
	if !errors.Is(err, code) {
		t.Errorf("got %v, want %s", err, code.Name)
	}
}
