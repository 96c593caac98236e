// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"windhover/engine"
	"windhover/internal/testmodel"
	"windhover/vqf/seal"
)

// Where the passphrase comes from: the file, then the credential, then the
// environment, which is told once.
func TestPassphraseSources_P142(t *testing.T) {
	dir := t.TempDir()
	file, credentials, empty := filepath.Join(dir, "key"), filepath.Join(dir, "cred"), filepath.Join(dir, "empty")
	write(t, file, "of the file\n")
	write(t, filepath.Join(credentials, credentialName), "of the credential\n")
	write(t, filepath.Join(empty, credentialName), "")
	fallback := filepath.Join(dir, "fallback")
	write(t, filepath.Join(fallback, credentialName), "\n")
	env := map[string]string{"CREDENTIALS_DIRECTORY": credentials, keyVariable: "of the environment"}
	with := func(changes map[string]string) func(string) string {
		return func(name string) string {
			if v, ok := changes[name]; ok {
				return v
			}
			return env[name]
		}
	}
	tests := []struct {
		name   string
		file   string
		getenv func(string) string
		want   string // "": none
	}{
		{"file", file, with(nil), "of the file"},
		{"credential", "", with(nil), "of the credential"},
		{"no credential of that name", "", with(map[string]string{"CREDENTIALS_DIRECTORY": dir}), "of the environment"},
		{"empty credential", "", with(map[string]string{"CREDENTIALS_DIRECTORY": empty}), "of the environment"},
		{"the unit's fallback", "", with(map[string]string{"CREDENTIALS_DIRECTORY": fallback}), "of the environment"},
		{"environment", "", with(map[string]string{"CREDENTIALS_DIRECTORY": ""}), "of the environment"},
		{"none", "", with(map[string]string{"CREDENTIALS_DIRECTORY": "", keyVariable: ""}), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			told := 0
			p := &passphrase{file: tt.file, getenv: tt.getenv, tell: func() { told++ }}
			var k *seal.Key
			var err error
			for range 2 {
				if k, err = p.key(); err != nil {
					t.Fatal(err)
				}
			}
			want := ""
			if tt.want != "" {
				want = keyCheck(keyOf(t, tt.want))
			}
			if got := keyCheck(k); got != want {
				t.Errorf("another passphrase than %q", tt.want)
			}
			if (told == 1) != (tt.want == "of the environment") || told > 1 {
				t.Errorf("told %d times", told)
			}
		})
	}
	// A file that somebody names must be there: the next source is not asked.
	p := &passphrase{file: filepath.Join(dir, "gone"), getenv: with(nil)}
	if _, err := p.key(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

// Right, wrong, none, by every word that is logged or written.
func TestEncryptedModels_P143(t *testing.T) {
	const secret = "correct horse battery staple"
	data := sealedModel(t, sealing{passphrase: secret}, nil)
	weight, _, _ := places(t, data)
	changed := slices.Clone(data)
	changed[weight] ^= 1
	tests := []struct {
		name, passphrase, file string
		data                   []byte
		want                   string
		says                   []string
	}{
		{"right", secret, "", data, "m ready*", nil},
		{"wrong", "wrong", "", data, "m failed tag_mismatch", []string{"passphrase"}},
		{"a bit was changed", secret, "", changed, "m failed tag_mismatch", []string{"damaged"}},
		{"none", "", "", data, "m failed passphrase_missing", []string{"vqf.key_file", credentialName}},
		{"a file that is not there", "", "/nowhere/key", data, "m failed passphrase_missing", []string{"/nowhere/key"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			state := t.TempDir()
			r := newRig(t, state)
			var log bytes.Buffer
			r.log = slog.New(slog.NewTextHandler(&log, nil))
			r.who = newAuthority(Config{VQF: VQF{KeyFile: tt.file}}, func(name string) string { return r.env[name] }, r.log)
			r.env[keyVariable] = tt.passphrase
			r.put(t, "m.vqf", tt.data)
			r.scan(context.Background())
			expect(t, r, tt.want)
			if tt.says != nil {
				r.says(t, "m", tt.says...)
			} else if flags := r.reg.list()[0].Flags; !strings.Contains(strings.Join(flags, " "), "ENC") {
				t.Errorf("flags %q", flags)
			}
			for _, path := range []string{filepath.Join(r.drop, "m.vqf.ready"), filepath.Join(r.drop, "m.vqf.failed"), r.book.path} {
				text, err := os.ReadFile(path)
				if err == nil && bytes.Contains(text, []byte(secret)) {
					t.Errorf("the passphrase is in %s", path)
				}
			}
			if bytes.Contains(log.Bytes(), []byte(secret)) {
				t.Errorf("the passphrase is in the log:\n%s", log.String())
			}
			// Once there is the right one it serves, and nobody has to touch the file.
			r.who.pass.file = filepath.Join(t.TempDir(), "key")
			write(t, r.who.pass.file, secret)
			r.scan(context.Background())
			want := "m ready*"
			if !bytes.Equal(tt.data, data) {
				want = tt.want
			}
			expect(t, r, want)
		})
	}
}

// An encrypted model is a plain one to whoever asks it.
func TestEncryptedAnswers(t *testing.T) {
	r := newRig(t, t.TempDir())
	r.env[keyVariable] = "swordfish"
	ctx := context.Background()
	r.put(t, "plain.vqf", sealedModel(t, sealing{}, nil))
	r.put(t, "sealed.vqf", sealedModel(t, sealing{passphrase: "swordfish"}, nil))
	r.scan(ctx)
	expect(t, r, "plain ready, sealed ready*")
	var answers []string
	for _, name := range []string{"plain", "sealed"} {
		s, release, err := r.reg.acquire(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		a, err := answer(ctx, s)
		release()
		if err != nil || a == "" {
			t.Fatalf("%s: %q, %v", name, a, err)
		}
		answers = append(answers, a)
	}
	if answers[0] != answers[1] {
		t.Errorf("plain says %q, encrypted %q", answers[0], answers[1])
	}
}

// A restart does not hash an encrypted file again; under another passphrase it does,
// and refuses it, and takes it up again when the right one is back.
func TestPassphraseRotated_P144(t *testing.T) {
	state := t.TempDir()
	key := filepath.Join(t.TempDir(), "key")
	data := sealedModel(t, sealing{passphrase: "old"}, nil)
	ctx := context.Background()
	start := func() *rig {
		r := newRig(t, state)
		r.who = newAuthority(Config{VQF: VQF{KeyFile: key}}, func(string) string { return "" }, r.log)
		return r
	}
	write(t, key, "old\n")
	r := start()
	r.put(t, "m.vqf", data)
	r.scan(ctx)
	expect(t, r, "m ready*")
	// That what is deciphered is noise is told before the tag is read; whether it would be
	// is asked of the record.
	in := r.book.Models["m"]
	for passphrase, want := range map[string]bool{"old": true, "new": false} {
		k, err := seal.KeyFromPassphrase([]byte(passphrase))
		if err != nil {
			t.Fatal(err)
		}
		if got := in.compared(k, r.store.weights(in.Key)); got != want {
			t.Errorf("the tag counts as compared under %q: %v", passphrase, got)
		}
	}
	r.close(context.Background())
	weight, _, _ := places(t, data)
	r.spoil(t, "m", weight)
	r = start()
	r.scan(ctx)
	expect(t, r, "m ready*") // nobody read it for its tag
	r.close(context.Background())
	r.spoil(t, "m", weight) // as it was

	write(t, key, "new\n")
	r = start()
	r.scan(ctx)
	expect(t, r, "m failed tag_mismatch")
	write(t, key, "old, then\n") // another one, and still not the right one
	r.scan(ctx)
	expect(t, r, "m failed tag_mismatch")
	write(t, key, "old\n")
	r.scan(ctx)
	expect(t, r, "m ready*")
	// A file under the new passphrase, and the passphrase after it.
	r.put(t, "m.vqf", sealedModel(t, sealing{passphrase: "new"}, func(c *testmodel.Config) { c.Seed = 2 }))
	r.scan(ctx)
	expect(t, r, "m ready* tag_mismatch")
	r.says(t, "m", "HMAC-SM3") // and is not told by what is deciphered
	write(t, key, "new\n")
	r.scan(ctx)
	expect(t, r, "m ready*")
}

// The dropped file of an encrypted model, which is also the stored one, is written
// over while the model reads it layer by layer: no answer changes.
func TestEncryptedOverwrittenInPlace(t *testing.T) {
	for _, residency := range []string{engine.ResidencyFull, engine.ResidencyLayered} {
		t.Run(residency, func(t *testing.T) {
			r := newRig(t, t.TempDir())
			r.env[keyVariable] = "swordfish"
			l := newLoader(Config{Engine: Engine{Threads: 1, KV: "f16", Residency: residency, Family: "q4", MemoryLimit: "0", CacheMemory: "0"}}, r.who.pass, 1, new(pulse))
			r.load = l.load
			ctx := context.Background()
			four := func(c *testmodel.Config) { c.Layers = 4 }
			good := sealedModel(t, sealing{passphrase: "swordfish"}, four)
			r.put(t, "m.vqf", good)
			r.scan(ctx)
			expect(t, r, "m ready*")
			if got := r.reg.list()[0].Residency; got != residency {
				t.Fatalf("residency %q, want %q", got, residency)
			}
			s, release, err := r.reg.acquire(ctx, "m")
			if err != nil {
				t.Fatal(err)
			}
			defer release()
			want, stop := answerMeanwhile(ctx, t, s)
			overwrite(t, filepath.Join(r.drop, "m.vqf"), make([]byte, len(good)))
			r.scan(ctx)
			expect(t, r, "m ready* format_invalid")
			stop()
			if got, err := answer(ctx, s); err != nil || got != want {
				t.Errorf("afterwards: got %q, %v; want %q", got, err, want)
			}
		})
	}
}

// What is checked only when a file is installed is checked whatever vqf.check says.
func TestSizeCheckReadsWhatIsSealed(t *testing.T) {
	key := newSM2(t)
	signed := sealedModel(t, sealing{signer: key}, padded)
	secret := sealedModel(t, sealing{passphrase: "swordfish"}, padded)
	plain := sealedModel(t, sealing{}, padded)
	weight, _, _ := places(t, signed)
	r := newRig(t, t.TempDir())
	r.check = "size"
	r.env[keyVariable] = "swordfish"
	r.trustSM2Key(t, "maker", key.Public())
	r.put(t, "plain.vqf", flip(plain, weight, false))
	r.put(t, "secret.vqf", flip(secret, weight, false))
	r.put(t, "signed.vqf", flip(signed, weight, false))
	r.scan(context.Background())
	expect(t, r, "plain ready*, secret failed tag_mismatch, signed failed digest_mismatch")
}
