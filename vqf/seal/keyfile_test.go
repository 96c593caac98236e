// SPDX-License-Identifier: Apache-2.0

package seal_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"windhover/vqf/seal"
)

func mode(t *testing.T, path string) fs.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

func TestKeyPairs(t *testing.T) {
	for kind, make := range map[string]func(string) (*seal.KeyPair, error){
		"sm2": seal.NewSM2Pair, "minisign": seal.NewMinisignPair, "fleet": seal.NewFleetPair,
	} {
		t.Run(kind, func(t *testing.T) {
			name := filepath.Join(t.TempDir(), "box")
			p, err := make(name)
			if err != nil {
				t.Fatal(err)
			}
			if p.Private != name+"."+kind+".key" || p.Public != name+"."+kind+".pub" {
				t.Errorf("files %s and %s", p.Private, p.Public)
			}
			if m := mode(t, p.Private); m != 0o600 {
				t.Errorf("%s has mode %o, want 600", p.Private, m)
			}
			before, err := os.ReadFile(p.Private)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := make(name); !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), p.Private) {
				t.Errorf("over itself: %v", err)
			}
			if after, err := os.ReadFile(p.Private); err != nil || string(after) != string(before) {
				t.Error("a refused key generation changed the key")
			}
			// A public half that is in the way leaves no private one behind.
			if err := os.Remove(p.Private); err != nil {
				t.Fatal(err)
			}
			if _, err := make(name); !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), p.Public) {
				t.Errorf("over a public key: %v", err)
			}
			if _, err := os.Stat(p.Private); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s is there after a failure: %v", p.Private, err)
			}
			if _, err := make(filepath.Join(name, "no", "dir")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("no directory: %v", err)
			}
		})
	}
}

// What a pair signs, its public file lets through.
func TestPairsBelongTogether(t *testing.T) {
	name := filepath.Join(t.TempDir(), "box")
	pair, err := seal.NewSM2Pair(name)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := seal.ReadSigningKey(pair.Private)
	if err != nil {
		t.Fatal(err)
	}
	trust, err := seal.ReadTrusted(pair.Public)
	if err != nil {
		t.Fatal(err)
	}
	if signer.SM2 == nil || signer.Minisign != nil || len(trust.SM2) != 1 || trust.SM2[0].Name != "box" || trust.SM2[0].Key != signer.SM2.Public() {
		t.Errorf("SM2: %v, %v", signer, trust)
	}
	if pair.Fingerprint != trust.SM2[0].Key.Fingerprint() {
		t.Errorf("fingerprint %s, want %s", pair.Fingerprint, trust.SM2[0].Key.Fingerprint())
	}
	if pair, err = seal.NewMinisignPair(name); err != nil {
		t.Fatal(err)
	}
	if signer, err = seal.ReadSigningKey(pair.Private); err != nil {
		t.Fatal(err)
	}
	if trust, err = seal.ReadTrusted(pair.Public); err != nil {
		t.Fatal(err)
	}
	if signer.Minisign == nil || signer.SM2 != nil || len(trust.Minisign) != 1 || trust.Minisign[0].Name != "box" || trust.Minisign[0].Key != signer.Minisign.Public() {
		t.Errorf("minisign: %v, %v", signer, trust)
	}
}

func TestReadSigningKeyRefuses(t *testing.T) {
	dir := t.TempDir()
	pair, err := seal.NewSM2Pair(filepath.Join(dir, "box"))
	if err != nil {
		t.Fatal(err)
	}
	fleet, err := seal.NewFleetPair(filepath.Join(dir, "box"))
	if err != nil {
		t.Fatal(err)
	}
	ones := strings.Repeat("1", 64)
	for _, c := range []struct{ path, says string }{
		{pair.Public, "public key"},
		{fleet.Public, "public key"},
		{fleet.Private, "fleet key"},
		{filepath.Join("testdata", "minisign", "test.pub"), "public key"},
		{filepath.Join("testdata", "minisign", "password.key"), "minisign -C -W"},
		{write(t, "empty", ""), "one line beside comments, not 0"},
		{write(t, "two", strings.Repeat(strings.Repeat("1", 64)+"\n", 2)), "one line beside comments, not 2"},
		{write(t, "zero", strings.Repeat("0", 64)), "no SM2 private key"},
		{write(t, "short", "1234"), "64 hex digits, here are 4"},
		{write(t, "long", strings.Repeat("1", 64<<10+1)), "no key file"},
		// By the name alone, since 64 hex digits may be anything.
		{write(t, "old.fleet.key", ones), "fleet key"},
		{write(t, "old.fleet.pub", ones), "this is a public key"},
		{write(t, "old.pub", ones), "this is a public key"},
		// By what the file says of itself, whatever its name is.
		{copyOf(t, fleet.Private, "x.sm2.key"), "a fleet private key"},
		{copyOf(t, fleet.Public, "y.sm2.key"), "a fleet public key"},
		{copyOf(t, fleet.Public, "plain"), "a fleet public key"},
		{copyOf(t, pair.Public, "z.sm2.key"), "public key"},
	} {
		if _, err := seal.ReadSigningKey(c.path); !errors.Is(err, seal.ErrKey) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), c.path) {
			t.Errorf("%s: %v, want %q and the path", c.path, err, c.says)
		}
	}
	commented := write(t, "commented", "# of the box on the roof\n\nuntrusted comment: x\n  "+strings.Repeat("1", 64)+"  \r\n")
	// A comment of minisign's makes it minisign's only at the start.
	if k, err := seal.ReadSigningKey(commented); err != nil || k.SM2 == nil {
		t.Errorf("comments: %v, %v", k, err)
	}
}

// A key moves under other names, and older files say nothing of themselves.
func TestReadSigningKeyMoved(t *testing.T) {
	pair, err := seal.NewSM2Pair(filepath.Join(t.TempDir(), "box"))
	if err != nil {
		t.Fatal(err)
	}
	// $(cat KEY) is what the environment takes.
	if b, err := os.ReadFile(pair.Private); err != nil || len(b) != 65 || b[64] != '\n' {
		t.Errorf("the private key has %d bytes, %v", len(b), err)
	}
	for _, path := range []string{copyOf(t, pair.Private, "other"), write(t, "old", strings.Repeat("1", 64)), write(t, "old.sm2.key", strings.Repeat("1", 64)+"\n")} {
		if k, err := seal.ReadSigningKey(path); err != nil || k.SM2 == nil {
			t.Errorf("%s: %v, %v", path, k, err)
		}
	}
}

// copyOf copies a file to another name.
func copyOf(t *testing.T, path, name string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return write(t, name, string(b))
}
