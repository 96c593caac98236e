// SPDX-License-Identifier: Apache-2.0

package vqf

import (
	"context"
	"fmt"
	"io"
	"os"
)

// openEncrypted reads an encrypted file as opt says. In memory, its data area is
// deciphered on the way from the disk, and only what is under way is there twice.
func (f *File) openEncrypted(ctx context.Context, opt OpenOptions, progress func(done, total int64)) error {
	area, err := f.unlock(opt.Key)
	if err != nil {
		return err
	}
	check := opt.FullCheck || !opt.Verified
	if opt.Lazy {
		if !check {
			return nil
		}
		return f.checkTag(ctx, opt.Key, nil, nil, progress)
	}
	size := area.end - area.data
	plain, err := anonymous(size)
	if err != nil {
		return fmt.Errorf("vqf: %s: memory for %d bytes of plain data: %w", f.path, size, err)
	}
	stage, passed := area.stageInto(plain), dropBehind(f.f)
	if check {
		err = f.checkTag(ctx, opt.Key, stage, passed, progress)
	} else {
		err = (&pass{r: f.r, from: area.data, to: area.end, stage: stage, passed: passed, progress: progress}).run(ctx)
	}
	if err == nil {
		err = readOnly(plain) // from here on a stray write faults, as in a mapping
	}
	if err != nil {
		_ = munmap(plain) // the first error says why
		return err
	}
	f.data, f.base, f.plain = plain, uint64(area.data), memoryReader{f}
	return nil
}

// dropBehind tells the system, every now and then, that the pages read so far can
// go: the deciphered copy is what will be used, and a small machine has no room
// for both.
func dropBehind(f *os.File) func(at int64) {
	const every = 32 << 20
	var from int64
	return func(at int64) {
		if at-from >= every {
			forget(f, from, at-from)
			from = at
		}
	}
}

// memoryReader reads the data area of an encrypted file from where it was
// deciphered to: the bytes whose tag was compared, not what the disk gives now.
type memoryReader struct{ f *File }

func (r memoryReader) ReadAt(p []byte, at int64) (int, error) {
	r.f.mu.RLock()
	defer r.f.mu.RUnlock()
	if r.f.closed {
		return 0, os.ErrClosed
	}
	from := at - int64(r.f.base)
	if from < 0 || from > int64(len(r.f.data)) {
		return 0, io.EOF
	}
	n := copy(p, r.f.data[from:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}
