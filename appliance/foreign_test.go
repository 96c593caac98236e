// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// Root has leases on everything and may read everything, so what happens with files
// of other users is tested by this test binary running as nobody.
const (
	foreignEnv = "WINDHOVER_TEST_FOREIGN" // phase of the inner run
	foreignDir = "WINDHOVER_TEST_STATE"
	nobody     = 65534
)

func TestForeignOwner(t *testing.T) {
	if phase := os.Getenv(foreignEnv); phase != "" {
		foreignPhases[phase](t, os.Getenv(foreignDir))
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can make files of another user")
	}
	state := t.TempDir()
	if err := os.Chmod(filepath.Dir(state), 0o755); err != nil { // nobody has to come by
		t.Fatal(err)
	}
	drop := filepath.Join(state, "drop")
	whole := tinyModel(t, nil)
	put := func(name string, mode os.FileMode, mtime time.Time) {
		t.Helper()
		path := filepath.Join(drop, name)
		writeBytes(t, path, whole)
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, time.Time{}, mtime); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Now()
	put("old.vqf", 0o644, now.Add(-time.Hour)) // as cp -p and rsync -t leave it
	put("future.vqf", 0o644, now.Add(24*time.Hour))
	put("touched.vqf", 0o666, now)
	put("secret.vqf", 0o600, now)
	put("closed/model.vqf", 0o644, now)
	put("side/model.vqf", 0o644, now)
	put("side/tokenizer.json", 0o600, now)
	if err := os.Chmod(filepath.Join(drop, "closed"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{state, drop} {
		if err := os.Chown(dir, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	run := func(phase string) {
		t.Helper()
		if out, err := asNobody(t, phase, state).CombinedOutput(); err != nil {
			t.Errorf("as nobody, %s: %v\n%s", phase, err, out)
		}
	}
	run("first")
	for _, path := range []string{"secret.vqf", "side/tokenizer.json"} {
		if err := os.Chmod(filepath.Join(drop, path), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(drop, "closed"), 0o755); err != nil {
		t.Fatal(err)
	}
	run("after chmod")
}

// asNobody is this test binary, told to run the test that calls it as nobody, on a
// state directory that is made his.
func asNobody(t *testing.T, phase, state string) *exec.Cmd {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{filepath.Dir(dir), dir, filepath.Dir(state)} { // nobody has to come by
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	bin := filepath.Join(dir, "test")
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(bin, self, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(state, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin, "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), foreignEnv+"="+phase, foreignDir+"="+state)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	return cmd
}

var foreignPhases = map[string]func(t *testing.T, state string){
	"first": func(t *testing.T, state string) {
		r := newRig(t, state)
		ctx := context.Background()
		const bad = "secret failed forbidden, side failed forbidden"
		if next := r.scan(ctx); next != settle {
			t.Errorf("the next look is in %v, want %v", next, settle)
		}
		expect(t, r, "future waiting, old waiting, "+bad+", touched waiting")
		r.clock = r.clock.Add(settle - time.Millisecond)
		r.scan(ctx)
		expect(t, r, "future waiting, old waiting, "+bad+", touched waiting")
		// Somebody writes to one of them: its time begins anew.
		if err := os.Chtimes(filepath.Join(r.drop, "touched.vqf"), time.Time{}, time.Time{}); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(filepath.Join(r.drop, "touched.vqf"), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		head := make([]byte, 1)
		if _, err := f.ReadAt(head, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt(head, 0); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		r.clock = r.clock.Add(time.Millisecond)
		r.scan(ctx)
		expect(t, r, "future ready, old ready*, "+bad+", touched waiting")
		r.clock = r.clock.Add(settle)
		r.scan(ctx)
		expect(t, r, "future ready, old ready, "+bad+", touched ready*")
		fi, err := os.Stat(r.store.weights(r.book.Models["old"].Key))
		if err != nil || shared(fi) {
			t.Errorf("the file of another user is linked, not copied (%v)", err)
		}
		for _, marker := range []string{"secret.vqf.failed", "side.failed", "closed.failed", "old.vqf.ready"} {
			if _, ok := readMarker(t, filepath.Join(r.drop, marker)); !ok {
				t.Errorf("no %s", marker)
			}
		}
		// A file of our own that we may not read, until its mode changes.
		own := filepath.Join(r.drop, "own.vqf")
		writeBytes(t, own, tinyModel(t, nil))
		if err := os.Chmod(own, 0); err != nil {
			t.Fatal(err)
		}
		r.scan(ctx)
		if got := r.reg.list()[2]; got.Name != "own" || got.Error == nil || got.Error.Code.Name != "forbidden" {
			t.Errorf("a file of mode 0: %+v", got)
		}
		if err := os.Chmod(own, 0o600); err != nil {
			t.Fatal(err)
		}
		r.scan(ctx)
		expect(t, r, "future ready, old ready, own ready*, "+bad+", touched ready")
	},
	"after chmod": func(t *testing.T, state string) {
		r := newRig(t, state)
		ctx := context.Background()
		r.scan(ctx)
		r.clock = r.clock.Add(settle)
		r.scan(ctx)
		for _, m := range r.reg.list() {
			if m.State != stateReady {
				t.Errorf("%s: %s %v", m.Name, m.State, m.Error)
			}
		}
		if n := len(r.reg.list()); n != 7 {
			t.Errorf("%d models", n)
		}
	},
}
