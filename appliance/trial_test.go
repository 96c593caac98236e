// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"windhover/internal/testmodel"
)

const (
	endsEnv    = "WINDHOVER_TEST_ENDS"
	endsDigest = "WINDHOVER_TEST_ENDS_DIGEST"
)

// A file that kills the daemon when it is loaded, as the kernel does when memory runs
// out, is given up after a few starts: what served before it serves, what comes behind
// it is served, and the same bytes are not tried again until somebody wants that.
func TestModelThatEndsTheDaemon_P135(t *testing.T) {
	if state := os.Getenv(endsEnv); state != "" {
		r := newRig(t, state)
		load := r.load
		r.load = func(ctx context.Context, weights string, in installed) (servable, error) {
			if in.SHA256 == os.Getenv(endsDigest) {
				if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
				select {}
			}
			return load(ctx, weights, in)
		}
		r.scan(context.Background())
		return
	}
	state := t.TempDir()
	ctx := context.Background()
	r := newRig(t, state)
	r.put(t, "m.vqf", tinyModel(t, nil))
	r.scan(ctx)
	good := r.reg.list()[0].SHA256
	if exists(r.trialPath()) {
		t.Error("a note of the trial is left behind a model that serves")
	}
	r.close(t.Context())

	deadly := tinyModel(t, func(c *testmodel.Config) { c.Seed = 4 })
	sum := sha256.Sum256(deadly)
	digest := hex.EncodeToString(sum[:])
	r.put(t, "m.vqf", deadly)
	r.put(t, "z.vqf", tinyModel(t, func(c *testmodel.Config) { c.Seed = 5 }))
	run := func() error {
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestModelThatEndsTheDaemon_P135$")
		cmd.Env = append(os.Environ(), endsEnv+"="+state, endsDigest+"="+digest)
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != -1) {
			t.Fatalf("%v\n%s", err, out)
		}
		return err
	}
	for n := range trialEnds {
		if run() == nil {
			t.Fatalf("start %d does not load the file", n+1)
		}
	}
	if err := run(); err != nil {
		t.Fatalf("after %d starts: %v", trialEnds, err)
	}

	again := newRig(t, state) // this one could load it
	again.scan(ctx)
	expect(t, again, "m ready load_failed, z ready*")
	if got := again.reg.list()[0].SHA256; got != good {
		t.Errorf("m serves %s, want what served before, %s", got, good)
	}
	doc, ok := readMarker(t, filepath.Join(again.drop, "m.vqf.failed"))
	if !ok || doc.Code != "load_failed" || doc.SHA256 != digest || !strings.Contains(doc.Message, "ended 3 times") {
		t.Errorf("marker %+v, %v", doc, ok)
	}
	var record quarantined
	data, err := os.ReadFile(again.quarantinePath(digest))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &record); err != nil || record.Ends != trialEnds || record.Entry != "m.vqf" || record.Code != "load_failed" {
		t.Errorf("quarantine: %+v, %v", record, err)
	}

	// The same bytes under another name, and copied once more under their own.
	again.put(t, "n.vqf", deadly)
	again.put(t, "m.vqf", deadly)
	again.scan(ctx)
	expect(t, again, "m ready load_failed, n failed load_failed, z ready*")
	doc, _ = readMarker(t, filepath.Join(again.drop, "n.vqf.failed"))
	if !strings.Contains(doc.Message, "as m.vqf") || !strings.Contains(doc.Message, "n.vqf.failed") {
		t.Errorf("message %q", doc.Message)
	}
	// Somebody has put memory in.
	if err := os.Remove(filepath.Join(again.drop, "n.vqf.failed")); err != nil {
		t.Fatal(err)
	}
	again.scan(ctx)
	expect(t, again, "m ready load_failed, n ready*, z ready")
	if exists(again.quarantinePath(digest)) {
		t.Error("the record of a file that works stays")
	}
}

// What a bad file is known by: its digest in the marker, and a record in the
// quarantine, of which there is a bounded number. A file that only came at a bad time
// has none.
func TestQuarantine(t *testing.T) {
	r := newRig(t, t.TempDir())
	ctx := context.Background()
	bad := tinyModel(t, nil)
	bad[len(bad)/2] ^= 1
	sum := sha256.Sum256(bad)
	digest := hex.EncodeToString(sum[:])
	r.put(t, "m.vqf", bad)
	r.scan(ctx)
	expect(t, r, "m failed digest_mismatch")
	doc, _ := readMarker(t, filepath.Join(r.drop, "m.vqf.failed"))
	if doc.SHA256 != digest {
		t.Errorf("the marker says digest %q, want %q", doc.SHA256, digest)
	}
	if !exists(r.quarantinePath(digest)) {
		t.Fatal("no record of a damaged file")
	}
	if fi, err := os.Stat(r.quarantine); err != nil || fi.Mode().Perm() != 0o700 {
		t.Errorf("quarantine: %v, %v", fi.Mode(), err)
	}
	r.put(t, "short.vqf", bad[:1000])
	r.put(t, "x.gguf", bad)
	r.scan(ctx)
	if entries, err := os.ReadDir(r.quarantine); err != nil || len(entries) != 1 {
		t.Errorf("%d records, %v", len(entries), err)
	}
	for n := range 2 * quarantineSize {
		write(t, filepath.Join(r.quarantine, "sha256-"+strings.Repeat(string(rune('a'+n%26)), 10+n)+".json"), "{}")
	}
	ahead := func() { // the clock was, and is no more
		entries, err := os.ReadDir(r.quarantine)
		if err != nil {
			t.Fatal(err)
		}
		for i, e := range entries {
			at := time.Now().Add(20*365*24*time.Hour + time.Duration(i)*time.Second)
			if err := os.Chtimes(filepath.Join(r.quarantine, e.Name()), time.Time{}, at); err != nil {
				t.Fatal(err)
			}
		}
	}
	ahead()
	var sums []string
	for n := range byte(3) {
		bad[len(bad)/2] ^= 3 + 4*n
		r.put(t, "m.vqf", bad)
		r.scan(ctx)
		sum := sha256.Sum256(bad)
		sums = append(sums, hex.EncodeToString(sum[:]))
	}
	entries, err := os.ReadDir(r.quarantine)
	there := func(sum string) bool { return exists(r.quarantinePath(sum)) }
	if err != nil || len(entries) != quarantineSize || !there(sums[0]) || !there(sums[1]) || !there(sums[2]) {
		t.Errorf("%d records, %v; want %d with the last ones", len(entries), err, quarantineSize)
	}
}
