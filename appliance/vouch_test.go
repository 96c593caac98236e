// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"windhover/internal/testmodel"
)

// A minisign signature beside the file, good and bad, with and without the policy.
func TestMinisigBeside(t *testing.T) {
	ours, theirs := newMinisign(t), newMinisign(t)
	data := tinyModel(t, nil)
	other := tinyModel(t, func(c *testmodel.Config) { c.Seed = 2 })
	good := minisig(t, ours, data)
	damaged := append([]byte(nil), good...)
	damaged[len(damaged)-20] ^= 1 // in the signature of the comment
	tests := []struct {
		name         string
		sig          []byte
		free, policy string // what comes of it without and with drop.require_signature
		trust        string
	}{
		{"good", good, "m ready*", "m ready*", "minisign"},
		{"of another file", minisig(t, ours, other), "m failed minisign_invalid", "m failed minisign_invalid", ""},
		{"damaged", damaged, "m failed minisign_invalid", "m failed minisign_invalid", ""},
		{"no signature at all", []byte("hello\n"), "m failed minisign_invalid", "m failed minisign_invalid", ""},
		{"empty", nil, "m failed minisign_invalid", "m failed minisign_invalid", ""},
		{"too long", make([]byte, signatureBytes+1), "m failed minisign_invalid", "m failed minisign_invalid", ""},
		{"by an unknown key", minisig(t, theirs, data), "m ready*", "m failed key_unknown", "local"},
	}
	for _, tt := range tests {
		for _, require := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, required %v", tt.name, require), func(t *testing.T) {
				r := newRig(t, t.TempDir())
				r.who.require = require
				r.trustMinisignKey(t, "maker", ours.Public())
				r.put(t, "m.vqf.minisig", tt.sig)
				r.put(t, "m.vqf", data)
				r.scan(context.Background())
				want := tt.free
				if require {
					want = tt.policy
				}
				expect(t, r, want)
				if doc, ok := readMarker(t, filepath.Join(r.drop, "m.vqf.ready")); ok && doc.Trust != tt.trust {
					t.Errorf("marker %+v, want trust %q", doc, tt.trust)
				}
			})
		}
	}
}

// The program that people sign with, in both of its ways.
func TestMinisigOfMinisign(t *testing.T) {
	bin, err := exec.LookPath("minisign")
	if err != nil {
		t.Skip("no minisign on this machine")
	}
	for _, way := range []string{"-H", "-l"} {
		r := newRig(t, t.TempDir())
		r.who.require = true
		dir := t.TempDir()
		run := func(args ...string) {
			t.Helper()
			if out, err := exec.Command(bin, args...).CombinedOutput(); err != nil {
				t.Fatalf("minisign %v: %v: %s", args, err, out)
			}
		}
		run("-G", "-W", "-p", filepath.Join(dir, "k.pub"), "-s", filepath.Join(dir, "k.key"))
		pub, err := os.ReadFile(filepath.Join(dir, "k.pub"))
		if err != nil {
			t.Fatal(err)
		}
		writeBytes(t, filepath.Join(r.who.dir, "maker.minisign.pub"), pub)
		r.put(t, "m.vqf", tinyModel(t, nil))
		run("-S", way, "-s", filepath.Join(dir, "k.key"), "-m", filepath.Join(r.drop, "m.vqf"))
		r.scan(context.Background())
		expect(t, r, "m ready*")
		if got := r.trustOf(t, "m"); got != "minisign" {
			t.Errorf("trust %q", got)
		}
	}
}

// Under the policy the signature may come a little later than the file, or much
// later: it is waited for, then missed, and still taken when it is there.
func TestMinisigComesLater(t *testing.T) {
	key := newMinisign(t)
	data := tinyModel(t, nil)
	for _, late := range []bool{false, true} {
		t.Run(fmt.Sprintf("after the verdict %v", late), func(t *testing.T) {
			r := newRig(t, t.TempDir())
			r.who.require = true
			r.trustMinisignKey(t, "maker", key.Public())
			ctx := context.Background()
			r.put(t, "m.vqf", data)
			if next := r.scan(ctx); next != recheck {
				t.Errorf("while a signature is missing the next look is in %v", next)
			}
			expect(t, r, "m waiting signature_missing")
			if exists(filepath.Join(r.drop, "m.vqf.failed")) {
				t.Error("marked as failed while the signature may be on its way")
			}
			want := "[model_ready m]"
			if late {
				r.clock = r.clock.Add(signatureWait)
				r.scan(ctx)
				expect(t, r, "m failed signature_missing")
				want = "[model_failed m signature_missing model_ready m]"
			}
			r.put(t, "m.vqf.minisig", minisig(t, key, data))
			r.scan(ctx)
			expect(t, r, "m ready*")
			if got := fmt.Sprint(r.events); got != want || exists(filepath.Join(r.drop, "m.vqf.failed")) {
				t.Errorf("events %s, want %s", got, want)
			}
		})
	}
}

// A signature that is being written is no signature yet.
func TestMinisigBeingWritten(t *testing.T) {
	key := newMinisign(t)
	data := tinyModel(t, nil)
	r := newRig(t, t.TempDir())
	r.trustMinisignKey(t, "maker", key.Public())
	ctx := context.Background()
	sig := minisig(t, key, data)
	w, err := os.Create(filepath.Join(r.drop, "m.vqf.minisig"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(sig[:50]); err != nil {
		t.Fatal(err)
	}
	r.put(t, "m.vqf", data)
	r.scan(ctx)
	expect(t, r, "m waiting")
	if _, err := w.Write(sig[50:]); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r.scan(ctx)
	expect(t, r, "m ready*")
	if got := r.trustOf(t, "m"); got != "minisign" {
		t.Errorf("trust %q", got)
	}
}

// Without the policy a signature that comes while the model serves raises it, and a
// bad one is refused; either way the model that was loaded goes on.
func TestMinisigForAModelThatServes_P73(t *testing.T) {
	key := newMinisign(t)
	data := tinyModel(t, nil)
	state := t.TempDir()
	r := newRig(t, state)
	r.trustMinisignKey(t, "maker", key.Public())
	ctx := context.Background()
	r.put(t, "m.vqf", data)
	r.scan(ctx)
	loads, load := 0, r.load
	r.load = func(ctx context.Context, weights string, in installed) (servable, error) {
		loads++
		return load(ctx, weights, in)
	}
	steps := []struct {
		name  string
		sig   []byte // nil: it goes
		want  string
		trust string
	}{
		{"bad", minisig(t, key, []byte("another file")), "m ready* minisign_invalid", "local"},
		{"gone", nil, "m ready*", "local"},
		{"good", minisig(t, key, data), "m ready*", "minisign"},
		{"bad after a good one", minisig(t, key, []byte("another file")), "m ready* minisign_invalid", "minisign"},
		{"gone again", nil, "m ready*", "minisign"}, // it was good when it was there
	}
	for _, s := range steps {
		if s.sig == nil {
			if err := os.Remove(filepath.Join(r.drop, "m.vqf.minisig")); err != nil {
				t.Fatal(err)
			}
		} else {
			r.put(t, "m.vqf.minisig", s.sig)
		}
		for range 2 {
			r.scan(ctx)
			expect(t, r, s.want)
		}
		failed := exists(filepath.Join(r.drop, "m.vqf.failed"))
		doc, ready := readMarker(t, filepath.Join(r.drop, "m.vqf.ready"))
		if got := r.trustOf(t, "m"); got != s.trust || doc.Trust != s.trust || !ready || failed != (s.want != "m ready*") {
			t.Errorf("%s: trust %q, marker %+v, failed %v", s.name, got, doc, failed)
		}
	}
	if loads != 0 {
		t.Errorf("loaded %d times more", loads)
	}
	if got, want := fmt.Sprint(r.events), "[model_ready m model_failed m minisign_invalid model_failed m minisign_invalid]"; got != want {
		t.Errorf("events %s, want %s", got, want)
	}
	r.close(context.Background())
	again := newRig(t, state)
	again.scan(ctx)
	expect(t, again, "m ready*")
	if got := again.trustOf(t, "m"); got != "minisign" {
		t.Errorf("after a restart: trust %q", got)
	}
}

// A new version beside the signature of the old one is refused until its own comes;
// the old version serves meanwhile, whichever of the two came first.
func TestSignedUpdate(t *testing.T) {
	key := newMinisign(t)
	v1, v2 := tinyModel(t, nil), tinyModel(t, func(c *testmodel.Config) { c.Seed = 5 })
	for _, first := range []string{"model", "signature"} {
		t.Run(first+" first", func(t *testing.T) {
			r := newRig(t, t.TempDir())
			r.who.require = true
			r.trustMinisignKey(t, "maker", key.Public())
			ctx := context.Background()
			r.put(t, "m.vqf.minisig", minisig(t, key, v1))
			r.put(t, "m.vqf", v1)
			r.scan(ctx)
			expect(t, r, "m ready*")
			old := r.reg.list()[0].SHA256
			if first == "model" {
				r.put(t, "m.vqf", v2)
			} else {
				r.put(t, "m.vqf.minisig", minisig(t, key, v2))
			}
			r.scan(ctx)
			expect(t, r, "m ready* minisign_invalid")
			if got := r.reg.list()[0].SHA256; got != old {
				t.Errorf("serves %s, want the old version %s", got, old)
			}
			if first == "model" {
				r.put(t, "m.vqf.minisig", minisig(t, key, v2))
			} else {
				r.put(t, "m.vqf", v2)
			}
			r.scan(ctx)
			expect(t, r, "m ready*")
			if got := r.reg.list()[0].SHA256; got == old {
				t.Error("the new version does not take over")
			}
		})
	}
}

// The signature of the weights says nothing of a tokenizer beside them.
func TestSignedDirectory(t *testing.T) {
	key := newMinisign(t)
	whole := tinyModel(t, nil)
	bare := tinyModel(t, func(c *testmodel.Config) { c.Bare = true })
	tok := embeddedTokenizer(t, whole)
	r := newRig(t, t.TempDir())
	r.who.require = true
	r.trustMinisignKey(t, "maker", key.Public())
	ctx := context.Background()
	r.put(t, "twin/tokenizer.json", tok)
	r.put(t, "twin/model.vqf.minisig", minisig(t, key, bare))
	r.put(t, "twin/model.vqf", bare)
	r.scan(ctx)
	r.clock = r.clock.Add(signatureWait)
	r.scan(ctx)
	expect(t, r, "twin failed signature_missing")
	r.says(t, "twin", "tokenizer.json", "windhover pack")
	r.put(t, "twin/tokenizer.json.minisig", minisig(t, key, []byte("{}")))
	r.scan(ctx)
	expect(t, r, "twin failed minisign_invalid")
	r.put(t, "twin/tokenizer.json.minisig", minisig(t, key, tok))
	r.scan(ctx)
	expect(t, r, "twin ready*")
	// Another tokenizer is another model.
	r.put(t, "twin/tokenizer.json", append([]byte(" "), tok...))
	r.scan(ctx)
	expect(t, r, "twin ready* minisign_invalid")
}

// What somebody puts there under the name of a signature neither makes the daemon
// wait nor read elsewhere.
func TestHostileSignatures(t *testing.T) {
	key := newMinisign(t)
	data := tinyModel(t, nil)
	for name, prepare := range map[string]func(t *testing.T, path string){
		"FIFO":      mkfifo,
		"directory": func(t *testing.T, path string) { write(t, filepath.Join(path, "x"), "") },
		"link": func(t *testing.T, path string) {
			elsewhere := filepath.Join(t.TempDir(), "sig")
			writeBytes(t, elsewhere, minisig(t, key, data))
			if err := os.Symlink(elsewhere, path); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, t.TempDir())
			r.trustMinisignKey(t, "maker", key.Public())
			prepare(t, filepath.Join(r.drop, "m.vqf.minisig"))
			r.put(t, "m.vqf", data)
			r.scan(context.Background())
			expect(t, r, "m ready*")
			if got := r.trustOf(t, "m"); got != "local" {
				t.Errorf("trust %q", got)
			}
		})
	}
}
