// SPDX-License-Identifier: Apache-2.0

package fetch_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"windhover/appliance/disk"
	"windhover/appliance/fetch"
	"windhover/control"
	"windhover/internal/testdisk"
)

// With TLS, ranges and a disk as they are.
func TestOverHTTPS(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, "/m.vqf", http.StatusFound)
		case "/plain":
			http.Redirect(w, r, "http://127.0.0.1:1/m.vqf", http.StatusFound)
		case "/round":
			http.Redirect(w, r, "/round", http.StatusFound)
		case "/m.vqf":
			w.Header().Set("ETag", `"1"`)
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(file))
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	pool := x509.NewCertPool()
	pool.AddCert(server.Certificate())
	newReal := func(dir string) *fetch.Fetcher {
		return &fetch.Fetcher{Disk: disk.OS{}, Dir: dir, Client: fetch.NewClient(&tls.Config{RootCAs: pool}), Reserve: 1, Attempts: 1}
	}
	for path, want := range map[string]*control.Code{
		"/m.vqf": nil, "/away": nil, "/plain": &control.DownloadFailed, "/round": &control.DownloadFailed, "/none": &control.SourceGone,
	} {
		t.Run(path, func(t *testing.T) {
			dir := t.TempDir()
			a := artifact(t)
			a.URLs = []string{server.URL + path + "?token=secret"}
			res, err := newReal(dir).Fetch(t.Context(), a)
			if want != nil {
				wantCode(t, err, *want)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(res.Path); err != nil || !bytes.Equal(got, file) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
			// Damaged and read-only on the disk: one range of it is asked for again.
			if err := os.Chmod(res.Path, 0o600); err != nil {
				t.Fatal(err)
			}
			damaged := bytes.Clone(file)
			damaged[5*block]++
			if err := os.WriteFile(res.Path, damaged, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(res.Path, 0o440); err != nil {
				t.Fatal(err)
			}
			if res, err = newReal(dir).Fetch(t.Context(), a); err != nil || res.Network != block {
				t.Errorf("%d bytes again, %v", res.Network, err)
			}
			to := filepath.Join(dir, "model.vqf")
			if err := newReal(dir).Stage(a.Index.SHA256, to); err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(to); err != nil || !bytes.Equal(got, file) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
		})
	}
	// A certificate that nobody vouches for is none.
	f := newReal(t.TempDir())
	f.Client = fetch.NewClient(nil)
	a := artifact(t)
	a.URLs = []string{server.URL + "/m.vqf"}
	_, err := f.Fetch(t.Context(), a)
	wantCode(t, err, control.DownloadFailed)
}

const killedEnv = "WINDHOVER_TEST_FETCH_KILLED"

// order is what the child of TestKilled is to do.
type order struct {
	Dir, URL string
	At       int
	Kind     testdisk.Fault
}

// kill -9 at changes of a real disk, from the first to the last one: the file arrives
// and nothing is left.
func TestKilled(t *testing.T) {
	if text := os.Getenv(killedEnv); text != "" {
		var o order
		if err := json.Unmarshal([]byte(text), &o); err != nil {
			t.Fatal(err)
		}
		child(t, o)
		return
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(file))
	}))
	defer server.Close()
	run := func(o order) error {
		text, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestKilled$")
		cmd.Env = append(os.Environ(), killedEnv+"="+string(text))
		out, err := cmd.CombinedOutput()
		if err != nil && !strings.Contains(err.Error(), "killed") {
			t.Fatalf("the child: %v: %s", err, out)
		}
		return err
	}
	killed := 0
	for at := 1; at < 70; at += 3 {
		o := order{Dir: t.TempDir(), URL: server.URL + "/m.vqf", At: at, Kind: []testdisk.Fault{testdisk.Before, testdisk.Torn, testdisk.After}[at%3]}
		if run(o) != nil {
			killed++
		}
		o.At = 0
		if err := run(o); err != nil {
			t.Fatalf("at %d: %v", at, err)
		}
		if got, err := os.ReadFile(filepath.Join(o.Dir, "store")); err != nil || !bytes.Equal(got, file) {
			t.Errorf("killed at %d: %d bytes, %v", at, len(got), err)
		}
		if left, err := os.ReadDir(filepath.Join(o.Dir, "incoming")); err != nil || len(left) != 0 {
			t.Errorf("killed at %d: left %v, %v", at, left, err)
		}
	}
	if killed < 15 {
		t.Errorf("only %d children were killed", killed)
	}
}

func child(t *testing.T, o order) {
	in := filepath.Join(o.Dir, "incoming")
	if err := os.MkdirAll(in, 0o700); err != nil {
		t.Fatal(err)
	}
	f := &fetch.Fetcher{
		Disk:   &testdisk.Faults{FS: disk.OS{}, At: o.At, Kind: o.Kind, End: func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL); select {} }},
		Dir:    in,
		Client: fetch.NewClient(nil), Reserve: 1, Checkpoint: 3 * block,
	}
	a := artifact(t)
	a.URLs = []string{o.URL}
	to := filepath.Join(o.Dir, "store")
	if _, err := os.Stat(to); err != nil {
		if _, err := f.Fetch(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Stage(a.Index.SHA256, to); err != nil {
		t.Fatal(err)
	}
}
