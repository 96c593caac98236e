// SPDX-License-Identifier: Apache-2.0

package vqf

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"unsafe"
)

// PageAlign is what offsets, lengths and addresses of reads by Pages are multiples of,
// whatever the pages of the kernel are. No disk asks for more.
const PageAlign = 4096

// Pages reads an open file past the page cache: what is read lies where it was
// asked to and nowhere else, so that a file larger than memory pushes nothing out
// of it. Where a file system cannot do that, the cache is told to drop what was
// read. Reads may run side by side; whoever closes it waits for them first.
type Pages struct {
	path   string
	f      *os.File
	cached atomic.Bool // reads go through the page cache
	area   *cipherArea // of an encrypted file
}

// alignedEnough says whether reads may be so aligned in memory and in the file; 0 is a
// file that cannot be read past the cache at all.
func alignedEnough(mem, offset uint32) bool {
	return mem > 0 && offset > 0 && PageAlign%mem == 0 && PageAlign%offset == 0
}

// pagesOf widens a range of a file to the pages of the system that it touches, since the
// page cache drops none in part.
func pagesOf(from, n, page int64) (int64, int64) {
	begin := from / page * page
	return begin, (from+n+page-1)/page*page - begin
}

// PageRange is one read of a [PageQueue].
type PageRange struct {
	At  int64  // offset in the file, a multiple of PageAlign
	Dst []byte // memory from a multiple of PageAlign on and of such a length
	Min int    // bytes that must be there: the file may end before Dst does
}

// Pages opens the file once more for reading by whole pages, an encrypted one if it
// was opened with Lazy. It does not follow f: after Rebase, call Follow.
func (f *File) Pages() (*Pages, error) {
	p := &Pages{path: f.path}
	if f.encrypted() {
		r, ok := f.plain.(cipherReader)
		if !ok {
			return nil, fmt.Errorf("vqf: %s: reading by pages: the file was deciphered whole: %w", f.path, ErrUnsupported)
		}
		p.area = r.area
	}
	file, cached, err := f.again()
	if err != nil {
		return nil, err
	}
	p.f = file
	p.cached.Store(cached)
	return p, nil
}

// again opens the file that f is open on.
func (f *File) again() (file *os.File, cached bool, err error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.closed {
		return nil, false, fmt.Errorf("vqf: %s: %w", f.path, os.ErrClosed)
	}
	if file, cached, err = reopen(f.f, f.path); err != nil {
		return nil, false, fmt.Errorf("vqf: %s: open for reading by pages: %w", f.path, err)
	}
	return file, cached, nil
}

// Follow goes on with the file that f is open on now. Reads under way are of one
// or the other.
func (p *Pages) Follow(f *File) error {
	file, cached, err := f.again()
	if err != nil {
		return err
	}
	defer file.Close()
	p.cached.Store(p.cached.Load() || cached)
	if err := replaceFD(p.f, file); err != nil {
		return fmt.Errorf("vqf: %s: %w", p.path, err)
	}
	p.cached.Store(cached)
	return nil
}

// Read fills r.Dst. The error is a file that was cut short, or the system's.
func (p *Pages) Read(r PageRange) error {
	r.check()
	n, err := p.f.ReadAt(r.Dst, r.At)
	if p.cached.Load() {
		forget(p.f, r.At, int64(len(r.Dst)))
	}
	if n >= r.Min && (err == nil || errors.Is(err, io.EOF)) {
		return nil
	}
	return p.fault(r, n, err)
}

// check refuses what the system would refuse on some machines only.
func (r *PageRange) check() {
	if at := uintptr(unsafe.Pointer(unsafe.SliceData(r.Dst))); r.At%PageAlign != 0 || len(r.Dst)%PageAlign != 0 || at%PageAlign != 0 {
		panic(fmt.Sprintf("vqf: internal error: %d bytes at %#x, offset %d, are no whole pages", len(r.Dst), at, r.At))
	}
}

// fault is the error of a read that gave n bytes.
func (p *Pages) fault(r PageRange, n int, err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return withPath(badField("file", r.At+int64(n), "ends while %d bytes from offset %d are read: it was cut short", r.Min, r.At), p.path)
	}
	return fmt.Errorf("vqf: %s: read at offset %d: %w", p.path, r.At+int64(n), err)
}

// Decipher deciphers in place what was read from offset at; b need be no whole
// pages. Of a plain file it leaves b alone.
func (p *Pages) Decipher(b []byte, at int64) {
	if p.area != nil {
		p.area.open(at, b)
	}
}

// Close ends reading.
func (p *Pages) Close() error { return p.f.Close() }

// readEach is a queue's work, one after the other.
func (p *Pages) readEach(list []PageRange) error {
	for _, r := range list {
		if err := p.Read(r); err != nil {
			return err
		}
	}
	return nil
}
