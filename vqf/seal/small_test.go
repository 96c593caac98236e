// SPDX-License-Identifier: Apache-2.0

//go:build unix

package seal_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"windhover/vqf/seal"
)

func fifo(t *testing.T, dir, name string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// descriptor is the path by which a shell gives an open pipe away.
func descriptor(f *os.File) string {
	return fmt.Sprintf("/dev/fd/%d", f.Fd())
}

// What lies where a service looks for keys is read only if it is a regular file;
// nothing is waited for, and no terminal or device is read.
func TestStoredFilesAreRegular(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "works.sm2.pub", vectorPublic+"\n")
	pipe := fifo(t, dir, "a.sm2.pub")
	zero := filepath.Join(dir, "z.minisign.pub")
	if err := os.Symlink("/dev/zero", zero); err != nil {
		t.Fatal(err)
	}
	trust, err := seal.LoadTrust(dir)
	if !errors.Is(err, seal.ErrKey) || !strings.Contains(err.Error(), pipe) || !strings.Contains(err.Error(), zero) {
		t.Errorf("trust: %v", err)
	}
	if trust == nil || len(trust.SM2) != 1 || trust.SM2[0].Name != "works" {
		t.Errorf("trust: %+v", trust)
	}
	for _, path := range []string{pipe, zero, "/dev/null", dir} {
		if _, err := seal.ReadStoredKeyFile(path); !errors.Is(err, seal.ErrKey) || !strings.Contains(err.Error(), "no regular file") {
			t.Errorf("passphrase in %s: %v", path, err)
		}
		if _, err := seal.ReadMinisignSignature(path); err == nil {
			t.Errorf("signature in %s: no error", path)
		}
	}
	path := write(t, "pass", "correct horse\n")
	stored, err := seal.ReadStoredKeyFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if given, err := seal.ReadKeyFile(path); err != nil || *given != *stored {
		t.Errorf("two keys of one file: %v", err)
	}
}

// A pipe that somebody gives is read to its end, as a shell's <(…), but neither for
// ever nor without end.
func TestKeyFromPipe(t *testing.T) {
	want, err := seal.KeyFromPassphrase([]byte("correct horse"))
	if err != nil {
		t.Fatal(err)
	}
	path := fifo(t, t.TempDir(), "pipe")
	if _, err := seal.ReadKeyFile(path); !errors.Is(err, seal.ErrPassphrase) { // nobody writes
		t.Errorf("a pipe without a writer: %v", err)
	}
	// both gives a writer, and a reader that keeps what is written before the key
	// is read.
	both := func() (keep, w *os.File) {
		t.Helper()
		keep, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		if w, err = os.OpenFile(path, os.O_WRONLY, 0); err != nil {
			t.Fatal(err)
		}
		return keep, w
	}
	keep, w := both()
	done := make(chan error, 1)
	go func() {
		_, err := w.WriteString("correct ")
		if err == nil {
			_, err = w.WriteString("horse\n")
		}
		done <- errors.Join(err, w.Close())
	}()
	if k, err := seal.ReadKeyFile(path); err != nil || *k != *want {
		t.Errorf("a pipe: %v", err)
	}
	if err := errors.Join(<-done, keep.Close()); err != nil {
		t.Error(err)
	}
	keep, w = both()
	go func() {
		_, err := w.WriteString(strings.Repeat("x", 1<<20))
		done <- errors.Join(err, w.Close())
	}()
	if _, err := seal.ReadKeyFile(path); !errors.Is(err, seal.ErrKey) || !strings.Contains(err.Error(), "64 KiB") {
		t.Errorf("a pipe without end: %v", err)
	}
	if err := keep.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; !errors.Is(err, syscall.EPIPE) {
		t.Errorf("the writer of too much: %v", err)
	}
	// As the shell does it: a path to an open descriptor.
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := w.WriteString("correct horse\n"); err != nil {
		t.Fatal(err)
	}
	silent, wSilent, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	defer wSilent.Close()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if k, err := seal.ReadKeyFile(descriptor(r)); err != nil || *k != *want {
		t.Errorf("a descriptor: %v", err)
	}
	if _, err := seal.ReadKeyWithin(descriptor(silent), 10*time.Millisecond); !errors.Is(err, seal.ErrKey) || !strings.Contains(err.Error(), "did not end within 10ms") {
		t.Errorf("a silent writer: %v", err)
	}
}
