// SPDX-License-Identifier: Apache-2.0

package seal_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"windhover/vqf/seal"
)

func fixture(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "minisign", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func fixtureKey(t testing.TB, name string) seal.MinisignKey {
	t.Helper()
	k, err := seal.ParseMinisignPublic(fixture(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func open(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// What minisign 0.11 wrote, of both kinds, is read and checked.
func TestMinisignFixtures(t *testing.T) {
	key := fixtureKey(t, "test.pub")
	if key.Name() != "6C01C152A114736D" || !strings.Contains(string(fixture(t, "test.pub")), key.String()) {
		t.Errorf("key %s %s", key.Name(), key)
	}
	for _, c := range []struct {
		name, comment string
		prehashed     bool
	}{{"prehashed.minisig", "model one", true}, {"legacy.minisig", "model one, old kind", false}} {
		t.Run(c.name, func(t *testing.T) {
			s, err := seal.ReadMinisignSignature(filepath.Join("testdata", "minisign", c.name))
			if err != nil {
				t.Fatal(err)
			}
			if s.KeyID != key.ID || s.Prehashed != c.prehashed || s.Comment != c.comment {
				t.Errorf("signature %+v", s)
			}
			var last int64
			progress := func(done, _ int64) { last = done }
			message := fixture(t, "message")
			f := open(t, filepath.Join("testdata", "minisign", "message"))
			if err := s.CheckFile(t.Context(), key, f, progress); err != nil {
				t.Error(err)
			}
			if c.prehashed && last != int64(len(message)) {
				t.Errorf("progress ended at %d of %d", last, len(message))
			}
			if err := s.CheckFile(t.Context(), fixtureKey(t, "other.pub"), f, nil); !errors.Is(err, seal.ErrUntrusted) {
				t.Errorf("with another key: %v", err)
			}
			forged := fixtureKey(t, "other.pub") // with the id of the right one
			forged.ID = key.ID
			if err := s.CheckFile(t.Context(), forged, f, nil); !errors.Is(err, seal.ErrSignature) {
				t.Errorf("with another key under the same id: %v", err)
			}
			for bit := range 8 * len(message) {
				changed := bytes.Clone(message)
				changed[bit/8] ^= 1 << (bit % 8)
				path := write(t, "message", string(changed))
				if err := s.CheckFile(t.Context(), key, open(t, path), nil); !errors.Is(err, seal.ErrSignature) || !strings.Contains(err.Error(), "file was changed") {
					t.Fatalf("with bit %d flipped: %v", bit, err)
				}
			}
			s.Comment += "!"
			if err := s.CheckFile(t.Context(), key, f, nil); !errors.Is(err, seal.ErrSignature) || !strings.Contains(err.Error(), "comment") {
				t.Errorf("with another comment: %v", err)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s, err := seal.ParseMinisignSignature(fixture(t, "prehashed.minisig"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.CheckFile(ctx, key, open(t, filepath.Join("testdata", "minisign", "message")), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// minisign's own secret key signs here, deterministically as Ed25519 is.
func TestMinisignSign(t *testing.T) {
	k, err := seal.ParseMinisignPrivate(fixture(t, "test.key"))
	if err != nil {
		t.Fatal(err)
	}
	h := seal.NewMinisignHash()
	_, _ = h.Write(fixture(t, "message")) // a hash takes everything
	s, err := k.Sign(h.Sum(nil), "model one")
	if err != nil {
		t.Fatal(err)
	}
	got := strings.SplitN(string(s.File()), "\n", 2)[1] // the untrusted comment is ours
	if want := strings.SplitN(string(fixture(t, "prehashed.minisig")), "\n", 2)[1]; got != want {
		t.Errorf("signature\n%swant\n%s", got, want)
	}
	again, err := seal.ParseMinisignSignature(s.File())
	if err != nil {
		t.Fatal(err)
	}
	if *again != *s {
		t.Errorf("read back as %+v, want %+v", again, s)
	}
	for _, comment := range []string{"two\nlines", "two\rlines"} {
		if _, err := k.Sign(h.Sum(nil), comment); !errors.Is(err, seal.ErrSignature) {
			t.Errorf("the comment %q: %v", comment, err)
		}
	}
	if _, err := k.Sign([]byte("not hashed"), ""); !errors.Is(err, seal.ErrSignature) {
		t.Errorf("a short hash: %v", err)
	}
}

func TestParseMinisignPrivateRefuses(t *testing.T) {
	good := string(fixture(t, "test.key"))
	line := strings.Split(good, "\n")[1]
	change := func(at int, to string) string { return line[:at] + to + line[at+len(to):] }
	for _, c := range []struct{ name, text, says string }{
		{"password", string(fixture(t, "password.key")), "password"},
		{"algorithm", change(0, "RU"), "algorithm"},
		{"half", change(150, "AAAA"), "halves"},
		{"sum", change(180, "BBBB"), "checksum"},
		{"short", line[:200], "characters"},
		{"no base64", change(4, "????"), "not base64"},
		{"two lines", line + "\n" + line, "comments, not 2"},
	} {
		if _, err := seal.ParseMinisignPrivate([]byte(c.text)); !errors.Is(err, seal.ErrKey) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.name, err, c.says)
		} else if strings.Contains(err.Error(), line[80:100]) {
			t.Errorf("%s: the error shows the key", c.name)
		}
	}
	if _, err := seal.ParseMinisignPrivate([]byte(line)); err != nil {
		t.Errorf("without a comment: %v", err)
	}
}

func TestParseMinisignSignatureRefuses(t *testing.T) {
	good := string(fixture(t, "prehashed.minisig"))
	lines := strings.Split(strings.TrimSuffix(good, "\n"), "\n")
	with := func(i int, line string) string {
		l := append([]string(nil), lines...)
		l[i] = line
		return strings.Join(l, "\n")
	}
	for _, c := range []struct{ name, text, says string }{
		{"empty", "", "4 lines, not 1"},
		{"three lines", strings.Join(lines[:3], "\n"), "4 lines, not 3"},
		{"five lines", good + "more\n", "4 lines, not 5"},
		{"no comment", with(0, "comment"), "first line"},
		{"no trusted comment", with(2, "untrusted comment: x"), "third line"},
		{"algorithm", with(1, "RX"+lines[1][2:]), "algorithm"},
		{"short", with(1, lines[1][4:]), "characters"},
		{"global", with(3, lines[3][4:]), "characters"},
		{"loose base64", with(3, strings.NewReplacer("A==", "B==", "Q==", "R==", "g==", "h==", "w==", "x==").Replace(lines[3])), "not base64"},
		{"carriage return", with(2, lines[2]+"\r\r"), "carriage return"},
	} {
		if _, err := seal.ParseMinisignSignature([]byte(c.text)); !errors.Is(err, seal.ErrSignature) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.name, err, c.says)
		}
	}
	if _, err := seal.ParseMinisignSignature([]byte(strings.ReplaceAll(good, "\n", "\r\n"))); err != nil {
		t.Errorf("CRLF: %v", err)
	}
}

// The program minisign checks what is signed here with a key made here, and the
// other way round.
func TestMinisignProgram(t *testing.T) {
	program, err := exec.LookPath("minisign")
	if err != nil {
		t.Skip("the program minisign is not installed")
	}
	minisign := func(args ...string) (string, error) {
		out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
		return string(out), err
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "weights")
	if err := os.WriteFile(file, bytes.Repeat([]byte("weights "), 1<<18), 0o644); err != nil {
		t.Fatal(err)
	}
	pair, err := seal.NewMinisignPair(filepath.Join(dir, "ours"))
	if err != nil {
		t.Fatal(err)
	}
	signer, err := seal.ReadSigningKey(pair.Private)
	if err != nil {
		t.Fatal(err)
	}
	sum, err := seal.HashFile(t.Context(), open(t, file), seal.NewMinisignHash(), nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := signer.Minisign.Sign(sum, "signed here")
	if err != nil {
		t.Fatal(err)
	}
	put(t, dir, "weights.minisig", string(s.File()))
	if out, err := minisign("-V", "-p", pair.Public, "-m", file); err != nil || !strings.Contains(out, "signed here") {
		t.Errorf("minisign -V: %v: %s", err, out)
	}
	for _, kind := range [][]string{{"-S"}, {"-S", "-l"}} {
		// Our key in minisign's hands.
		if out, err := minisign(append(kind, "-s", pair.Private, "-m", file, "-t", "signed there")...); err != nil {
			t.Fatalf("minisign -S: %v: %s", err, out)
		}
		s, err := seal.ReadMinisignSignature(file + seal.MinisignSuffix)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.CheckFile(t.Context(), signer.Minisign.Public(), open(t, file), nil); err != nil || s.Comment != "signed there" {
			t.Errorf("%v: %v, comment %q", kind, err, s.Comment)
		}
	}
}

// A comment is as long as minisign can read, and no longer.
func TestMinisignCommentLength(t *testing.T) {
	k, err := seal.GenerateMinisign()
	if err != nil {
		t.Fatal(err)
	}
	h := seal.NewMinisignHash()
	s, err := k.Sign(h.Sum(nil), strings.Repeat("x", seal.MaxComment))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(s.File())) {
		if len(line) > 8191 {
			t.Errorf("a line of %d bytes", len(line))
		}
	}
	if _, err := k.Sign(h.Sum(nil), strings.Repeat("x", seal.MaxComment+1)); !errors.Is(err, seal.ErrSignature) || !strings.Contains(err.Error(), "8000") {
		t.Errorf("a longer comment: %v", err)
	}
}

// There is no sum of a file that is written to while it is read.
func TestHashFileChanged(t *testing.T) {
	const size = 3 << 20 // several pieces
	for what, meddle := range map[string]func(path string) error{
		"grows":   func(path string) error { return os.Truncate(path, size+1) },
		"shrinks": func(path string) error { return os.Truncate(path, size-1) },
		"written to": func(path string) error {
			return os.WriteFile(path, make([]byte, size), 0o600)
		},
	} {
		path := write(t, "weights", strings.Repeat("w", size))
		if err := os.Chtimes(path, time.Time{}, time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
		f, done := open(t, path), false
		_, err := seal.HashFile(t.Context(), f, seal.NewMinisignHash(), func(int64, int64) {
			if !done {
				done = true
				if err := meddle(path); err != nil {
					t.Error(err)
				}
			}
		})
		if !errors.Is(err, seal.ErrSignature) || !strings.Contains(err.Error(), path+" was changed") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
