// SPDX-License-Identifier: Apache-2.0

package update_test

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"windhover/appliance/disk"
	"windhover/appliance/fetch"
	"windhover/appliance/rollout"
	"windhover/appliance/update"
	"windhover/control"
	"windhover/control/ota"
	"windhover/internal/testdisk"
)

// TestMain is also a box in a process of its own, for the tests that kill it.
func TestMain(m *testing.M) {
	if dir := os.Getenv("WINDHOVER_TEST_BOX"); dir != "" {
		if err := runChild(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// childEnd is what a box says when it has nothing left to do.
type childEnd struct {
	Serving string
	Status  string
}

// runChild is a box on a real disk. It is killed at a change of the disk, if the
// environment says which, and ends when its document is done with, or, without one,
// when nothing is under way.
func runChild(dir string) error {
	at, _ := strconv.Atoi(os.Getenv("WINDHOVER_TEST_AT")) // "": never
	kind, _ := strconv.Atoi(os.Getenv("WINDHOVER_TEST_KIND"))
	faults := &testdisk.Faults{FS: below{disk.OS{}, dir}, At: at, Kind: testdisk.Fault(kind), End: func() {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // which nothing survives
		select {}
	}}
	d := &device{fs: faults, serving: map[string]ota.Digest{}, releases: map[ota.Digest]*release{}}
	role, err := ota.NewRole(1, ota.Key{Name: "k", Public: key.Public().(ed25519.PublicKey)})
	if err != nil {
		return err
	}
	reports := make(chan control.Reported, 1024)
	u, err := update.Open(update.Config{
		Judge: func() ota.Judge {
			return ota.Judge{Device: ota.Device{Name: "box", Groups: []string{"all"}}, Keys: ota.Keyring{Desired: role, Index: role}}
		},
		Clock: update.SystemClock, Store: rollout.Store{Disk: faults, Path: state + "/active.json"},
		Fetch:  &fetch.Fetcher{Disk: faults, Dir: incoming, Client: fetch.NewClient(nil), Reserve: 1, Checkpoint: 2 * block},
		Device: d, Report: func(r control.Reported) { reports <- r },
		Retry: func(int) time.Duration { return 10 * time.Millisecond },
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	go u.Run(ctx)
	document, err := os.ReadFile(filepath.Join(dir, "document"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	end := childEnd{}
	if document != nil {
		u.Desired(group, document)
		for !(end.Status == control.DesiredCurrent || end.Status == control.DesiredFailed) {
			select {
			case r := <-reports:
				if r.Rev > 0 {
					end.Status = r.Status
				}
			case <-ctx.Done():
				return errors.New("the document is never done with")
			}
		}
	}
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for {
		s := u.State().Models[name]
		d.mu.Lock()
		serving := d.serving[name]
		d.mu.Unlock()
		if s != nil && s.Update == nil && s.Current != nil && s.Current.SHA256 == serving {
			end.Serving = serving.String()
			break
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return fmt.Errorf("something is always under way: %+v", s)
		}
	}
	return json.NewEncoder(os.Stdout).Encode(end)
}

// below is the disk of this machine below a directory.
type below struct {
	disk.OS
	dir string
}

func (b below) at(path string) string { return filepath.Join(b.dir, path) }

func (b below) Create(path string, mode fs.FileMode) (disk.File, error) {
	return b.OS.Create(b.at(path), mode)
}
func (b below) Open(path string, write bool) (disk.File, error) { return b.OS.Open(b.at(path), write) }
func (b below) Rename(from, to string) error                    { return b.OS.Rename(b.at(from), b.at(to)) }
func (b below) RenameNew(from, to string) error                 { return b.OS.RenameNew(b.at(from), b.at(to)) }
func (b below) Remove(path string) error                        { return b.OS.Remove(b.at(path)) }
func (b below) List(dir string) ([]string, error)               { return b.OS.List(b.at(dir)) }
func (b below) SyncDir(dir string) error                        { return b.OS.SyncDir(b.at(dir)) }
func (b below) Space(dir string) (free, total int64, err error) { return b.OS.Space(b.at(dir)) }

// child runs a box and returns how it ended; nil: it was killed.
func child(t *testing.T, dir string, at int, kind testdisk.Fault) *childEnd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), "WINDHOVER_TEST_BOX="+dir, "WINDHOVER_TEST_AT="+strconv.Itoa(at), "WINDHOVER_TEST_KIND="+strconv.Itoa(int(kind)))
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() && ws.Signal() == syscall.SIGKILL {
			return nil
		}
	}
	if err != nil {
		t.Fatalf("the box ends by itself: %v: %s", err, errs.String())
	}
	end := new(childEnd)
	if err := json.Unmarshal([]byte(out.String()), end); err != nil {
		t.Fatalf("%v: %q", err, out.String())
	}
	return end
}

// A box that is killed before, in or after any change of its disk serves, at the next
// start, the old version or the new one, whole; with its document it comes to the new
// one, and nothing is left of the way there.
func TestKilledAnywhere(t *testing.T) {
	one, two := newRelease(t, 1), newRelease(t, 2)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, x := range []*release{one, two} {
			switch r.URL.Path {
			case "/" + x.Version:
				http.ServeContent(w, r, "", time.Time{}, strings.NewReader(string(x.content)))
				return
			case "/" + x.Version + ".index":
				_, _ = w.Write(x.index) // a box that is killed does not listen
				return
			}
		}
		http.NotFound(w, r)
	}))
	defer web.Close()
	for _, x := range []*release{one, two} {
		x.URLs, x.Index.URL = []string{web.URL + "/" + x.Version}, web.URL+"/"+x.Version+".index"
	}
	quick := func(d *ota.Desired) { d.Health.ObserveS = 0 }
	before := t.TempDir()
	for _, d := range []string{"state/state", "state/incoming", "state/store"} {
		if err := os.MkdirAll(filepath.Join(before, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	put(t, filepath.Join(before, "document"), document(1, one, quick))
	if end := child(t, before, 0, 0); end == nil || end.Serving != one.SHA256.String() {
		t.Fatalf("the first version is not installed: %+v", end)
	}
	put(t, filepath.Join(before, "document"), document(2, two, quick))
	step := 1
	if testing.Short() {
		step = 7
	}
	for _, kind := range []testdisk.Fault{testdisk.Before, testdisk.Torn, testdisk.After} {
		killed := 0
		for at := 1; ; at += step {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(before)); err != nil {
				t.Fatal(err)
			}
			if child(t, dir, at, kind) != nil {
				break // it has fewer changes
			}
			killed++
			doc := filepath.Join(dir, "document")
			if err := os.Rename(doc, doc+".later"); err != nil {
				t.Fatal(err)
			}
			if end := child(t, dir, 0, 0); end.Serving != one.SHA256.String() && end.Serving != two.SHA256.String() {
				t.Fatalf("killed %s change %d: without a broker %s serves", kind, at, end.Serving)
			}
			if err := os.Rename(doc+".later", doc); err != nil {
				t.Fatal(err)
			}
			if end := child(t, dir, 0, 0); end.Serving != two.SHA256.String() || end.Status != control.DesiredCurrent {
				t.Fatalf("killed %s change %d: in the end %+v", kind, at, end)
			}
			left, err := filepath.Glob(filepath.Join(dir, "state/incoming/*"))
			if err != nil || len(left) > 0 {
				t.Fatalf("killed %s change %d: left of the download: %v, %v", kind, at, left, err)
			}
		}
		if killed < 20/step {
			t.Errorf("killed %s a change %d times only", kind, killed)
		}
	}
}

func put(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
