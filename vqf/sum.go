// SPDX-License-Identifier: Apache-2.0

package vqf

import (
	"context"
	"encoding/binary"
)

// fnvRange picks the bytes that the checksum covers out of a pass over the
// file: the directory, then the data area, docs/FORMAT.md section 3.4.
type fnvRange struct {
	h                 uint64
	dirEnd, data, end int64
}

func newFNVRange(h *Header) *fnvRange {
	return &fnvRange{h: fnvOffset, dirEnd: DirOffset + EntrySize*int64(h.NTensors), data: int64(h.DataOffset), end: int64(h.FileLen)}
}

func (r *fnvRange) sink(at int64, p []byte) {
	for _, s := range [...][2]int64{{DirOffset, r.dirEnd}, {r.data, r.end}} {
		lo, hi := max(s[0], at), min(s[1], at+int64(len(p)))
		if lo < hi {
			r.h = fnvUpdate(r.h, p[lo-at:hi-at])
		}
	}
}

// checkSum reads the whole file and compares the checksum. A stored 0 means
// that the writer made none, and anything passes.
func (p *parsed) checkSum(ctx context.Context, progress func(done, total int64)) error {
	stored, err := p.storedSum()
	if err != nil || stored == 0 {
		return err
	}
	sum := newFNVRange(&p.header)
	if err := visit(ctx, p.r, DirOffset, int64(p.header.FileLen), progress, sum.sink); err != nil {
		return err
	}
	return p.compareSum(stored, sum.h)
}

func (p *parsed) compareSum(stored, computed uint64) error {
	if stored == computed {
		return nil
	}
	return badField("checksum", int64(p.header.FileLen),
		"checksum mismatch: stored 0x%016x, computed 0x%016x: the file is damaged, copy it again", stored, computed).as(ErrChecksum)
}

// storedSum reads the checksum in the trailer.
func (p *parsed) storedSum() (uint64, error) {
	var b [fnvTrailer]byte
	if err := readFull(p.r, b[:], int64(p.header.FileLen)); err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(b[:]), nil
}
