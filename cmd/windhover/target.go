// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// target looks at a file that a verb is about to write, before any work, and gives
// the path to write to: out itself, or what a symbolic link of that name leads to.
// It refuses what is no regular file, which would be replaced by one, and every
// file in reads, under whatever name: what the verb reads and may not replace.
// Empty names are skipped.
func target(cmd *cobra.Command, out string, reads ...string) (string, error) {
	there, err := os.Stat(out)
	switch {
	case endsAsDirectory(out), err == nil && there.IsDir():
		return "", usagef(cmd, "-o %s is a directory: name the file to write", out)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission): // of this checkOut has more to say
	case err != nil:
		return "", fmt.Errorf("-o: %w", err)
	case !there.Mode().IsRegular():
		return "", usagef(cmd, "-o %s is no regular file, and would be replaced by one: name a file", out)
	}
	if err := apart(cmd, "-o", out, reads...); err != nil {
		return "", err
	}
	path, err := followLink(out)
	if err != nil {
		return "", fmt.Errorf("-o %s: %w", out, err)
	}
	return path, checkOut(path)
}

// apart refuses to write to a file, named by a flag, that the verb also reads.
func apart(cmd *cobra.Command, flag, out string, reads ...string) error {
	there, err := os.Stat(out)
	if err != nil {
		return nil // there is nothing to lose, or the writing says why
	}
	for _, in := range reads {
		if in == "" {
			continue
		}
		if read, err := os.Stat(in); err == nil && os.SameFile(there, read) {
			return usagef(cmd, "%s %s would replace %s, which is read: name another file", flag, out, in)
		}
	}
	return nil
}

// endsAsDirectory says whether a path can name nothing but a directory.
func endsAsDirectory(path string) bool {
	base := path[strings.LastIndexByte(path, '/')+1:]
	return base == "" || base == "." || base == ".."
}

// maxLinks bounds how many symbolic links lead from one to the next, as the
// system does.
const maxLinks = 40

// followLink is the file that a path names, which need not exist.
func followLink(path string) (string, error) {
	for range maxLinks {
		to, err := os.Readlink(path)
		if err != nil {
			return path, nil // no link, or nothing there
		}
		if !filepath.IsAbs(to) {
			dir, err := filepath.EvalSymlinks(filepath.Dir(path))
			if err != nil {
				return "", err
			}
			to = filepath.Join(dir, to)
		}
		path = to
	}
	return "", unix.ELOOP
}

// passphraseFile is the file that a passphrase is read from: that of --key-file,
// else the systemd credential, "" for none.
func passphraseFile(keyFile string) string {
	if dir := os.Getenv("CREDENTIALS_DIRECTORY"); keyFile == "" && dir != "" {
		return filepath.Join(dir, "vqf-key")
	}
	return keyFile
}

// checkOut says in the words of the command line why a file could not be written.
func checkOut(path string) error {
	dir := filepath.Dir(path)
	switch err := unix.Access(dir, unix.W_OK|unix.X_OK); {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("-o %s: there is no directory %s: make it first", path, dir)
	case err != nil:
		return fmt.Errorf("-o %s: this user may not write into %s: name another file with -o: %w", path, dir, err)
	}
	return nil
}

// models are arguments of which the first n name models, or anything else that is
// read at any place of it: files and directories. To open a pipe would wait for
// somebody to write to it.
func models(n int, check cobra.PositionalArgs) cobra.PositionalArgs {
	check = args(check)
	return func(cmd *cobra.Command, a []string) error {
		if err := check(cmd, a); err != nil {
			return err
		}
		a = a[:min(n, len(a))]
		if slices.Contains(a, "") {
			return usagef(cmd, "the name of a file is empty: write %s%s", cmd.CommandPath(), strings.TrimPrefix(cmd.Use, cmd.Name()))
		}
		return seekable(a...)
	}
}

// seekable refuses pipes and devices. What cannot be looked at, or has no name, is
// left to those who open it.
func seekable(paths ...string) error {
	for _, path := range paths {
		if fi, err := os.Stat(path); err == nil && !fi.Mode().IsRegular() && !fi.IsDir() {
			return fmt.Errorf("%s is no regular file: copy what it gives into one", path)
		}
	}
	return nil
}
