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

func put(t *testing.T, dir, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

const vectorPublic = "852611f744af045689dcfbf4c0437730d2d2de332ab7f0fc02769c5fab8a8943" + "7d9384f19ab882ed668a28936db92475aa79aef8690ee36f6fb77c69b9b571f8"

func TestLoadTrust(t *testing.T) {
	dir := t.TempDir()
	mini, err := os.ReadFile(filepath.Join("testdata", "minisign", "test.pub"))
	if err != nil {
		t.Fatal(err)
	}
	put(t, dir, "works.sm2.pub", "# the works, 2026\n"+vectorPublic+"\n")
	put(t, dir, "lab.minisign.pub", string(mini))
	put(t, dir, "fleet.fleet.pub", "of another use")
	put(t, dir, ".half.sm2.pub", "being written")
	put(t, dir, "works.sm2.pub~", "an editor's")
	put(t, dir, "README", "of the administrator")
	trust, err := seal.LoadTrust(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(trust.SM2) != 1 || len(trust.Minisign) != 1 {
		t.Fatalf("trust: %+v", trust)
	}
	k := trust.SM2[0].Key
	if found, ok := trust.FindSM2(k); !ok || found.Name != "works" {
		t.Errorf("the SM2 key is found as %q, %v", found.Name, ok)
	}
	k[63] ^= 1
	if _, ok := trust.FindSM2(k); ok {
		t.Error("another SM2 key is trusted")
	}
	id := trust.Minisign[0].Key.ID
	if found := trust.FindMinisign(id); len(found) != 1 || found[0].Name != "lab" {
		t.Errorf("the minisign key is found as %v", found)
	}
	if id[0] ^= 1; len(trust.FindMinisign(id)) != 0 {
		t.Error("another minisign key is trusted")
	}
}

func TestLoadTrustOfNobody(t *testing.T) {
	for _, dir := range []string{t.TempDir(), filepath.Join(t.TempDir(), "none")} {
		trust, err := seal.LoadTrust(dir)
		if err != nil || len(trust.SM2)+len(trust.Minisign) > 0 {
			t.Errorf("%s: %v, %v", dir, trust, err)
		}
	}
	var none *seal.Trust
	if _, ok := none.FindSM2(seal.PublicKey{}); ok || none.FindMinisign([8]byte{}) != nil {
		t.Error("a nil Trust trusts somebody")
	}
}

// A trusted key that cannot be used is an error and not a key less; the others
// count.
func TestLoadTrustRefuses(t *testing.T) {
	mini, err := os.ReadFile(filepath.Join("testdata", "minisign", "test.pub"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, content, says string }{
		{"a.sm2.pub", "", "one line"},
		{"a.sm2.pub", vectorPublic[:127] + "0", "not on the curve"},
		{"a.sm2.pub", vectorPublic + "\n" + vectorPublic, "not 2"},
		{"a.sm2.pub", strings.Repeat("1", 64), "private key or a fleet key"},
		{"a.sm2.pub", string(mini), "another kind"},
		{"a.minisign.pub", vectorPublic, "another kind"},
		{"a.minisign.pub", strings.Replace(string(mini), "RWR", "RUR", 1), "algorithm"},
		{"a.minisign.pub", "untrusted comment: x\nRWRtcx\n", "characters"},
	} {
		dir := t.TempDir()
		put(t, dir, c.name, c.content)
		put(t, dir, "b.sm2.pub", vectorPublic)
		put(t, dir, "c.minisign.pub", string(mini))
		trust, err := seal.LoadTrust(dir)
		if trust == nil || len(trust.SM2) != 1 || trust.SM2[0].Name != "b" || len(trust.Minisign) != 1 || trust.Minisign[0].Name != "c" {
			t.Errorf("%s with %.20q: the other keys do not count: %+v", c.name, c.content, trust)
		}
		if !errors.Is(err, seal.ErrKey) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), filepath.Join(dir, c.name)) {
			t.Errorf("%s with %.20q: %v, want %q and the path", c.name, c.content, err, c.says)
		}
	}
	dir := t.TempDir()
	put(t, dir, "a.minisign.pub", "x")
	put(t, dir, "b.sm2.pub", "y")
	if _, err := seal.LoadTrust(dir); err == nil || !strings.Contains(err.Error(), "a.minisign.pub") || !strings.Contains(err.Error(), "b.sm2.pub") {
		t.Errorf("two bad files: %v", err)
	}
	dir = t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "a.sm2.pub"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := seal.LoadTrust(dir); err == nil {
		t.Error("a directory in place of a key is no error")
	}
	if _, err := seal.LoadTrust(write(t, "file", "")); err == nil {
		t.Error("a file in place of the directory is no error")
	}
}
