// SPDX-License-Identifier: Apache-2.0

package seal_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"windhover/vqf/seal"
)

// stream16 tells keys apart: the first block of their key stream.
func stream16(t *testing.T, k *seal.Key) []byte {
	t.Helper()
	s, err := k.Stream([16]byte{})
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 16)
	s.XORKeyStreamAt(b, b, 0)
	return b
}

func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestReadKeyFile(t *testing.T) {
	const pass = "correct horse battery staple"
	want := stream16(t, vectorKey(t))
	for _, c := range []struct {
		name, content string
		same          bool
	}{
		{"bare", pass, true},
		{"newline", pass + "\n", true},
		{"CRLF", pass + "\r\n", true},
		{"two newlines", pass + "\n\n", false}, // only one is an editor's
		{"lone CR", pass + "\r", false},
		{"space", pass + " ", false},
		{"leading space", " " + pass, false},
	} {
		k, err := seal.ReadKeyFile(write(t, "pass", c.content))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := bytes.Equal(stream16(t, k), want); got != c.same {
			t.Errorf("%s: the same key %v, want %v", c.name, got, c.same)
		}
	}
}

func TestReadKeyFileRefuses(t *testing.T) {
	for _, c := range []struct {
		name, content, says string
		kind                error
	}{
		{"empty", "", "empty", seal.ErrPassphrase},
		{"newline", "\n", "empty", seal.ErrPassphrase},
		{"nul", "a\x00b", "NUL", seal.ErrPassphrase},
		{"long", strings.Repeat("a", 64<<10+1), "64 KiB", seal.ErrKey},
	} {
		path := write(t, c.name, c.content)
		_, err := seal.ReadKeyFile(path)
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want %q and the path", c.name, err, c.says)
		}
	}
	if _, err := seal.ReadKeyFile(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := seal.ReadKeyFile(write(t, "full", strings.Repeat("a", 64<<10))); err != nil {
		t.Errorf("64 KiB: %v", err)
	}
}

// No way of printing a private value shows its bytes.
func TestSecretsAreHidden(t *testing.T) {
	key := vectorKey(t)
	const digits = "3945208F7B2144B13F36E38AC6D39F95889393692860B51A42FB81EF4DF7C5B8"
	sm2, err := seal.ParseSM2Private(digits)
	if err != nil {
		t.Fatal(err)
	}
	mini, err := seal.GenerateMinisign()
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []any{key, *key, sm2, mini} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
			if text := fmt.Sprintf(verb, v); !strings.HasPrefix(text, "seal.") || len(text) > 64 || strings.Contains(strings.ToUpper(text), digits[:8]) {
				t.Errorf("%s of %T prints %q", verb, v, text)
			}
		}
	}
}
