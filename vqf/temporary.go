// SPDX-License-Identifier: Apache-2.0

package vqf

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// A file in the making has a temporary name beside its own, and whoever makes it
// holds a lock on it. So a temporary file without a lock was left by a process
// that was killed, and the next one that writes the same file takes it away.

var (
	// errHeld is a temporary file that a living process has locked.
	errHeld = errors.New("another process is writing it")
	// errNoLocks is a file system without locks: there nothing is taken away.
	errNoLocks = errors.New("no locks on this file system")
)

// temporaryLen is the length of the random part of a temporary name.
const temporaryLen = 8

// createTemporary makes and locks a new temporary file for path, and removes
// those of processes that are gone. perm is its mode, before umask.
func createTemporary(path string, perm os.FileMode) (f *os.File, name string, err error) {
	sweep(path)
	dir, base := filepath.Split(path)
	for try := 0; ; try++ {
		// Dot and .tmp: those who watch the directory leave both alone.
		name = filepath.Join(dir, "."+base+"."+rand.Text()[:temporaryLen]+".tmp")
		f, err = os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, perm)
		if err == nil {
			if err = hold(f, name); err == nil || errors.Is(err, errNoLocks) {
				return f, name, nil
			}
			_ = f.Close()
			if !errors.Is(err, errHeld) {
				_ = os.Remove(name)
			}
		}
		// Held: somebody who sweeps met the file before its lock was there.
		if again := errors.Is(err, os.ErrExist) || errors.Is(err, errHeld); !again || try == 100 {
			return nil, "", fmt.Errorf("vqf: create: %w", err)
		}
	}
}

// ReplaceFile writes a small file so that its name has the old content or the new,
// by way of a temporary file as a Writer has. A symbolic link to a file stays one.
// The mode is 0666 before umask.
func ReplaceFile(path string, content []byte) error {
	path = resolve(path)
	f, temporary, err := createTemporary(path, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync()); err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("vqf: write %s: %w", path, err), os.Remove(temporary), f.Close())
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("vqf: write %s: %w", path, err)
	}
	return syncDir(filepath.Dir(path))
}

// resolve is where a file is written that is to have the name path: what it leads
// to if it is a symbolic link to a regular file, else path itself.
func resolve(path string) string {
	if fi, err := os.Lstat(path); err != nil || fi.Mode()&os.ModeSymlink == 0 {
		return path
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return path // leads nowhere
	}
	if fi, err := os.Lstat(real); err != nil || !fi.Mode().IsRegular() {
		return path
	}
	return real
}

// openAtOnce opens a file for reading and waits for nobody: not for a writer at
// the other end of a pipe that somebody put where a file should be.
func openAtOnce(name string) (*os.File, error) {
	return os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}

// hold locks a file and makes sure that it still has its name.
func hold(f *os.File, name string) error {
	if err := lock(f); err != nil {
		return err
	}
	mine, err := f.Stat()
	if err != nil {
		return err
	}
	if now, err := os.Lstat(name); err != nil || !os.SameFile(mine, now) {
		return errHeld
	}
	return nil
}

// sweep removes the temporary files of path that nobody writes any more. What
// cannot be removed is left: it harms nobody.
func sweep(path string) {
	dir, base := filepath.Split(path)
	if dir == "" {
		dir = "."
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		middle, ok := strings.CutPrefix(e.Name(), "."+base+".")
		if middle, is := strings.CutSuffix(middle, ".tmp"); ok && is && e.Type().IsRegular() && isRandomText(middle) {
			removeUnheld(filepath.Join(dir, e.Name()))
		}
	}
}

// isRandomText says whether s is what createTemporary puts into a name.
func isRandomText(s string) bool {
	return len(s) == temporaryLen && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}

// removeUnheld removes a file unless somebody has it locked, and says whether it
// is gone.
func removeUnheld(name string) bool {
	f, err := openAtOnce(name)
	if err != nil {
		return errors.Is(err, os.ErrNotExist)
	}
	defer func() { _ = f.Close() }() // read-only, and the lock goes with it
	if hold(f, name) != nil {
		return false
	}
	return os.Remove(name) == nil
}
