// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"path/filepath"
	"time"

	"windhover/appliance/disk"
	"windhover/control"
	"windhover/control/ota"
)

// Fetcher downloads into a directory of its own. The zero value of each field from
// Reserve on means what its comment says. It is used by one goroutine at a time.
type Fetcher struct {
	Disk   disk.FS
	Dir    string       // incoming/, on the file system of the store
	Client *http.Client // see NewClient

	Reserve    int64         // bytes that stay free: the larger of 5 % and 256 MiB
	Stall      time.Duration // 30 s: how long a source may be too slow
	MinRate    int64         // 1 KiB a second; less over Stall is too slow
	Attempts   int           // 20 in a row that bring no block
	Checkpoint int64         // 16 MiB: how much a power cut may cost
	// Sane says whether the clock can be believed. Without one that can, windows count
	// for nothing: a box without a battery would never be updated. nil: it can.
	Sane     func() bool
	Progress func(done, total int64) // bytes that are there; nil: nobody is told
}

// Artifact is a file that is to be had.
type Artifact struct {
	URLs  []string // sources, tried in this order
	Index *ota.Index

	NotBefore time.Time  // of the first request
	Window    ota.Window // of every request
	MaxBPS    int64      // bytes a second; 0: no limit
	MaxBytes  int64      // over the network, restarts included; 0: no limit
	Installed []string   // files that may have blocks of it
}

// Result is what a download took.
type Result struct {
	Path            string // of the whole file, read-only, which Stage moves away
	Network, Reused int64  // bytes: read from sources by this call, and taken from Installed
}

const defaultAttempts = 20

func (f *Fetcher) stall() time.Duration { return def(f.Stall, 30*time.Second) }
func (f *Fetcher) minRate() int64       { return def(f.MinRate, 1<<10) }
func (f *Fetcher) checkpoint() int64    { return def(f.Checkpoint, 16<<20) }

func def[T int | int64 | time.Duration](v, otherwise T) T {
	if v == 0 {
		return otherwise
	}
	return v
}

// Fetch brings a file into the directory, whole and checked. What an earlier call left
// there, however it ended, is gone on with. With an error that is so too; its codes:
//
//	insufficient_storage   no room; nothing was taken that was not there before
//	source_gone            every source says that it has no such file
//	endless_data           every source is gone or has more bytes than were signed
//	slow_retrieval         the last of Attempts was too slow
//	download_failed        attempts or bytes are used up, or no source can serve ranges
//	digest_mismatch        a source has other bytes, or the disk gives back other ones
//	mix_and_match          index and file do not belong together
//	incompatible           a later program has begun this download
//
// A source that is wrong is left, and the others are asked; the code is that of the
// one left last. The error of a context that ends is its cause.
func (f *Fetcher) Fetch(ctx context.Context, a Artifact) (res Result, err error) {
	p, err := f.open(ctx, a)
	if err != nil {
		return Result{}, f.storage(err, a)
	}
	defer func() {
		if closed := p.close(); err == nil {
			err = closed // else the first error is the one to tell
		}
		err = f.storage(err, a)
		res.Network, res.Reused = p.network, p.reused
	}()
	if err := p.reuse(ctx, a.Installed); err != nil {
		return res, err
	}
	// A second round replaces what the disk gave back wrong.
	for range 2 {
		if err := f.download(ctx, p, a); err != nil {
			return res, err
		}
		whole, err := p.verify(ctx)
		if err != nil || whole {
			res.Path = p.path
			return res, err
		}
		bad, err := p.recheck(ctx)
		if err != nil {
			return res, err
		}
		if bad == 0 {
			p.gone = true
			return res, errors.Join(control.Errorf(control.MixAndMatch, "every block of %s is as signed, the whole is not: index and file do not belong together", a.Index.SHA256), f.Discard(a.Index.SHA256))
		}
	}
	return res, control.Errorf(control.DigestMismatch, "%s: the disk gives back other bytes than were written to it: check the disk", p.path)
}

// Stage gives a whole file its final name, unless something has it already, and
// forgets the download. Whoever finds the name taken at a start calls it again: before
// it has returned, a power cut may take the name away.
func (f *Fetcher) Stage(sum ota.Digest, to string) error {
	err := f.Disk.RenameNew(f.part(sum), to)
	if errors.Is(err, fs.ErrNotExist) { // done before the cut
		if g, openErr := f.Disk.Open(to, false); openErr == nil {
			err = g.Close()
		}
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := f.Disk.SyncDir(filepath.Dir(to)); err != nil {
		return err
	}
	return f.Discard(sum)
}

// Discard forgets a download and frees its room.
func (f *Fetcher) Discard(sum ota.Digest) error {
	return errors.Join(f.Disk.Remove(f.part(sum)), f.Disk.Remove(f.record(sum)), f.Disk.SyncDir(f.Dir))
}

// Tidy removes everything from the directory that is not of a download to be kept.
func (f *Fetcher) Tidy(keep func(sum string) bool) error {
	names, err := f.Disk.List(f.Dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, n := range names {
		ext := filepath.Ext(n)
		if sum := n[:len(n)-len(ext)]; (ext == partEnd || ext == recordEnd) && keep(sum) {
			continue
		}
		errs = append(errs, f.Disk.Remove(filepath.Join(f.Dir, n)))
	}
	return errors.Join(append(errs, f.Disk.SyncDir(f.Dir))...)
}

// storage gives a full disk its code.
func (f *Fetcher) storage(err error, a Artifact) error {
	var coded *control.Error
	if err == nil || errors.As(err, &coded) || !disk.Full(err) {
		return err
	}
	e := control.Errorf(control.InsufficientStore, "%s: the disk is full: remove a model or give paths.state a larger disk", f.Dir)
	e.Needed = a.Index.Size
	if free, _, err := f.Disk.Space(f.Dir); err == nil {
		e.Available = free
	}
	return e
}
