// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"windhover/appliance/disk"
)

// open finds the end of the chain, which it reads the newest file for, and goes on
// behind it. Nothing that is there is changed: a file that does not go on as it should
// gets its number, and the repair that says so begins a new one.
func (c *chain) open() error {
	if err := c.close(); err != nil {
		return err
	}
	f, err := c.d.Open(c.path, true)
	if errors.Is(err, fs.ErrNotExist) {
		last, repairs, err := c.before()
		if err != nil {
			return err
		}
		if c.last.Seq > last.Seq { // it was there: who has it has the records
			last, repairs = c.last, append(repairs, Record{Kind: KindRepair, File: filepath.Base(c.path), Reason: "the file was taken away while it was written"})
		}
		return c.begin(last, repairs)
	}
	if err != nil {
		return err
	}
	e, err := endOf(f)
	if err != nil {
		return errors.Join(named(c.path, err), f.Close())
	}
	switch {
	case e.repair == nil && e.lines > 0:
		had := c.last.Seq
		c.f, c.size, c.first, c.torn, c.last = f, e.at, e.first, false, e.last
		if had > e.last.Seq {
			r := Record{Kind: KindRepair, File: filepath.Base(c.path), Lost: had - e.last.Seq, Reason: "records that were written are in the file no more"}
			if err := c.lead(r); err != nil {
				return err
			}
		}
		return c.settle()
	case e.repair == nil: // a file that was begun, and no more
		last, repairs, err := c.before()
		if err != nil {
			return errors.Join(err, f.Close())
		}
		c.f, c.size, c.first, c.torn, c.last = f, 0, 0, false, last
		if err := c.lead(repairs...); err != nil {
			return err
		}
		return c.settle()
	}
	if err := f.Close(); err != nil {
		return err
	}
	last, repairs, name := e.last, []Record{}, c.numbered(e.first)
	if e.lines == 0 {
		if last, repairs, err = c.before(); err != nil {
			return err
		}
		if name, err = c.unread(); err != nil {
			return err
		}
	}
	if err := c.d.RenameNew(c.path, name); err != nil {
		return err
	}
	e.repair.File = filepath.Base(name)
	return c.begin(last, append(repairs, *e.repair))
}

// begin makes a new file behind a place.
func (c *chain) begin(last Place, repairs []Record) error {
	c.last = last
	if err := c.create(); err != nil {
		return err
	}
	if err := c.lead(repairs...); err != nil {
		return err
	}
	return c.settle()
}

// settle puts on the disk what a process before may have left in memory, the name too.
func (c *chain) settle() error {
	if err := c.f.Sync(); err != nil {
		return err
	}
	if err := c.d.SyncDir(filepath.Dir(c.path)); err != nil {
		return err
	}
	c.safe = c.last
	return nil
}

// before is the end of the full files, and what could not be read of them.
func (c *chain) before() (Place, []Record, error) {
	paths, err := c.older()
	if err != nil {
		return Place{}, nil, err
	}
	var repairs []Record
	for _, path := range slices.Backward(paths) {
		f, err := c.d.Open(path, false)
		if err != nil {
			return Place{}, nil, err
		}
		e, err := endOf(f)
		if err = errors.Join(err, f.Close()); err != nil {
			return Place{}, nil, named(path, err)
		}
		if e.repair != nil {
			e.repair.File = filepath.Base(path)
			repairs = append([]Record{*e.repair}, repairs...)
		}
		if e.lines > 0 {
			return e.last, repairs, nil
		}
	}
	return Place{}, repairs, nil
}

// end is where the good lines of a file end, and what is to be said of the rest.
type end struct {
	first  uint64
	last   Place
	at     int64
	lines  int
	repair *Record // nil: there is no rest
}

// endOf reads a file.
func endOf(f disk.File) (e end, err error) {
	size, err := f.Size()
	if err != nil {
		return e, err
	}
	s := newScanner(io.NewSectionReader(f, 0, size), Place{}, false)
	for err == nil {
		_, _, err = s.next()
	}
	var bad *fault
	if !errors.Is(err, io.EOF) && !errors.As(err, &bad) {
		return e, err
	}
	if s.lines > 0 { // the next line vouches for each but the last
		last := make([]byte, s.at-s.begun)
		if _, err := f.ReadAt(last, s.begun); err != nil {
			return e, err
		}
		h, err := parseHead(last)
		if err == nil {
			err = h.whole(last)
		}
		if err != nil {
			bad = &fault{"the line " + err.Error(), false}
			s.last, s.at, s.lines = s.prior, s.begun, s.lines-1
		}
	}
	e = end{first: s.first, last: s.last, at: s.at, lines: s.lines}
	if bad == nil {
		return e, nil
	}
	sum, n, err := rest(f, s.at, size)
	e.repair = &Record{Kind: KindRepair, Offset: s.at, Bytes: n, FileSHA256: sum.String(), Reason: fmt.Sprintf("line %d: %s", s.lines+1, bad.reason)}
	return e, err
}

// named says which file an error is about.
func named(path string, err error) error { return fmt.Errorf("%s: %w", path, err) }
