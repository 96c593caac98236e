// SPDX-License-Identifier: Apache-2.0

package vqf

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// Writer writes the file of a plan under a temporary name beside its own. Data
// comes in directory order. Not for use by several goroutines at once. End with
// Commit or Abort; Abort after Commit does nothing.
type Writer struct {
	path, tmp string
	plan      *Plan
	header    Header  // the plan's, with counter block and signature
	seal      *sealer // of an encrypted or signed file
	f         *os.File
	next      int         // entry the next byte belongs to
	left      uint64      // bytes that entry still wants
	at        uint64      // file offset of the next byte
	sum       uint64      // running checksum
	err       error       // first failure; nothing is written after it
	partial   bool        // Resume may continue what is cancelled
	perm      os.FileMode // of the new file, before umask; 0: 0644
	like      os.FileInfo // a file whose mode and owner it takes over; nil: none
}

// Result is what Commit found when it read the file back.
type Result struct {
	Size    int64
	MemSum  uint64 // checksum kept while writing; of an encrypted file, over what is stored
	FileSum uint64 // checksum of what was read back, equal to MemSum
	SHA256  string // of the whole file, hex
}

// Create starts a file. The plan must not change until Commit. Temporary files
// that killed processes left for the same path are removed. A path that is a
// symbolic link to a file stays one: the file that it leads to is replaced.
func Create(path string, plan *Plan) (*Writer, error) {
	return CreateWith(path, plan, CreateOptions{})
}

// CreateWith is Create of a file that is encrypted, signed or both, as the plan
// says. The data is given in plain.
func CreateWith(path string, plan *Plan, opt CreateOptions) (*Writer, error) {
	w := &Writer{path: path, plan: plan, next: -1}
	if err := w.create(opt); err != nil {
		return nil, err
	}
	return w, nil
}

func (w *Writer) create(opt CreateOptions) error {
	w.path = resolve(w.path)
	iv, err := opt.firstBlock()
	if err == nil {
		err = w.setUp(opt, iv)
	}
	if err != nil {
		return err
	}
	perm := w.perm
	switch {
	case w.like != nil:
		perm = 0o600 // until it has the right owner
	case perm == 0:
		perm = 0o644
	}
	if w.f, w.tmp, err = createTemporary(w.path, perm); err != nil {
		return err
	}
	if w.like != nil {
		if err := takeOver(w.f, w.like); err != nil {
			w.Abort()
			return fmt.Errorf("vqf: create %s: %w", w.path, err)
		}
	}
	return w.start()
}

// prefix is the file's bytes before the data area.
func (w *Writer) prefix() []byte { return (&Plan{Header: w.header, Tensors: w.plan.Tensors}).Prefix() }

// start writes what lies before the data.
func (w *Writer) start() error {
	if err := w.reserve(); err != nil {
		w.Abort()
		return err
	}
	w.sum = fnvUpdate(fnvOffset, w.plan.directory())
	if err := w.put(w.prefix()); err != nil {
		w.Abort()
		return err
	}
	w.begin()
	if w.next < 0 { // else the whole data area follows
		w.advance()
	}
	return w.err
}

// reserve makes sure of room for the whole file before the work, and not after it.
func (w *Writer) reserve() error {
	size := w.plan.Size()
	dir := filepath.Dir(w.path)
	st, err := w.f.Stat()
	if err != nil {
		return fmt.Errorf("vqf: create %s: %w", w.path, err)
	}
	free, err := freeSpace(dir)
	if err != nil {
		return fmt.Errorf("vqf: create %s: %w", w.path, err)
	}
	if need := size - allocated(st); need > free {
		return noRoom(w.path, need, free, syscall.ENOSPC)
	}
	if err := reserve(w.f, size); err != nil {
		return noRoom(w.path, size, free, err)
	}
	return nil
}

// noRoom says what a full file system lacks.
func noRoom(path string, need, free int64, err error) error {
	return fmt.Errorf("vqf: create %s: needs %d MB in %s, %d MB are free: remove something or name another place: %w",
		path, (need+999_999)/1_000_000, filepath.Dir(path), free/1_000_000, err)
}

// Next returns the entry that the next byte belongs to, and how many bytes of
// it are still wanted. ok is false when all is written.
func (w *Writer) Next() (t Tensor, left uint64, ok bool) {
	if w.next >= len(w.plan.Tensors) {
		return Tensor{}, 0, false
	}
	return w.plan.Tensors[w.next], w.left, true
}

// Write appends payload bytes. They may end anywhere: the writer knows where
// tensors end and puts the padding between them. More bytes than the plan has
// are an error.
func (w *Writer) Write(p []byte) (int, error) {
	done := 0
	for len(p) > 0 && w.err == nil {
		if w.next >= len(w.plan.Tensors) {
			w.err = fmt.Errorf("vqf: write %s: %d bytes more than the plan has", w.path, len(p))
			break
		}
		n := int(min(uint64(len(p)), w.left))
		w.data(p[:n])
		w.left -= uint64(n)
		done += n
		p = p[n:]
		if w.left == 0 {
			w.advance()
		}
	}
	if w.err != nil {
		return done, w.err
	}
	return done, nil
}

// WriteTensor writes one whole entry, which must be the next. Only t_tokenizer
// and t_meta may be shorter than planned: zeros follow.
func (w *Writer) WriteTensor(name string, p []byte) error {
	t, left, ok := w.Next()
	switch {
	case w.err != nil:
		return w.err
	case !ok || t.Name != name || left != t.Bytes:
		w.err = fmt.Errorf("vqf: write %s: %q is not the next tensor, %q is (%d of %d bytes left)", w.path, name, t.Name, left, t.Bytes)
		return w.err
	}
	short := t.Bytes - min(t.Bytes, uint64(len(p)))
	extra := name == NameTokenizer || name == NameMeta
	if uint64(len(p)) > t.Bytes || short > 0 && !extra {
		w.err = fmt.Errorf("vqf: write %s: %d bytes for tensor %q, which has %d", w.path, len(p), name, t.Bytes)
		return w.err
	}
	if _, err := w.Write(p); err != nil || short == 0 {
		return err
	}
	_, err := w.Write(make([]byte, short))
	return err
}

// advance pads to the next entry and steps over empty ones.
func (w *Writer) advance() {
	ts := w.plan.Tensors
	for w.err == nil {
		w.next++
		end := w.plan.Header.FileLen
		if w.next < len(ts) {
			end = ts[w.next].Offset
		}
		if end < w.at || end-w.at >= Align && w.next > 0 {
			w.err = fmt.Errorf("vqf: write %s: internal error: entry %d at %d follows %d", w.path, w.next, end, w.at)
			return
		}
		if end > w.at {
			w.data(make([]byte, end-w.at))
		}
		if w.next >= len(ts) {
			w.left = 0
			return
		}
		if w.left = ts[w.next].Bytes; w.left > 0 {
			return
		}
	}
}

// data writes bytes of the data area; hashing runs beside the writing.
func (w *Writer) data(p []byte) {
	if w.seal != nil {
		w.dataSealed(p)
		return
	}
	const worth = 64 << 10 // below this a goroutine costs more than it saves
	if len(p) < worth {
		w.sum = fnvUpdate(w.sum, p)
		w.err = w.put(p)
		return
	}
	sum := make(chan uint64, 1)
	go func() { sum <- fnvUpdate(w.sum, p) }()
	err := w.put(p)
	w.sum = <-sum
	w.err = err
}

func (w *Writer) put(p []byte) error {
	n, err := w.f.Write(p)
	w.at += uint64(n)
	if err != nil {
		return fmt.Errorf("vqf: write %s: %w", w.path, err)
	}
	return nil
}

// Commit finishes the file: writes the checksum, syncs, reads the file back,
// compares, and only then gives it its name, replacing what had it. On an
// error the temporary file is removed and the old one is as it was.
func (w *Writer) Commit() (Result, error) { return w.CommitContext(context.Background(), nil) }

// CommitContext is Commit that can be cancelled while it reads back, and that
// reports how far it is (progress may be nil).
func (w *Writer) CommitContext(ctx context.Context, progress func(done, total int64)) (Result, error) {
	return w.CommitChecked(ctx, progress, nil)
}

// CommitChecked is CommitContext that also asks check about the finished file,
// by the name it has until then: only what passes gets its own. So a file that
// cannot be used never lies where others look for files.
func (w *Writer) CommitChecked(ctx context.Context, progress func(done, total int64), check func(tmp string) error) (Result, error) {
	defer func() {
		if w.partial && ctx.Err() != nil {
			w.Leave()
		}
		w.Abort()
	}()
	if w.f == nil {
		return Result{}, fmt.Errorf("vqf: commit %s: %w", w.path, os.ErrClosed)
	}
	if t, left, ok := w.Next(); w.err == nil && ok {
		w.err = fmt.Errorf("vqf: commit %s: tensor %q lacks %d of %d bytes", w.path, t.Name, left, t.Bytes)
	}
	var trailer []byte
	if w.err == nil && w.at != w.header.FileLen {
		w.err = fmt.Errorf("vqf: commit %s: internal error: the data ends at %d, not at %d", w.path, w.at, w.header.FileLen)
	}
	if w.err == nil {
		if trailer, w.err = w.finish(); w.err == nil {
			w.err = w.put(trailer)
		}
	}
	if w.err == nil {
		w.err = w.f.Sync()
	}
	if w.err != nil {
		return Result{}, w.err
	}
	res, err := w.readBack(ctx, trailer, progress)
	if err != nil {
		return Result{}, err
	}
	if check != nil {
		if err := check(w.tmp); err != nil {
			return Result{}, err
		}
	}
	if err := os.Rename(w.tmp, w.path); err != nil {
		return Result{}, fmt.Errorf("vqf: commit: %w", err)
	}
	err = w.f.Close()
	w.f = nil
	if err != nil {
		return Result{}, fmt.Errorf("vqf: commit %s: %w", w.path, err)
	}
	return res, syncDir(filepath.Dir(w.path))
}

// readBack opens the file as a reader would and sums it again.
func (w *Writer) readBack(ctx context.Context, trailer []byte, progress func(done, total int64)) (Result, error) {
	st, err := w.f.Stat()
	if err != nil {
		return Result{}, fmt.Errorf("vqf: commit: %w", err)
	}
	p, err := parse(w.f, st.Size())
	if err != nil {
		return Result{}, fmt.Errorf("vqf: commit: read back: %w", withPath(err, w.path))
	}
	prefix := make([]byte, w.plan.Header.DataOffset)
	if err := readFull(w.f, prefix, 0); err != nil {
		return Result{}, fmt.Errorf("vqf: commit: read back: %w", withPath(err, w.path))
	}
	if !bytes.Equal(prefix, w.prefix()) { // no checksum covers the header
		return Result{}, fmt.Errorf("vqf: commit %s: header or directory read back differ: the storage is faulty: %w", w.path, ErrChecksum)
	}
	digest, sum := sha256.New(), newFNVRange(&p.header)
	hash := func(_ int64, b []byte) { digest.Write(b) }
	if err := visit(ctx, w.f, 0, st.Size(), progress, sum.sink, hash); err != nil {
		return Result{}, fmt.Errorf("vqf: commit: read back: %w", withPath(err, w.path))
	}
	stored := make([]byte, len(trailer))
	if err := readFull(w.f, stored, int64(w.header.FileLen)); err != nil {
		return Result{}, withPath(err, w.path)
	}
	if sum.h != w.sum || !bytes.Equal(stored, trailer) {
		return Result{}, fmt.Errorf("vqf: commit %s: wrote sum 0x%016x, read back 0x%016x, trailer %x for %x: the storage is faulty: %w",
			w.path, w.sum, sum.h, stored, trailer, ErrChecksum)
	}
	return Result{Size: st.Size(), MemSum: w.sum, FileSum: sum.h, SHA256: hex.EncodeToString(digest.Sum(nil))}, nil
}

// Abort removes the temporary file. It may be called at any time, more than once.
func (w *Writer) Abort() {
	if w.f == nil {
		return
	}
	w.stop()
	_ = w.f.Close() // the file goes anyway
	_ = os.Remove(w.tmp)
	w.f = nil
	if w.err == nil {
		w.err = fmt.Errorf("vqf: write %s: %w", w.path, os.ErrClosed)
	}
}

// syncDir makes a rename last.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("vqf: sync directory: %w", err)
	}
	err = d.Sync()
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("vqf: sync directory: %w", err)
	}
	return nil
}
