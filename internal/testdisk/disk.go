// SPDX-License-Identifier: Apache-2.0

package testdisk

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"windhover/appliance/disk"
)

// page is what a power cut keeps or loses of a write that was not synced.
const page = 512

// Disk is a disk in memory. Directories are there as soon as they are named. The zero
// value is an empty one without limits.
type Disk struct {
	Capacity int64 // bytes; 0: no limit. While the disk is used Resize sets it

	mu      sync.Mutex
	names   map[string]*node // as a program sees them
	kept    map[string]*node // as they would be after a power cut
	pending []change         // of names, oldest first, that no SyncDir has kept
}

// node is a file, with or without names.
type node struct {
	data, kept     []byte
	mode, keptMode fs.FileMode
}

// change gives a name to a file, or takes it away.
type change struct {
	dir   string
	apply func(names map[string]*node)
}

// Loss is what a disk does to things that were not synced.
type Loss int

// The losses. A process that is killed loses nothing; a power cut loses everything or,
// as disks write in their own order, some of it.
const (
	Nothing Loss = iota
	Everything
	Something
)

func (d *Disk) init() {
	if d.names == nil {
		d.names, d.kept = map[string]*node{}, map[string]*node{}
	}
}

// Restart is the power cut, or the end of the process. Open files are worth nothing
// any more. The seed decides what survives where something does.
func (d *Disk) Restart(l Loss, seed uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.init()
	if l == Nothing {
		return
	}
	rnd := rand.New(rand.NewPCG(seed, 1))
	if l == Something {
		for _, c := range d.pending[:rnd.IntN(len(d.pending)+1)] { // names change in order
			c.apply(d.kept)
		}
	}
	d.pending = nil
	done := map[*node]bool{}
	for _, path := range slices.Sorted(maps.Keys(d.kept)) { // in one order, for the seed's sake
		n := d.kept[path]
		if done[n] {
			continue
		}
		done[n] = true
		if l == Something {
			n.mix(rnd)
		}
		n.data, n.mode = slices.Clone(n.kept), n.keptMode
	}
	d.names = maps.Clone(d.kept)
}

// mix keeps some pages of what was not synced.
func (n *node) mix(rnd *rand.Rand) {
	if rnd.IntN(2) == 0 {
		size := len(n.data)
		n.kept = append(n.kept[:min(size, len(n.kept))], make([]byte, max(0, size-len(n.kept)))...)
	}
	for at := 0; at < min(len(n.kept), len(n.data)); at += page {
		if rnd.IntN(2) == 0 {
			end := min(at+page, len(n.kept), len(n.data))
			copy(n.kept[at:end], n.data[at:end])
		}
	}
	if rnd.IntN(2) == 0 {
		n.keptMode = n.mode
	}
}

// Put makes a file that is on the disk for sure.
func (d *Disk) Put(path string, data []byte, mode fs.FileMode) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.init()
	n := &node{data: slices.Clone(data), kept: slices.Clone(data), mode: mode, keptMode: mode}
	d.names[path], d.kept[path] = n, n
}

// Get reads a file, nil if there is none.
func (d *Disk) Get(path string) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.names[path]
	if n == nil {
		return nil
	}
	return append([]byte{}, n.data...)
}

// Resize gives the disk another capacity.
func (d *Disk) Resize(capacity int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.Capacity = capacity
}

// Mode is that of a file, 0 if there is none.
func (d *Disk) Mode(path string) fs.FileMode {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := d.names[path]; n != nil {
		return n.mode
	}
	return 0
}

// Names are all paths, sorted.
func (d *Disk) Names() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.names))
}

func (d *Disk) change(c ...change) {
	for _, c := range c {
		c.apply(d.names)
		d.pending = append(d.pending, c)
	}
}

func add(path string, n *node) change {
	return change{filepath.Dir(path), func(names map[string]*node) { names[path] = n }}
}

func drop(path string) change {
	return change{filepath.Dir(path), func(names map[string]*node) { delete(names, path) }}
}

// Create makes a file that is not there yet.
func (d *Disk) Create(path string, mode fs.FileMode) (disk.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.init()
	if d.names[path] != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrExist}
	}
	n := &node{mode: mode, keptMode: mode}
	d.change(add(path, n))
	return &file{d, n, path, true}, nil
}

// Open opens a file.
func (d *Disk) Open(path string, write bool) (disk.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.names[path]
	switch {
	case n == nil:
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	case write && n.mode&0o200 == 0:
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrPermission}
	}
	return &file{d, n, path, write}, nil
}

// Rename gives a file another name. In one directory that is one change, between two
// it is two, as it is on some disks.
func (d *Disk) Rename(from, to string) error { return d.rename(from, to, false) }

// RenameNew gives a file a name that nothing has.
func (d *Disk) RenameNew(from, to string) error { return d.rename(from, to, true) }

func (d *Disk) rename(from, to string, fresh bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.names[from]
	switch {
	case n == nil:
		return &fs.PathError{Op: "rename", Path: from, Err: fs.ErrNotExist}
	case fresh && d.names[to] != nil:
		return &fs.PathError{Op: "rename", Path: to, Err: fs.ErrExist}
	}
	if dir := filepath.Dir(from); dir == filepath.Dir(to) {
		d.change(change{dir, func(names map[string]*node) { delete(names, from); names[to] = n }})
		return nil
	}
	d.change(add(to, n), drop(from))
	return nil
}

// Remove takes a name away.
func (d *Disk) Remove(path string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.names[path] != nil {
		d.change(drop(path))
	}
	return nil
}

// List returns the names in a directory.
func (d *Disk) List(dir string) ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var names []string
	for path := range d.names {
		if filepath.Dir(path) == filepath.Clean(dir) {
			names = append(names, filepath.Base(path))
		}
	}
	slices.Sort(names)
	return names, nil
}

// SyncDir keeps the names of a directory.
func (d *Disk) SyncDir(dir string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.init()
	d.pending = slices.DeleteFunc(d.pending, func(c change) bool {
		if c.dir != filepath.Clean(dir) {
			return false
		}
		c.apply(d.kept)
		return true
	})
	return nil
}

// Space is what Capacity leaves.
func (d *Disk) Space(string) (free, total int64, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.Capacity == 0 {
		return 1 << 40, 1 << 40, nil
	}
	return d.Capacity - d.used(), d.Capacity, nil
}

func (d *Disk) used() (sum int64) {
	counted := map[*node]bool{}
	for _, names := range []map[string]*node{d.names, d.kept} {
		for _, n := range names {
			if !counted[n] {
				counted[n] = true
				sum += int64(len(n.data))
			}
		}
	}
	return sum
}

// file is an open one.
type file struct {
	d     *Disk
	n     *node
	path  string
	write bool
}

func (f *file) ReadAt(p []byte, off int64) (int, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if off >= int64(len(f.n.data)) {
		return 0, io.EOF
	}
	n := copy(p, f.n.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *file) WriteAt(p []byte, off int64) (int, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.grow("write", off+int64(len(p))); err != nil {
		return 0, err
	}
	return copy(f.n.data[off:], p), nil
}

// grow makes the file at least this long.
func (f *file) grow(op string, size int64) error {
	if !f.write {
		return &fs.PathError{Op: op, Path: f.path, Err: errors.ErrUnsupported}
	}
	more := size - int64(len(f.n.data))
	if more <= 0 {
		return nil
	}
	if f.d.Capacity > 0 && f.d.used()+more > f.d.Capacity {
		return &fs.PathError{Op: op, Path: f.path, Err: syscall.ENOSPC}
	}
	f.n.data = append(f.n.data, make([]byte, more)...)
	return nil
}

func (f *file) Allocate(size int64) error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.grow("fallocate", size); err != nil {
		return err
	}
	f.n.data = f.n.data[:size]
	return nil
}

func (f *file) Truncate(size int64) error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.grow("truncate", size); err != nil {
		return err
	}
	f.n.data = f.n.data[:size]
	return nil
}

func (f *file) Size() (int64, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	return int64(len(f.n.data)), nil
}

func (f *file) Chmod(mode fs.FileMode) error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	f.n.mode = mode
	return nil
}

func (f *file) Sync() error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	f.n.kept, f.n.keptMode = slices.Clone(f.n.data), f.n.mode
	return nil
}

func (f *file) Close() error { return nil }
