// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// rolloutLock keeps two programs from working on one roll-out. The lock is a file of its
// own beside that of the roll-out, which is replaced at every step; it goes when the
// program does, however it ends, and the file that is left behind locks nobody out.
type rolloutLock struct{ f *os.File }

// lockRollout takes the lock of the roll-out that is kept in path. The error of one that
// is taken names the process that has it.
func lockRollout(path string) (*rolloutLock, error) {
	name := path + ".lock"
	for {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, fmt.Errorf("--state: %w", err)
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			err = lockError(f, path, err)
			return nil, errors.Join(err, f.Close())
		}
		if same, err := named(f, name); err != nil || !same {
			if err := errors.Join(err, f.Close()); err != nil {
				return nil, err
			}
			continue // whoever had it has removed it since it was opened
		}
		err = f.Truncate(0)
		if err == nil {
			_, err = fmt.Fprintf(f, "%d\n", os.Getpid())
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("--state: %w", err), f.Close())
		}
		return &rolloutLock{f}, nil
	}
}

// release removes the file while it still has the lock, so that nobody locks a file that
// is about to go.
func (l *rolloutLock) release() error {
	return errors.Join(os.Remove(l.f.Name()), l.f.Close())
}

// named says whether a name still leads to an open file.
func named(f *os.File, name string) (bool, error) {
	is, err := f.Stat()
	if err != nil {
		return false, err
	}
	there, err := os.Lstat(name)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(is, there), err
}

func lockError(f *os.File, path string, err error) error {
	if !errors.Is(err, unix.EWOULDBLOCK) {
		return fmt.Errorf("--state: %s cannot be locked: %w", f.Name(), err)
	}
	who := "another program"
	if data, err := io.ReadAll(io.LimitReader(f, 32)); err == nil && len(data) > 0 { // it may be about to write it
		who = "process " + strings.TrimSpace(string(data))
	}
	return fmt.Errorf("%s works on the roll-out that is kept in %s: end it first, which leaves the roll-out as it is, or name another --state", who, path)
}
