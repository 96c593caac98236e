// SPDX-License-Identifier: Apache-2.0

package vqf

import (
	"bytes"
	"context"
	"fmt"
	"os"

	"windhover/vqf/seal"
)

// reading is one pass over directory and data area of a file and all that its locks
// say about them.
type reading struct {
	f        *File
	area     *cipherArea // nil: plain
	sum      *fnvRange   // of a plain file
	tag      *hashRange  // of an encrypted file
	digest   *hashRange  // of a signed file
	dir      []byte      // the directory as it was when the file was opened
	otherDir bool        // it is another one by now
}

func (f *File) newReading(key *seal.Key) (r *reading, err error) {
	r = &reading{f: f, dir: (&Plan{Header: f.header, Tensors: f.tensors}).directory()}
	if f.encrypted() {
		if r.area, err = newCipherArea(&f.header, key); err != nil {
			return nil, err
		}
		r.tag = newHashRange(&f.header, key.NewTag())
	} else {
		r.sum = newFNVRange(&f.header)
	}
	if f.header.Flags&FlagSigned != 0 {
		r.digest = newHashRange(&f.header, seal.NewSM3())
	}
	return r, nil
}

// run reads. plain (may be nil) sees the bytes deciphered.
func (r *reading) run(ctx context.Context, plain sink, progress func(done, total int64)) error {
	read := &pass{r: r.f.r, from: DirOffset, to: int64(r.f.header.FileLen), raw: []sink{r.directory}, progress: progress}
	var open []sink
	if r.digest != nil {
		open = append(open, r.digest.sink)
	}
	if plain != nil {
		open = append(open, plain)
	}
	if r.area == nil {
		read.raw = append(append(read.raw, r.sum.sink), open...)
		return read.run(ctx)
	}
	read.raw = append(read.raw, r.tag.sink)
	if len(open) > 0 {
		read.stage, read.plain = r.area.stage, open
	}
	return read.run(ctx)
}

// directory holds the directory against the one that was parsed.
func (r *reading) directory(at int64, p []byte) {
	if lo, hi := overlap([2]int64{DirOffset, DirOffset + int64(len(r.dir))}, at, p); lo < hi {
		r.otherDir = r.otherDir || !bytes.Equal(p[lo-at:hi-at], r.dir[lo-DirOffset:hi-DirOffset])
	}
}

// judge holds what was read against what the file says: tag or checksum, and the
// signature with the key in its block. Whose that is, nobody is asked.
func (r *reading) judge() error {
	p := &r.f.parsed
	switch {
	case r.otherDir:
		return r.changed()
	case r.tag != nil:
		stored, err := p.storedTag()
		if err != nil {
			return err
		}
		if err := p.compareTag(stored, r.tag.h.Sum(nil)); err != nil {
			return err
		}
	default:
		stored, err := p.storedSum()
		if err != nil {
			return err
		}
		if stored != 0 { // else the writer made none
			if err := p.compareSum(stored, r.sum.h); err != nil {
				return err
			}
		}
	}
	if r.digest == nil {
		return nil
	}
	_, err := p.header.Sig.check([32]byte(r.digest.h.Sum(nil)), nil)
	return err
}

// same says that another reading, which judge has passed, saw the same bytes.
func (r *reading) same(judged *reading) error {
	ok := !r.otherDir
	if r.sum != nil {
		ok = ok && r.sum.h == judged.sum.h
	}
	if r.tag != nil {
		ok = ok && seal.Equal(r.tag.h.Sum(nil), judged.tag.h.Sum(nil))
	}
	if r.digest != nil {
		ok = ok && seal.Equal(r.digest.h.Sum(nil), judged.digest.h.Sum(nil))
	}
	if !ok {
		return r.changed()
	}
	return nil
}

func (r *reading) changed() error {
	return badField("file", -1, "was changed while it was read: nothing was written; see who writes to it, and try again").as(ErrChecksum)
}

// watched is an open file as it was at first.
type watched struct {
	info  os.FileInfo
	stamp Stamp
}

func watch(f *os.File) (w watched, err error) {
	if w.info, err = f.Stat(); err != nil {
		return w, fmt.Errorf("vqf: %w", err)
	}
	w.stamp, err = StampOf(f)
	return w, err
}

// still says that path is still the name of the file, and that nobody touched it.
func (w watched) still(f *os.File, path string) error {
	now, err := os.Lstat(path)
	if err != nil || !os.SameFile(now, w.info) {
		return fmt.Errorf("vqf: %s: was replaced meanwhile: what has the name now was left as it is, try again", path)
	}
	stamp, err := StampOf(f)
	if err != nil {
		return err
	}
	if stamp != w.stamp {
		return fmt.Errorf("vqf: %s: was changed meanwhile: it was left as it is, try again", path)
	}
	return nil
}
