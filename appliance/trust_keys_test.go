// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"windhover/internal/testclock"
)

// A key that goes while the daemon runs takes its models along, where the policy
// asks for it; one that comes lets them serve.
func TestKeysComeAndGo_P139(t *testing.T) {
	key := newSM2(t)
	r := newRig(t, t.TempDir())
	r.who.require = true
	ctx := context.Background()
	r.put(t, "m.vqf", sealedModel(t, sealing{signer: key}, nil))
	r.scan(ctx)
	expect(t, r, "m failed key_unknown")
	r.says(t, "m", key.Public().Fingerprint(), r.who.dir)
	told := 0
	r.who.changed = func() { told++ }
	file := r.trustSM2Key(t, "maker", key.Public())
	r.scan(ctx)
	expect(t, r, "m ready*")
	if got := fmt.Sprint(r.who.fingerprints()); got != "[sm2:"+key.Public().Fingerprint()+"]" {
		t.Errorf("trust_keys: %s", got)
	}
	// A file that is just being written changes nothing.
	writeBytes(t, file, []byte("12"))
	r.scan(ctx)
	expect(t, r, "m ready*")
	if told != 1 {
		t.Errorf("told of %d changes, want 1", told)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	r.scan(ctx)
	expect(t, r, "m failed key_unknown")
	r.drained.Wait()
	if _, _, err := r.reg.acquire(ctx, "m"); err == nil {
		t.Error("it still answers")
	}
	r.trustSM2Key(t, "maker", key.Public())
	r.scan(ctx)
	expect(t, r, "m ready*")
	want := "[model_failed m key_unknown model_ready m model_failed m key_unknown model_ready m]"
	if got := fmt.Sprint(r.events); got != want {
		t.Errorf("events\n%s, want\n%s", got, want)
	}
}

// A key that becomes known later raises a model without loading it again.
func TestKeyKnownLater(t *testing.T) {
	key := newSM2(t)
	r := newRig(t, t.TempDir())
	ctx := context.Background()
	r.put(t, "m.vqf", sealedModel(t, sealing{signer: key}, nil))
	r.scan(ctx)
	expect(t, r, "m ready*")
	before, release, err := r.reg.acquire(ctx, "m")
	if err != nil {
		t.Fatal(err)
	}
	release()
	r.trustSM2Key(t, "maker", key.Public())
	r.scan(ctx)
	after, release, err := r.reg.acquire(ctx, "m")
	if err != nil {
		t.Fatal(err)
	}
	release()
	doc, _ := readMarker(t, filepath.Join(r.drop, "m.vqf.ready"))
	if got := r.trustOf(t, "m"); got != "sm2" || doc.Trust != "sm2" || before != after {
		t.Errorf("trust %q, marker %+v, loaded again %v", got, doc, before != after)
	}
}

// Keys and variables that are not well formed are told and trust nobody.
func TestBrokenTrust(t *testing.T) {
	dir := t.TempDir()
	writeBytes(t, filepath.Join(dir, "x.sm2.pub"), []byte("zz\n"))
	if _, err := loadTrust(dir, func(string) string { return "" }); err == nil || !strings.Contains(err.Error(), "x.sm2.pub") {
		t.Errorf("a broken key file: %v", err)
	}
	env := func(name string) string { return map[string]string{"VLLM_VQF_SIGN_PUB": "12"}[name] }
	if _, err := loadTrust("", env); err == nil || !strings.Contains(err.Error(), "VLLM_VQF_SIGN_PUB") {
		t.Errorf("a broken variable: %v", err)
	}
	if k, err := loadTrust(filepath.Join(dir, "none"), func(string) string { return "" }); err != nil || len(k.SM2)+len(k.Minisign) != 0 {
		t.Errorf("no directory: %v, %v", k, err)
	}
}

// The document about the device names the keys, for whoever signs to see.
func TestInfoNamesKeys(t *testing.T) {
	b := jobBackend(t, "good")
	if got := b.Info().TrustKeys; got == nil || len(got) != 0 {
		t.Errorf("without keys: %#v, want an empty list", got)
	}
	b.who.dir = t.TempDir()
	sm2, minisign := newSM2(t).Public(), newMinisign(t).Public()
	writeBytes(t, filepath.Join(b.who.dir, "a.sm2.pub"), []byte(sm2.String()))
	writeBytes(t, filepath.Join(b.who.dir, "b.minisign.pub"), minisign.File())
	b.who.refresh()
	if got, want := fmt.Sprint(b.Info().TrustKeys), "[sm2:"+sm2.Fingerprint()+" minisign:"+minisign.Name()+"]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// One bad file among the keys: the others go on, a removed one counts no more, and it
// is told once. A file that has just been written keeps the key that it had.
func TestBadKeyAmongGood_P140(t *testing.T) {
	ours, theirs := newSM2(t), newSM2(t)
	for _, kind := range []string{"text", "fifo", "directory"} {
		t.Run(kind, func(t *testing.T) {
			r := newRig(t, t.TempDir())
			var said lines
			r.who.log = slog.New(slog.NewTextHandler(&said, nil))
			r.who.require = true
			ctx := context.Background()
			gone := r.trustSM2Key(t, "gone", ours.Public())
			r.trustSM2Key(t, "stays", theirs.Public())
			bad := filepath.Join(r.who.dir, "bad.sm2.pub")
			var err error
			switch kind {
			case "text":
				write(t, bad, "no key\n")
			case "fifo":
				err = unix.Mkfifo(bad, 0o644)
			default:
				err = os.Mkdir(bad, 0o755)
			}
			if err != nil {
				t.Fatal(err)
			}
			r.put(t, "a.vqf", sealedModel(t, sealing{signer: ours}, nil))
			r.put(t, "b.vqf", sealedModel(t, sealing{signer: theirs}, nil))
			r.scan(ctx)
			expect(t, r, "a ready, b ready*")
			if err := os.Remove(gone); err != nil {
				t.Fatal(err)
			}
			r.scan(ctx)
			expect(t, r, "a failed key_unknown, b ready*")
			if n := strings.Count(said.String(), "bad.sm2.pub"); n != 1 {
				t.Errorf("told %d times:\n%s", n, said.String())
			}
			if err := os.RemoveAll(bad); err != nil {
				t.Fatal(err)
			}
			r.scan(ctx)
			expect(t, r, "a failed key_unknown, b ready*")
		})
	}
}

// A key file that was good, is not, and stays so has no key.
func TestKeyFileSpoiled(t *testing.T) {
	key := newSM2(t)
	r := newRig(t, t.TempDir())
	r.who.require = true
	var clock testclock.Clock
	r.who.now = clock.Now
	ctx := context.Background()
	file := r.trustSM2Key(t, "maker", key.Public())
	r.put(t, "m.vqf", sealedModel(t, sealing{signer: key}, nil))
	r.scan(ctx)
	expect(t, r, "m ready*")
	write(t, file, "no key\n")
	r.scan(ctx)
	expect(t, r, "m ready*") // perhaps somebody is writing it
	for _, by := range []time.Duration{20 * 365 * 24 * time.Hour, -30 * 365 * 24 * time.Hour} {
		clock.Step(by) // which makes the file neither older nor younger
		r.scan(ctx)
		expect(t, r, "m ready*")
	}
	r.who.now = func() time.Time { return clock.Now().Add(rescan) }
	r.scan(ctx)
	expect(t, r, "m failed key_unknown")
}
