// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"windhover/internal/testmodel"
)

// updates put the file $1 in the place of $2, which serves. inPlace ones write to the
// very file that serves, which root may.
var updates = []struct {
	name, needs string
	inPlace     bool
	script      string
}{
	{"mv", "mv", false, `cp "$1" "$3/x" && mv "$3/x" "$2"`},
	{"cp", "cp", true, `cp "$1" "$2"`},
	{"cp -p", "cp", true, `cp -p "$1" "$2"`},
	{"cp -f --remove-destination", "cp", false, `cp --remove-destination "$1" "$2"`},
	{"cp of the same size and time", "cp", true, `touch -r "$7" "$1" && cp -p "$1" "$2"`},
	{"ln -f", "ln", false, `cp "$1" "$3/y" && ln -f "$3/y" "$2"`},
	{"install", "install", false, `install -m 644 "$1" "$2"`},
	{"dd conv=notrunc", "dd", true, `dd if="$1" of="$2" bs=4k conv=notrunc 2>/dev/null`},
	{"dd", "dd", true, `dd if="$1" of="$2" bs=4k 2>/dev/null`},
	{"cat", "cat", true, `cat "$1" >"$2"`},
	{"rsync", "rsync", false, `rsync -tI "$1" "$2"`},
	{"rsync --inplace", "rsync", true, `rsync -tI --inplace "$1" "$2"`},
	{"rsync --inplace --no-whole-file", "rsync", true, `rsync -tI --inplace --no-whole-file "$1" "$2"`},
	{"scp", "sshd", true, `scp -q -F "$6" "$1" box:"$2"`},
	{"rsync over ssh", "sshd", false, `rsync -tI -e "ssh -F $6" "$1" box:"$2"`},
	{"curl -o", "curl", true, `curl -sS -o "$2" "$5"`},
	{"wget -O", "wget", true, `wget -q -O "$2" "$5"`},
}

// However an update comes, requests go on meanwhile, and every answer is wholly that
// of the old version or that of the new one.
func TestUpdateByTool(t *testing.T) {
	b := startBox(t, nil)
	b.connected(t)
	var versions [2][]byte
	var sources [2]string
	for i := range versions {
		versions[i] = tinyModel(t, func(c *testmodel.Config) { c.Seed = uint64(30 + i) })
		sources[i] = filepath.Join(t.TempDir(), "m.vqf")
		writeBytes(t, sources[i], versions[i])
		if err := os.Chtimes(sources[i], time.Time{}, time.Now().Add(time.Duration(i-2)*time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	var coming atomic.Int32 // the version that the web server has
	web := webServer(t, func() []byte { return versions[coming.Load()] })
	ssh := sshServer(t)
	place, same, other := filepath.Join(b.cfg.Paths.drop(), "m.vqf"), b.cfg.Paths.imports(), "/dev/shm"
	c := b.client(t, "you")
	ctx, cancel := context.WithTimeout(context.Background(), 4*waitFor)
	defer cancel()
	var digests, texts [2]string
	for i, v := range versions {
		b.drop(t, "m.vqf", v)
		until(t, "the version serves", func() bool {
			a, err := c.Send(ctx, request("hello", 16), nil)
			if err != nil || i > 0 && a.Done.Model.SHA256 == digests[0] {
				return false
			}
			digests[i], texts[i] = a.Done.Model.SHA256, a.Text
			return true
		})
	}
	stop := make(chan struct{})
	asking := make(chan struct{})
	go func() {
		defer close(asking)
		for {
			select {
			case <-stop:
				return
			default:
			}
			a, err := c.Send(ctx, request("hello", 16), nil)
			switch {
			case err != nil:
				t.Errorf("a request failed: %v", err)
				return
			case a.Done.Model.SHA256 == digests[0] && a.Text == texts[0], a.Done.Model.SHA256 == digests[1] && a.Text == texts[1]:
			default:
				t.Errorf("%s answers %q", a.Done.Model.SHA256, a.Text)
				return
			}
		}
	}()
	now := 1
	for _, tt := range updates {
		t.Run(tt.name, func(t *testing.T) {
			need(t, tt.needs)
			if tt.inPlace && os.Geteuid() != 0 {
				t.Skip("a file that serves is read-only to its owner")
			}
			before := filepath.Join(t.TempDir(), "before")
			write(t, before, "")
			if fi, err := os.Stat(place); err != nil {
				t.Fatal(err)
			} else if err := os.Chtimes(before, time.Time{}, fi.ModTime()); err != nil {
				t.Fatal(err)
			}
			next := 1 - now
			coming.Store(int32(next))
			out, err := exec.Command("sh", "-c", tt.script, "sh", sources[next], place, same, other, web, ssh, before).CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			until(t, "the update serves", func() bool { return modelDigest(t, b, "m") == digests[next] || t.Failed() })
			until(t, "the marker", func() bool {
				doc, ok := readMarker(t, place+".ready")
				return ok && doc.SHA256 == digests[next] && !exists(place+".failed")
			})
			now = next
		})
	}
	close(stop)
	<-asking
}

// stranger is a user who is neither the daemon's nor root.
const stranger = 65533

// The daemon is an ordinary user, and people of other users copy into its directory
// with the tools that they have: no lease can be had on what is theirs, it is copied,
// and served.
func TestForeignTools(t *testing.T) {
	if state := os.Getenv(foreignDir); state != "" {
		startBox(t, func(c *Config) { c.Paths.State = state })
		_, _ = io.Copy(io.Discard, os.Stdin) // until the outer test ends
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can act as others")
	}
	state, scratch := t.TempDir(), t.TempDir()
	p := Paths{State: state}
	if err := makeState(p); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{p.drop(), p.imports(), p.incoming(), p.store(), p.state(), p.quarantine(), p.broker()} {
		if err := os.Chown(dir, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	for dir, mode := range map[string]os.FileMode{filepath.Dir(state): 0o755, state: 0o755, p.drop(): 0o777 | os.ModeSetgid, filepath.Dir(scratch): 0o755, scratch: 0o777} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
	}
	cfg := DefaultConfig()
	cfg.Device, cfg.Paths.State = "box", state
	if err := cfg.finish(); err != nil {
		t.Fatal(err)
	}
	daemon := asNobody(t, "serve", state)
	in, err := daemon.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	daemon.Stdout, daemon.Stderr = &said, &said
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close() // it ends by that
		if err := daemon.Wait(); err != nil {
			t.Errorf("the daemon: %v\n%s", err, said.String())
		}
	})
	until(t, "the daemon answers", func() bool { _, err := LocalStatus(t.Context(), cfg); return err == nil })
	b := &box{cfg: cfg}
	whole := tinyModel(t, nil)
	src := filepath.Join(scratch, "m.vqf")
	writeBytes(t, src, whole)
	web, ssh := webServer(t, func() []byte { return whole }), sshServer(t)
	var came []string
	for _, tt := range arrivals {
		if strings.Contains(tt.name, "writ") || tt.name == "tar" {
			continue // they look for the marker; into a directory of somebody else's
		}
		t.Run(tt.name, func(t *testing.T) {
			need(t, tt.needs)
			name := strings.NewReplacer(" ", "-", "--", "").Replace(tt.name)
			mine := filepath.Join(scratch, name)
			if err := os.Mkdir(mine, 0o777); err != nil {
				t.Fatal(err)
			}
			if err := os.Chown(mine, stranger, stranger); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("sh", "-c", tt.script, "sh", src, filepath.Join(p.drop(), name+".vqf"), mine, "/dev/shm", web, ssh)
			if tt.needs != "sshd" { // that one comes as root, another foreign owner
				cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: stranger, Gid: stranger}}
			}
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			came = append(came, name)
		})
	}
	for _, name := range came {
		b.ready(t, name)
		fi, err := os.Stat(filepath.Join(p.drop(), name+".vqf"))
		if err != nil {
			t.Fatal(err)
		}
		if uid := fi.Sys().(*syscall.Stat_t).Uid; uid == nobody {
			t.Errorf("%s belongs to the daemon", name)
		}
	}
	// All are the same bytes: kept once, as a copy of the daemon's own.
	stored, err := filepath.Glob(filepath.Join(p.store(), "*", storedName))
	if err != nil || len(stored) != 1 {
		t.Fatalf("in the store: %v, %v", stored, err)
	}
	if fi, err := os.Stat(stored[0]); err != nil || fi.Sys().(*syscall.Stat_t).Uid != nobody || shared(fi) {
		t.Errorf("the stored file is not the daemon's own (%v)", err)
	}
}

// A directory that may not be read takes nothing out of service, over a restart
// neither, and what a .skip file holds back stays so.
func TestUnreadable_P136(t *testing.T) {
	state := os.Getenv(foreignDir)
	if state == "" {
		if os.Geteuid() != 0 { // then it may not read either
			state = t.TempDir()
		} else {
			if out, err := asNobody(t, "unreadable", t.TempDir()).CombinedOutput(); err != nil {
				t.Errorf("as nobody: %v\n%s", err, out)
			}
			return
		}
	}
	ctx := context.Background()
	r := newRig(t, state)
	chmod := func(path string, mode os.FileMode) {
		t.Helper()
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	r.put(t, "d/model.vqf", tinyModel(t, nil))
	r.put(t, "m.vqf", tinyModel(t, func(c *testmodel.Config) { c.Seed = 3 }))
	r.put(t, "held.vqf", tinyModel(t, func(c *testmodel.Config) { c.Seed = 2 }))
	r.scan(ctx)
	write(t, filepath.Join(r.drop, "held.vqf.skip"), "")
	r.scan(ctx)
	expect(t, r, "d ready, m ready*")
	for _, mode := range []os.FileMode{0, 0o300, 0o600} { // nothing; names are secret; nobody may come by
		chmod(r.drop, mode)
		r.scan(ctx)
		expect(t, r, "d ready, m ready*")
		again := newRig(t, state)
		again.scan(ctx)
		expect(t, again, "d ready, m ready*")
		chmod(r.drop, 0o700)
		again.scan(ctx)
		expect(t, again, "d ready, m ready*")
	}
	dir := filepath.Join(r.drop, "d")
	chmod(dir, 0)
	r.scan(ctx)
	expect(t, r, "d ready, m ready*")
	if doc, ok := readMarker(t, filepath.Join(r.drop, "d.failed")); !ok || !strings.Contains(doc.Message, "chmod") {
		t.Errorf("marker %+v, %v", doc, ok)
	}
	again := newRig(t, state)
	again.scan(ctx)
	expect(t, again, "d ready, m ready*")
	chmod(dir, 0o700)
	again.scan(ctx)
	expect(t, again, "d ready, m ready*")
	if exists(filepath.Join(r.drop, "d.failed")) {
		t.Error("the marker stays when the directory can be read")
	}
}
