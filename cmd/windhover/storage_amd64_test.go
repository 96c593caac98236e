// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"windhover/control"
	"windhover/internal/testcut"
)

// failing is a way in which storage takes nothing any more.
type failing struct {
	name  string
	begin func(dir string) error
	end   func(dir string) error
	says  string // in what somebody is told
	code  control.Code
}

// failings are they: no bytes, no inodes, and what a kernel makes of a bad medium.
var failings = []failing{
	{"full", func(dir string) error {
		f, err := os.Create(filepath.Join(dir, "fill"))
		for size := int64(1 << 30); err == nil && size > 64<<10; size /= 2 { // without writing as much
			at, serr := f.Seek(0, io.SeekEnd)
			if err = serr; err == nil && unix.Fallocate(int(f.Fd()), 0, at, size) == nil {
				_, err = f.Seek(at+size, io.SeekStart)
			}
		}
		for chunk := 64 << 10; err == nil && chunk > 0; chunk /= 16 {
			for werr := error(nil); werr == nil; {
				_, werr = f.Write(make([]byte, chunk))
			}
		}
		return errors.Join(err, f.Close())
	}, func(dir string) error { return os.Remove(filepath.Join(dir, "fill")) }, "remove a model", control.InsufficientStore},
	{"no inodes", func(dir string) error {
		err := os.Mkdir(filepath.Join(dir, "many"), 0o755)
		for i := 0; err == nil; i++ {
			err = os.WriteFile(filepath.Join(dir, "many", fmt.Sprint(i)), nil, 0o644)
		}
		if !errors.Is(err, syscall.ENOSPC) {
			return err
		}
		return nil
	}, func(dir string) error { return os.RemoveAll(filepath.Join(dir, "many")) }, "remove a model", control.InsufficientStore},
	{"read-only", func(dir string) error { return unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, "") },
		func(dir string) error { return unix.Mount("", dir, "", unix.MS_REMOUNT, "") }, "read-only file system", control.Internal},
}

// upload sends a model by the local socket.
func (b *cutBox) upload(name string, data []byte) (int, string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", b.socket)
	}}}
	r, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://box/v1/drop/"+name, bytes.NewReader(data))
	if err != nil {
		b.t.Fatal(err)
	}
	resp, err := client.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }() // it is read to its end
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// Where the storage of a box takes nothing any more what serves serves. Who uploads a
// model, gives a command or publishes a version is told what is wrong and what to do, and
// as soon as there is room all of it is done, without a restart and with nothing half
// done left.
func TestStorageFails_P238(t *testing.T) {
	s := newStage(t)
	source, err := os.ReadFile("../../vqf/gguf/testdata/llama-tiny-Q4_K_M.gguf")
	if err != nil {
		t.Fatal(err)
	}
	one, two := []string{s.one.SHA256.String()}, []string{s.two.SHA256.String()}
	for _, f := range failings {
		t.Run(f.name, func(t *testing.T) {
			b := newCutBox(t, s.publisher, "")
			if err := os.Mkdir(b.state, 0o750); err != nil {
				t.Fatal(err)
			}
			if err := unix.Mount("tmpfs", b.state, "tmpfs", 0, "size=640m,nr_inodes=4000"); err != nil {
				t.Skip("a small disk cannot be mounted:", err)
			}
			t.Cleanup(func() {
				if err := unix.Unmount(b.state, unix.MNT_DETACH); err != nil {
					t.Error(err)
				}
			})
			if out, err := exec.Command("cp", "-a", s.has1+"/.", b.state).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			// A file that is open for writing keeps the file system so: the record goes elsewhere.
			if f.code == control.Internal {
				if err := errors.Join(os.CopyFS(filepath.Join(b.dir, "audit"), os.DirFS(filepath.Join(b.state, "audit"))),
					os.RemoveAll(filepath.Join(b.state, "audit")), os.Symlink(filepath.Join(b.dir, "audit"), filepath.Join(b.state, "audit"))); err != nil {
					t.Fatal(err)
				}
			}
			put(t, filepath.Join(b.state, "import", "llama.gguf"), source)
			p := b.start(testcut.Cut{})
			if !b.online(p) {
				t.Fatal("the box ends by itself")
			}
			s.answers(b, p, one)
			if err := f.begin(b.state); err != nil {
				t.Fatal(err)
			}
			s.answers(b, p, one)
			model := modelBytes(t, 8, nil)
			if code, said := b.upload("up.vqf", model); code < 500 || !strings.Contains(said, f.says) {
				t.Errorf("an upload is answered %d %s", code, said)
			}
			b.give("convert", "c1", `{"source":"llama.gguf"}`)
			if !b.until("the end of the job", p, func() bool { return jobEnded(b) }) {
				t.Fatal("the box ends by itself")
			}
			if r := b.jobs["c1"]; r.Status == control.JobSucceeded || !errors.Is(r.Error, f.code) {
				t.Errorf("the job ended as %s: %v", r.Status, r.Error)
			}
			b.ear.Publish(control.GroupDesired("all"), s.document(2, s.two, 0))
			if !b.until("the version is refused", p, func() bool {
				return b.reported.Rev == 2 && len(b.reported.Models) == 1 && b.reported.Models[0].Error != nil
			}) {
				t.Fatal("the box ends by itself")
			}
			if e := b.reported.Models[0].Error; !errors.Is(e, f.code) || !strings.Contains(e.Message, f.says) {
				t.Errorf("the version is refused by %v", e)
			}
			p.Signal(syscall.SIGHUP)
			s.answers(b, p, one)
			if err := f.end(b.state); err != nil {
				t.Fatal(err)
			}
			b.ear.Publish(control.GroupDesired("all"), s.document(3, s.two, 0))
			if !b.until("the version serves", p, func() bool { return nowCurrent(3)(b) }) {
				t.Fatal("the box ends by itself")
			}
			s.answers(b, p, two)
			b.give("convert", "c2", `{"source":"llama.gguf"}`)
			if !b.until("the end of the job", p, func() bool { return jobEnded(b) }) {
				t.Fatal("the box ends by itself")
			}
			if r := b.jobs["c2"]; r.Status != control.JobSucceeded {
				t.Errorf("the job ended as %s: %v", r.Status, r.Error)
			}
			if code, said := b.upload("up.vqf", model); code != http.StatusCreated {
				t.Errorf("an upload is answered %d %s", code, said)
			}
			if !b.until("what was uploaded serves", p, func() bool {
				_, err := os.Stat(filepath.Join(b.state, "drop", "up.vqf.ready"))
				return err == nil
			}) {
				t.Fatal("the box ends by itself")
			}
			b.stop(p)
			for _, name := range []string{"llama.vqf", "up.vqf"} { // whole counts the versions of m alone
				if err := os.Remove(filepath.Join(b.state, "drop", name)); err != nil {
					t.Error(err)
				}
			}
			p = b.start(testcut.Cut{})
			if !b.online(p) {
				t.Fatal("the box ends by itself")
			}
			s.answers(b, p, two)
			if !b.until("what was removed has left the store", p, func() bool {
				list, err := filepath.Glob(filepath.Join(b.state, "store", "*"))
				return err == nil && len(list) <= 2
			}) {
				t.Fatal("the box ends by itself")
			}
			b.stop(p)
			if bad := b.whole(); bad != "" {
				t.Error(bad)
			}
		})
	}
}
