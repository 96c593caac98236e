// SPDX-License-Identifier: Apache-2.0

package vqf

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// ErrResume is a partial file that cannot be continued: it is gone, cut short,
// or not what the mark says.
var ErrResume = errors.New("the partial file cannot be continued")

// Mark is how far a file in the making has come: all that is needed, beside its
// plan, to continue it. It holds once the bytes before At have reached the
// storage, which Sync sees to.
type Mark struct {
	At  uint64 `json:"at"`         // file offset of the next byte
	Sum uint64 `json:"sum,string"` // state of the checksum there
}

// PartialName is where CreatePartial keeps what is written so far: beside the
// file (the one that a symbolic link leads to), with a dot in front, so that those who watch the directory leave it
// alone.
func PartialName(path string) string {
	dir, base := filepath.Split(resolve(path))
	return filepath.Join(dir, "."+base+".partial")
}

// RemovePartial removes a partial file that nobody is writing. It says whether
// there was one. A partial file that is being written is an error.
func RemovePartial(path string) (bool, error) {
	name := PartialName(path)
	f, err := openAtOnce(name)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		defer func() { _ = f.Close() }() // read-only, and the lock goes with it
		err = hold(f, name)
	}
	if err == nil || errors.Is(err, errNoLocks) {
		err = os.Remove(name)
	}
	if err != nil {
		return true, fmt.Errorf("vqf: %s: %w", name, err)
	}
	return true, nil
}

// CreatePartial is Create with a temporary file of a known name, PartialName,
// which Leave keeps for Resume. An earlier one is replaced.
func CreatePartial(path string, plan *Plan) (*Writer, error) {
	return CreatePartialWith(path, plan, CreateOptions{})
}

// CreatePartialWith is CreatePartial of a file that CreateWith would create.
func CreatePartialWith(path string, plan *Plan, opt CreateOptions) (*Writer, error) {
	path = resolve(path)
	sweep(path)
	w := &Writer{path: path, tmp: PartialName(path), plan: plan, next: -1, partial: true}
	iv, err := opt.firstBlock()
	if err == nil {
		err = w.setUp(opt, iv)
	}
	if err != nil {
		return nil, err
	}
	if err := w.openPartial(os.O_CREATE); err != nil {
		return nil, err
	}
	if err := w.f.Truncate(0); err != nil {
		w.Abort()
		return nil, fmt.Errorf("vqf: create %s: %w", w.tmp, err)
	}
	return w, w.start()
}

// openPartial opens and locks the partial file, so that no two processes write
// the same one.
func (w *Writer) openPartial(flag int) (err error) {
	if w.f, err = os.OpenFile(w.tmp, os.O_RDWR|flag, 0o644); err != nil {
		return fmt.Errorf("vqf: create: %w", err)
	}
	if err = hold(w.f, w.tmp); err == nil || errors.Is(err, errNoLocks) {
		return nil
	}
	_ = w.f.Close() // nothing was written
	w.f = nil
	return fmt.Errorf("vqf: create: %s: %w", w.tmp, err)
}

// Resume continues what CreatePartial began: the same plan, up to the mark.
// What lies before the mark is read and held against it; what lies behind it is
// dropped. progress (may be nil) hears of the reading. The error matches
// ErrResume when the partial file is not what the mark says; then it is still
// there.
func Resume(ctx context.Context, path string, plan *Plan, m Mark, progress func(done, total int64)) (*Writer, error) {
	return ResumeWith(ctx, path, plan, m, CreateOptions{}, progress)
}

// ResumeWith is Resume of what CreatePartialWith began, with the same keys.
func ResumeWith(ctx context.Context, path string, plan *Plan, m Mark, opt CreateOptions, progress func(done, total int64)) (*Writer, error) {
	path = resolve(path)
	w := &Writer{path: path, tmp: PartialName(path), plan: plan, partial: true}
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("vqf: resume %s: %s: %w", w.tmp, fmt.Sprintf(format, args...), ErrResume)
	}
	if !w.place(m.At) {
		return nil, refuse("no tensor's data is at offset %d", m.At)
	}
	err := w.openPartial(0)
	if errors.Is(err, os.ErrNotExist) {
		return nil, refuse("it is gone")
	}
	if err != nil {
		return nil, err
	}
	if err = w.reread(ctx, m, opt, refuse, progress); err == nil {
		err = w.reserve()
	}
	if err != nil {
		w.Leave()
		return nil, err
	}
	return w, nil
}

// place sets the writer to an offset that Mark may have given, or says that it
// cannot have.
func (w *Writer) place(at uint64) bool {
	w.at, w.next = at, len(w.plan.Tensors)
	for i, t := range w.plan.Tensors {
		if at >= t.Offset && at < t.Offset+t.Bytes {
			w.next, w.left = i, t.Offset+t.Bytes-at
			return true
		}
	}
	return at == w.plan.Header.FileLen
}

// reread takes up the checksum from the bytes themselves.
func (w *Writer) reread(ctx context.Context, m Mark, opt CreateOptions, refuse func(string, ...any) error, progress func(done, total int64)) error {
	st, err := w.f.Stat()
	if err != nil {
		return fmt.Errorf("vqf: resume: %w", err)
	}
	if st.Size() < int64(m.At) {
		return refuse("it has %d bytes, want at least %d", st.Size(), m.At)
	}
	prefix := make([]byte, w.plan.Header.DataOffset)
	if err := readFull(w.f, prefix, 0); err != nil {
		return fmt.Errorf("vqf: resume: %w", withPath(err, w.tmp))
	}
	if err := w.setUp(opt, w.fromPartial(prefix)); err != nil {
		return err
	}
	if !bytes.Equal(prefix, w.prefix()) {
		return refuse("its header or directory is another file's")
	}
	sum := newFNVRange(&w.plan.Header)
	if err := w.takeUp(ctx, int64(m.At), sum.sink, progress); err != nil {
		return fmt.Errorf("vqf: resume: %w", withPath(err, w.tmp))
	}
	if sum.h != m.Sum {
		return refuse("the checksum up to %d is 0x%016x, want 0x%016x", m.At, sum.h, m.Sum)
	}
	w.sum = sum.h
	if err := w.f.Truncate(int64(m.At)); err != nil {
		return fmt.Errorf("vqf: resume %s: %w", w.tmp, err)
	}
	if _, err := w.f.Seek(int64(m.At), io.SeekStart); err != nil {
		return fmt.Errorf("vqf: resume %s: %w", w.tmp, err)
	}
	return nil
}

// Mark is how far the writer has come.
func (w *Writer) Mark() Mark {
	w.settle()
	return Mark{w.at, w.sum}
}

// Sync waits until what was written has reached the storage. It may be called
// while Write runs: what Write has not begun by then is not waited for.
func (w *Writer) Sync() error {
	if err := w.f.Sync(); err != nil {
		return fmt.Errorf("vqf: write %s: %w", w.path, err)
	}
	return nil
}

// Leave is Abort that lets the file lie, for Resume. After Commit it does nothing.
func (w *Writer) Leave() {
	if w.f == nil {
		return
	}
	w.stop()
	_ = w.f.Close() // what is not on the storage is written again
	w.f = nil
	if w.err == nil {
		w.err = fmt.Errorf("vqf: write %s: %w", w.path, os.ErrClosed)
	}
}
