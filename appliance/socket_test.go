// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func closeListener(t *testing.T, l net.Listener) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// A path that does not fit into the kernel's address works as any other.
func TestSocketPaths(t *testing.T) {
	for _, length := range []int{0, 107, 108, 250} {
		dir := t.TempDir()
		pad := length - len(dir) - len("//s.sock")
		if pad > 0 {
			dir = filepath.Join(dir, strings.Repeat("d", pad))
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "s.sock")
		l, err := listenSocket(path)
		if err != nil {
			t.Fatalf("%d bytes: %v", len(path), err)
		}
		if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != 0o660 {
			t.Errorf("%d bytes: mode %v, %v", len(path), fi.Mode(), err)
		}
		c, err := dialSocket(context.Background(), path)
		if err != nil {
			t.Errorf("%d bytes: dial: %v", len(path), err)
		} else if err := c.Close(); err != nil {
			t.Error(err)
		}
		closeListener(t, l)
		if exists(path) {
			t.Errorf("%d bytes: the socket stays after it was closed", len(path))
		}
	}
	if _, err := listenSocket(filepath.Join(t.TempDir(), strings.Repeat("s", 200))); err == nil || !strings.Contains(err.Error(), "paths.socket") {
		t.Errorf("a name that fits nowhere: got %v", err)
	}
}

func TestSocketInUse(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "s.sock")
	// One of a process that died.
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	closeListener(t, dead)
	l, err := listenSocket(path)
	if err != nil {
		t.Fatalf("over a stale socket: %v", err)
	}
	if _, err := listenSocket(path); err == nil || !strings.Contains(err.Error(), "another windhover") {
		t.Errorf("while somebody serves there: got %v", err)
	}
	closeListener(t, l)
	write(t, path, "notes")
	if _, err := listenSocket(path); err == nil || !strings.Contains(err.Error(), "no socket") || !exists(path) {
		t.Errorf("over a file: got %v", err)
	}
	if _, err := listenSocket(filepath.Join(dir, "none", "s.sock")); err == nil {
		t.Error("in a directory that is not there: no error")
	}
}

// One daemon a state directory, whatever socket the other one has.
func TestStateIsLocked(t *testing.T) {
	dir := t.TempDir()
	lock, err := lockState(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lockState(dir); err == nil || !strings.Contains(err.Error(), "another windhover") {
		t.Errorf("a second time: got %v", err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := lockState(dir)
	if err != nil {
		t.Fatalf("after the first one is gone: %v", err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}
