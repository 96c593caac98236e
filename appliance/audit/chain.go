// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"windhover/appliance/disk"
)

// fileMode lets the group read.
const fileMode = 0o640

// chain is the file that is written, and the place at which. Its methods are called by
// one goroutine; after an error of any but write it has to be opened again.
type chain struct {
	d       disk.FS
	path    string
	maxSize int64 // bytes, after which a file is full
	keep    int   // so many full files are kept; 0: all
	tell    func(Notice)
	at      time.Time // of records that the file itself gives rise to

	f     disk.File // nil: to be opened
	size  int64     // of what is good in it
	first uint64    // number of its first record; 0: it has none
	last  Place     // that was written
	safe  Place     // that is on the disk
	torn  bool      // something may stand behind size
}

// append writes records, and returns how many of them are in the file. Those that a
// rotation adds are not counted.
func (c *chain) append(records ...Record) (done int, err error) {
	var buf []byte
	place, ready := c.last, 0
	flush := func() error {
		if err := c.write(buf, place); err != nil {
			return err
		}
		done, buf = ready, buf[:0]
		return nil
	}
	for _, r := range records {
		data, next, err := r.encode(place)
		if err != nil {
			return done, err
		}
		if at := c.size + int64(len(buf)); at > 0 && at+int64(len(data)) > c.maxSize {
			if err := flush(); err != nil {
				return done, err
			}
			c.at = r.Time
			if err := c.rotate(); err != nil {
				return done, err
			}
			if data, next, err = r.encode(c.last); err != nil {
				return done, err
			}
		}
		buf, place, ready = append(buf, data...), next, ready+1
	}
	return done, flush()
}

// write puts lines behind what is there. What a write that failed has left goes first.
func (c *chain) write(lines []byte, place Place) error {
	if len(lines) == 0 {
		return nil
	}
	if c.torn {
		if err := c.f.Truncate(c.size); err != nil {
			return err
		}
	}
	c.torn = true
	if _, err := c.f.WriteAt(lines, c.size); err != nil {
		return err
	}
	c.torn = false
	if c.first == 0 {
		c.first = c.last.Seq + 1
	}
	c.size += int64(len(lines))
	c.last = place
	return nil
}

// sync puts everything that was written on the disk, and looks whether the file is still
// where it belongs: somebody may have removed it to have room.
func (c *chain) sync() error {
	if c.safe == c.last {
		return nil
	}
	if err := c.f.Sync(); err != nil {
		return err
	}
	switch n, err := sizeOf(c.d, c.path); {
	case err != nil:
		return err
	case n < c.size:
		return fmt.Errorf("%s has %d bytes, and %d were written", c.path, n, c.size)
	}
	c.safe = c.last
	return nil
}

// close leaves the file as it is.
func (c *chain) close() error {
	if c.f == nil {
		return nil
	}
	f := c.f
	c.f = nil
	return f.Close()
}

// rotate begins a new file, whose first record names the one before, and those that are
// removed.
func (c *chain) rotate() error {
	if err := c.sync(); err != nil {
		return err
	}
	name := c.numbered(c.first)
	r := Record{Kind: KindRotate, File: filepath.Base(name), Bytes: c.size}
	if err := c.close(); err != nil {
		return err
	}
	if err := c.d.RenameNew(c.path, name); err != nil {
		return err
	}
	if err := c.create(); err != nil {
		return err
	}
	old, err := c.surplus()
	if err != nil {
		return err
	}
	for _, path := range old {
		r.Removed = append(r.Removed, filepath.Base(path))
	}
	if err := c.lead(r); err != nil {
		return err
	}
	if len(old) > 0 {
		if err := c.sync(); err != nil {
			return err
		}
		for _, path := range old {
			if err := c.d.Remove(path); err != nil {
				return err
			}
		}
	}
	c.tell(Notice{Event: NoticeRotated, At: c.last, File: name})
	return nil
}

// lead writes records that the file itself gives rise to.
func (c *chain) lead(records ...Record) error {
	for _, r := range records {
		r.Time = c.at
		data, next, err := r.encode(c.last)
		if err == nil {
			err = c.write(data, next)
		}
		if err != nil {
			return err
		}
		if r.Kind == KindRepair {
			c.tell(Notice{Event: NoticeRepair, At: c.last, File: r.File, Err: errors.New(r.Reason)})
		}
	}
	return nil
}

// create begins a file.
func (c *chain) create() error {
	f, err := c.d.Create(c.path, fileMode)
	if err != nil {
		return err
	}
	err = f.Chmod(fileMode) // the umask may have taken from it
	if err == nil {
		err = c.d.SyncDir(filepath.Dir(c.path))
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	c.f, c.size, c.first, c.torn = f, 0, 0, false
	return nil
}

// numbered is the name of a full file.
func (c *chain) numbered(first uint64) string { return fmt.Sprintf("%s.%012d", c.path, first) }

// older are the paths of full files, oldest first.
func (c *chain) older() ([]string, error) {
	dir, base := filepath.Split(c.path)
	names, err := c.d.List(filepath.Clean(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // Create says so better
	}
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, name := range names {
		number, ok := strings.CutPrefix(name, base+".")
		if ok && len(number) >= 12 && strings.Trim(number, "0123456789") == "" {
			paths = append(paths, filepath.Join(dir, name))
		}
	}
	slices.SortFunc(paths, func(a, b string) int { // numbers of more digits are larger
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		return strings.Compare(a, b)
	})
	return paths, nil
}

// surplus are those that keep leaves no room for: of the newest ones as many stay as keep
// full files have bytes, so that small ones, as power cuts leave them, put none out.
func (c *chain) surplus() ([]string, error) {
	if c.keep == 0 {
		return nil, nil
	}
	paths, err := c.older()
	if err != nil {
		return nil, err
	}
	room := c.maxSize * int64(c.keep)
	for i, path := range slices.Backward(paths) {
		size, err := sizeOf(c.d, path)
		if err != nil {
			return nil, err
		}
		if room -= size; room < 0 {
			return paths[:min(i+1, maxRemoved)], nil
		}
	}
	return nil, nil
}

func sizeOf(d disk.FS, path string) (int64, error) {
	f, err := d.Open(path, false)
	if err != nil {
		return 0, err
	}
	n, err := f.Size()
	return n, errors.Join(err, f.Close())
}

// unread is a free name for a file in which nothing could be read. It does not begin as
// the others do.
func (c *chain) unread() (string, error) {
	dir, base := filepath.Split(c.path)
	for n := 1; ; n++ {
		path := filepath.Join(dir, fmt.Sprintf("unread-%03d-%s", n, base))
		f, err := c.d.Open(path, false)
		if errors.Is(err, os.ErrNotExist) {
			return path, nil
		}
		if err != nil {
			return "", err
		}
		if err := f.Close(); err != nil {
			return "", err
		}
	}
}
