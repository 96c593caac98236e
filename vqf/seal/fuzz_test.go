// SPDX-License-Identifier: Apache-2.0

package seal_test

import (
	"bytes"
	"testing"

	"windhover/vqf/seal"
)

// What parses is written again as it was, but for the untrusted comment.
func FuzzMinisignSignature(f *testing.F) {
	f.Add(fixture(f, "prehashed.minisig"))
	f.Add(fixture(f, "legacy.minisig"))
	f.Add([]byte("untrusted comment: \n\ntrusted comment: \n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := seal.ParseMinisignSignature(text)
		if err != nil {
			return
		}
		again, err := seal.ParseMinisignSignature(s.File())
		if err != nil {
			t.Fatal(err)
		}
		if *again != *s {
			t.Errorf("%+v became %+v", s, again)
		}
	})
}

func FuzzMinisignKeys(f *testing.F) {
	f.Add(fixture(f, "test.pub"))
	f.Add(fixture(f, "test.key"))
	f.Add(fixture(f, "password.key"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if _, err := seal.ParseMinisignPrivate(text); err == nil && len(text) < 212 {
			t.Error("a secret key from too few characters")
		}
		k, err := seal.ParseMinisignPublic(text)
		if err != nil {
			return
		}
		if again, err := seal.ParseMinisignPublic(k.File()); err != nil || again != k {
			t.Errorf("%v became %v: %v", k, again, err)
		}
		if !bytes.Contains(text, []byte(k.String())) {
			t.Errorf("%q holds no %s", text, k)
		}
	})
}

// Keys in hex have one spelling, but for the case of letters.
func FuzzSM2Public(f *testing.F) {
	f.Add(vectorPublic)
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		k, err := seal.ParseSM2Public(text)
		if err == nil && !bytes.EqualFold([]byte(k.String()), []byte(text)) {
			t.Errorf("%q became %s", text, k)
		}
		if _, err := seal.ParseSM2Private(text); err == nil && len(text) != 64 {
			t.Errorf("a private key from %d characters", len(text))
		}
	})
}
