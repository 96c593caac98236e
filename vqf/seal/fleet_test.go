// SPDX-License-Identifier: Apache-2.0

package seal_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"windhover/vqf/seal"
)

func TestFleetPair(t *testing.T) {
	dir := t.TempDir()
	pair, err := seal.NewFleetPair(filepath.Join(dir, "works"))
	if err != nil {
		t.Fatal(err)
	}
	signer, err := seal.ReadFleetSigner(pair.Private)
	if err != nil {
		t.Fatal(err)
	}
	public, err := seal.ReadFleetKey(pair.Public)
	if err != nil {
		t.Fatal(err)
	}
	if !public.Key.Equal(signer.Public()) || public.Name != "works" {
		t.Errorf("%s of %x is not the key of the pair", public.Name, public.Key)
	}
	keys, err := seal.LoadFleet(dir)
	if err != nil || len(keys) != 1 || !keys[0].Key.Equal(public.Key) {
		t.Errorf("the directory trusts %v: %v", keys, err)
	}
}

func TestFleetKeysRefused(t *testing.T) {
	dir := t.TempDir()
	fleet, err := seal.NewFleetPair(filepath.Join(dir, "box"))
	if err != nil {
		t.Fatal(err)
	}
	sm2, err := seal.NewSM2Pair(filepath.Join(dir, "box"))
	if err != nil {
		t.Fatal(err)
	}
	digits := strings.Repeat("1", 64)
	public := func(path string) error { _, err := seal.ReadFleetKey(path); return err }
	private := func(path string) error { _, err := seal.ReadFleetSigner(path); return err }
	for _, c := range []struct {
		path, says string
		read       func(string) error
	}{
		{fleet.Private, "this is a fleet private key: a fleet public one is needed", public},
		{fleet.Public, "this is a fleet public key: a fleet private one is needed", private},
		{sm2.Private, "does not say that it is a fleet private key", private},
		{write(t, "x.fleet.pub", digits), "does not say that it is a fleet public key", public},
		{write(t, "short.fleet.pub", "# windhover key: fleet public\n1234\n"), "one line of 64 hex digits", public},
		{write(t, "two.fleet.pub", "# windhover key: fleet public\n"+digits+"\n"+digits+"\n"), "one line of 64 hex digits", public},
		{write(t, "odd.fleet.pub", "# windhover key: fleet public\n"+digits[:63]+"g\n"), "one line of 64 hex digits", public},
	} {
		if err := c.read(c.path); !errors.Is(err, seal.ErrKey) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), c.path) {
			t.Errorf("%s: %v, want %q and the path", c.path, err, c.says)
		}
	}
}

// One bad file takes away its own key alone; files of other kinds are not looked at.
func TestLoadFleet(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b", ".c"} {
		if _, err := seal.NewFleetPair(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := seal.NewSM2Pair(filepath.Join(dir, "d")); err != nil {
		t.Fatal(err)
	}
	bad := filepath.Join(dir, "a.fleet.pub")
	if err := os.WriteFile(bad, []byte("no key\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	keys, err := seal.LoadFleet(dir)
	if !errors.Is(err, seal.ErrKey) || !strings.Contains(err.Error(), bad) {
		t.Errorf("a bad file: %v", err)
	}
	if len(keys) != 1 || keys[0].Name != "b" {
		t.Errorf("keys %v, want that of b alone", keys)
	}
	if keys, err := seal.LoadFleet(filepath.Join(dir, "none")); err != nil || len(keys) != 0 {
		t.Errorf("no directory: %v, %v", keys, err)
	}
}
