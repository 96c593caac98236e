// SPDX-License-Identifier: Apache-2.0

// Package disk is what an update does to the disk: few operations, each of which is
// on the disk when the one after it begins, if the caller says so. It is an interface
// because what happens when the power goes, or the disk is full, at any of them is
// tested at all of them: internal/testdisk is the other implementation.
//
// It is not a file system for everybody: the drop directory, with owners, links and
// leases, is not its business.
package disk

import (
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"syscall"
)

// FS is a disk. Errors of names are those of io/fs; a full one is [Full].
type FS interface {
	// Create makes a file that is not there yet, for reading and writing.
	Create(path string, mode fs.FileMode) (File, error)
	// Open opens a regular file for reading, or for writing too.
	Open(path string, write bool) (File, error)
	// Rename gives a file another name, which it takes from whatever has it.
	Rename(from, to string) error
	// RenameNew gives a file a name that nothing has; fs.ErrExist otherwise.
	RenameNew(from, to string) error
	// Remove takes the name of a file away. One that is not there is no error.
	Remove(path string) error
	// List returns the names in a directory.
	List(dir string) ([]string, error)
	// SyncDir makes the names in a directory outlast a power cut.
	SyncDir(dir string) error
	// Space returns what is free for this user and the size of the file system, bytes.
	Space(dir string) (free, total int64, err error)
}

// File is an open file. What is written is only sure to be there after Sync.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Size() (int64, error)
	// Allocate makes the file this long and takes the room for it where the file system
	// can.
	Allocate(size int64) error
	// Truncate takes away what lies behind size.
	Truncate(size int64) error
	Chmod(mode fs.FileMode) error
	Sync() error
}

// Full says whether an error is that of a disk without room.
func Full(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// ReadFile reads a file of at most limit bytes; a longer one is an error.
func ReadFile(d FS, path string, limit int64) (_ []byte, err error) {
	f, err := d.Open(path, false)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	n, err := f.Size()
	if err == nil && n > limit {
		err = &fs.PathError{Op: "read", Path: path, Err: syscall.EFBIG}
	}
	if err != nil {
		return nil, err
	}
	data := make([]byte, n)
	if _, err := f.ReadAt(data, 0); err != nil && !(errors.Is(err, io.EOF) && n == 0) {
		return nil, err
	}
	return data, nil
}

// Replace puts data at path so that a reader, and a machine that lost its power, sees
// the old file or the new one. What a cut leaves is under one name, which the next
// Replace of the path takes away; two at once are not allowed.
func Replace(d FS, path string, data []byte, mode fs.FileMode) (err error) {
	dir := filepath.Dir(path)
	temporary := filepath.Join(dir, ".windhover-"+filepath.Base(path)+".tmp")
	if err := d.Remove(temporary); err != nil {
		return err
	}
	f, err := d.Create(temporary, mode)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, 0)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = d.Rename(temporary, path)
	}
	if err != nil {
		return errors.Join(err, d.Remove(temporary))
	}
	return d.SyncDir(dir)
}
