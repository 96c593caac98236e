// SPDX-License-Identifier: Apache-2.0

package testdisk

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"sync"
	"syscall"

	"windhover/appliance/disk"
)

// Fault is what happens at a change of the disk.
type Fault int

// The faults. Where a change is a write, Torn is in the middle of it.
const (
	Before Fault = iota // the end comes, and the change is not made
	Torn                // the end comes when half of it is made
	After               // the end comes when it is made
	Full                // half of it is made, and the disk is full from then on
	Broken              // it is not made, and the disk reports an error, this once
)

func (f Fault) String() string {
	return [...]string{"before", "torn", "after", "full", "broken"}[f]
}

// Ends says whether a fault ends the program.
func (f Fault) Ends() bool { return f <= After }

// Trial is a fault at one change of a disk, and what the disk loses by it.
type Trial struct {
	Kind Fault
	At   int // the change, from 1 on
	Loss Loss
}

// Trials are all of a program that makes so many changes, or a quarter of them.
func Trials(changes int, quarter bool) iter.Seq[Trial] {
	return func(yield func(Trial) bool) {
		for _, kind := range []Fault{Before, Torn, After, Full, Broken} {
			for at := 1; at <= changes; at++ {
				if quarter && (at+int(kind))%4 != 0 {
					continue
				}
				for _, loss := range []Loss{Nothing, Everything, Something} {
					if !yield(Trial{kind, at, loss}) {
						return
					}
				}
			}
		}
	}
}

// Faults is a disk with a fault at one of its changes. The zero numbers make one
// that only counts.
type Faults struct {
	disk.FS
	At   int    // the change, from 1 on; 0: none
	Kind Fault  //
	End  func() // ends the program; nil: a panic that Survive catches

	mu      sync.Mutex // held during a change, so that several goroutines may make some
	Changes int        // how many there were
	Last    string     // what the last one was
	ended   bool
	full    bool
}

// cut is the panic that stands for the end of the program.
type cut struct{}

var errEnded = errors.New("testdisk: the program has ended")

// Survive runs a program and says whether it came to its own end.
func Survive(program func()) (whole bool) {
	defer func() {
		if p := recover(); p != nil {
			if _, ok := p.(cut); !ok {
				panic(p)
			}
			whole = false
		}
	}()
	program()
	return true
}

// do makes a change, given as a whole and as a half.
func (f *Faults) do(what, path string, whole, half func() error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return errEnded // what deferred functions try after the end
	}
	f.Changes++
	f.Last = fmt.Sprintf("%d: %s %s", f.Changes, what, path)
	if f.full && half != nil {
		return &fs.PathError{Op: what, Path: path, Err: syscall.ENOSPC}
	}
	if f.Changes != f.At {
		return whole()
	}
	switch f.Kind {
	case Before:
		f.end()
	case Torn:
		if half != nil {
			if err := half(); err != nil {
				return err
			}
		}
		f.end()
	case After:
		if err := whole(); err != nil {
			return err
		}
		f.end()
	case Full:
		if half == nil {
			return whole() // needs no room
		}
		f.full = true
		if err := half(); err != nil {
			return err
		}
		return &fs.PathError{Op: what, Path: path, Err: syscall.ENOSPC}
	case Broken:
		return &fs.PathError{Op: what, Path: path, Err: syscall.EIO}
	}
	return whole()
}

// Die ends the program between two changes: no later one is made.
func (f *Faults) Die() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = true
}

func (f *Faults) end() {
	f.ended = true
	if f.End != nil {
		f.End()
	}
	panic(cut{})
}

func nothing() error { return nil }

// Create is a change that needs room.
func (f *Faults) Create(path string, mode fs.FileMode) (out disk.File, err error) {
	err = f.do("create", path, func() error {
		in, err := f.FS.Create(path, mode)
		out = &faultyFile{in, f, path}
		return err
	}, nothing)
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Open changes nothing.
func (f *Faults) Open(path string, write bool) (disk.File, error) {
	in, err := f.FS.Open(path, write)
	if err != nil {
		return nil, err
	}
	return &faultyFile{in, f, path}, nil
}

// Rename is a change.
func (f *Faults) Rename(from, to string) error {
	return f.do("rename", to, func() error { return f.FS.Rename(from, to) }, nil)
}

// RenameNew is a change.
func (f *Faults) RenameNew(from, to string) error {
	return f.do("rename", to, func() error { return f.FS.RenameNew(from, to) }, nil)
}

// Remove is a change.
func (f *Faults) Remove(path string) error {
	return f.do("remove", path, func() error { return f.FS.Remove(path) }, nil)
}

// SyncDir counts as one, since it decides what is there after the end.
func (f *Faults) SyncDir(dir string) error {
	return f.do("sync", dir, func() error { return f.FS.SyncDir(dir) }, nil)
}

type faultyFile struct {
	disk.File
	f    *Faults
	path string
}

func (g *faultyFile) WriteAt(p []byte, off int64) (n int, err error) {
	err = g.f.do("write", g.path, func() error {
		n, err = g.File.WriteAt(p, off)
		return err
	}, func() error {
		_, err := g.File.WriteAt(p[:len(p)/2], off)
		return err
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

func (g *faultyFile) Allocate(size int64) error {
	return g.f.do("allocate", g.path, func() error { return g.File.Allocate(size) }, func() error { return g.File.Allocate(size / 2) })
}

func (g *faultyFile) Truncate(size int64) error {
	return g.f.do("truncate", g.path, func() error { return g.File.Truncate(size) }, nil)
}

func (g *faultyFile) Chmod(mode fs.FileMode) error {
	return g.f.do("chmod", g.path, func() error { return g.File.Chmod(mode) }, nil)
}

func (g *faultyFile) Sync() error {
	return g.f.do("sync", g.path, func() error { return g.File.Sync() }, nil)
}
