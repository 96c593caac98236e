// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"windhover/control"
	"windhover/internal/testcut"
)

// A log whose reader is gone, that is on a full disk, or that nobody reads ends no
// daemon and holds up none of its work.
func TestLogThatNobodyTakes(t *testing.T) {
	s := newStage(t)
	stage, err := exec.LookPath(tracedCommand)
	if err != nil {
		t.Fatal(err)
	}
	for name, open := range map[string]func(t *testing.T) *os.File{
		"closed": func(t *testing.T) *os.File {
			r, w, err := os.Pipe()
			if err == nil {
				err = r.Close()
			}
			if err != nil {
				t.Fatal(err)
			}
			return w
		},
		"full disk": func(t *testing.T) *os.File {
			f, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			return f
		},
		"silent": func(t *testing.T) *os.File {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = r.Close() })
			fd := int(w.Fd()) // which makes it one that waits, as a shell's is
			if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, 4096); err != nil {
				t.Fatal(err)
			}
			if _, err := unix.Write(fd, make([]byte, 4096)); err != nil {
				t.Fatal(err)
			}
			return w
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newCutBox(t, s.publisher, s.has1)
			out := open(t)
			defer func() { _ = out.Close() }() // the daemon has its own
			p, err := testcut.Start(testcut.Cut{Dir: b.state}, stage, b.args(), os.Environ(), out)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { p.Signal(syscall.SIGKILL); <-p.Done() }()
			if !b.online(p) {
				ws, err := p.Wait()
				t.Fatalf("the box ends by itself: %v, signal %v, %v", ws.ExitStatus(), ws.Signal(), err)
			}
			for range 3 {
				p.Signal(syscall.SIGHUP) // each is told
				s.answers(b, p, []string{s.one.SHA256.String()})
			}
			b.give("verify", "j1", `{"model":"m"}`)
			if !b.until("the end of a job", p, func() bool { return jobEnded(b) }) {
				t.Fatal("the box ends by itself")
			}
			if r := b.jobs["j1"]; r.Status != control.JobSucceeded {
				t.Errorf("the job ended as %+v", r)
			}
			b.stop(p)
		})
	}
}
