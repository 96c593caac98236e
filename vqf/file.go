// SPDX-License-Identifier: Apache-2.0

package vqf

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"

	"windhover/vqf/seal"
)

// OpenOptions says how much a file is checked beyond its structure and size, and
// how an encrypted one is read. The zero value takes every layout and does not
// read the data.
type OpenOptions struct {
	Strict    bool  // refuse unless the layout bits equal those of Expect
	Expect    Flags // the engine's flags, for Strict
	FullCheck bool  // read the whole file and compare the checksum, or the tag

	// Key reads encrypted files; others do without. A file that needs one and
	// gets none is ErrKey.
	Key *seal.Key
	// Verified says that the tag of exactly this file was compared before, by
	// Verify or an earlier Open, and that nobody could write to it since: it is
	// not read for its tag again. FullCheck reads it all the same.
	Verified bool
	// Lazy leaves the data of an encrypted file where it is: Data and Floats fail
	// for it, and ReadTensor deciphers what is asked for. Memory does not grow
	// with the file.
	Lazy bool
}

// File is an open VQF file, mapped read-only; the data of an encrypted one is
// deciphered into memory of its own, or stays where it is. Its methods may be
// called at the same time from several goroutines. Slices from Data and Floats
// are views: they must not be used after Close, must not be written to, and
// fault if a plain file is truncated under them.
type File struct {
	parsed
	path   string
	byName map[string]int
	f      *os.File

	mu     sync.RWMutex // guards data and closed
	data   []byte       // the whole file, or the plain data area; nil if lazy or closed
	base   uint64       // offset in the file of data[0]
	closed bool

	q8once, q4once     sync.Once
	q8layout, q4layout Layout
	q8err, q4err       error
}

// Open opens a file after checking its header, directory, size and flags
// (docs/FORMAT.md sections 2, 3 and 4.2). It reads the first few KiB only,
// unless opt asks for a full check. An encrypted file is read whole, once: its
// tag is compared before anything of it is handed out, unless opt says that it
// was (docs/FORMAT.md section 9). Errors are *FormatError, *MismatchError or
// the system's.
func Open(path string, opt OpenOptions) (*File, error) {
	return OpenContext(context.Background(), path, opt, nil)
}

// OpenContext is Open that can be cancelled and that reports how far reading the
// data is (progress may be nil).
func OpenContext(ctx context.Context, path string, opt OpenOptions, progress func(done, total int64)) (*File, error) {
	f, size, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	p, err := parse(f, size)
	if err == nil && opt.Strict {
		err = checkStrict(p.header.Flags, opt.Expect)
	}
	if err == nil && opt.FullCheck && !p.encrypted() {
		err = p.checkSum(ctx, progress)
	}
	if err != nil {
		_ = f.Close() // read-only: nothing is lost
		return nil, withPath(err, path)
	}
	file := &File{parsed: *p, path: path, f: f, byName: make(map[string]int, len(p.tensors))}
	for i, t := range p.tensors {
		file.byName[t.Name] = i
	}
	if p.encrypted() {
		err = file.openEncrypted(ctx, opt, progress)
	} else if file.data, err = mmap(f, size); err != nil {
		err = fmt.Errorf("vqf: %s: map %d bytes: %w", path, size, err)
	}
	if err != nil {
		_ = f.Close()
		return nil, withPath(err, path)
	}
	return file, nil
}

// openRegular opens a regular file for reading. It does not wait at a pipe.
func openRegular(path string) (*os.File, int64, error) {
	f, err := openAtOnce(path)
	if err != nil {
		return nil, 0, fmt.Errorf("vqf: %w", err)
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("vqf: %s: is not a regular file", path)
	}
	if err != nil {
		_ = f.Close()
		return nil, 0, err
	}
	return f, st.Size(), nil
}

// Close unmaps the file. It may be called more than once; what Data and Floats
// returned is gone after the first time.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil
	}
	f.closed = true
	var err error
	if f.data != nil {
		err = munmap(f.data)
		f.data = nil
	}
	if cerr := f.f.Close(); err == nil {
		err = cerr
	}
	return err
}

// Path returns the path the file was opened by.
func (f *File) Path() string { return f.path }

// Size returns the file's length in bytes.
func (f *File) Size() int64 { return f.size }

// Header returns the header.
func (f *File) Header() Header { return f.header }

// Arch returns the architecture.
func (f *File) Arch() Arch { return f.header.Arch }

// Flags returns the flag word.
func (f *File) Flags() Flags { return f.header.Flags }

// Tensors returns the directory in file order.
func (f *File) Tensors() []Tensor { return slices.Clone(f.tensors) }

// Tensor returns the entry of that name.
func (f *File) Tensor(name string) (Tensor, bool) {
	i, ok := f.byName[name]
	if !ok {
		return Tensor{}, false
	}
	return f.tensors[i], true
}

// HasQ8 says whether the file holds q8_* tensors.
func (f *File) HasQ8() bool { _, ok := f.byName["q8_q"]; return ok }

// HasQ4 says whether the file holds q4_* tensors.
func (f *File) HasQ4() bool { _, ok := f.byName["q4_q"]; return ok }

// HasVision says whether the file holds vision tensors, whatever the source
// model had (docs/FORMAT.md section 11.5).
func (f *File) HasVision() bool { _, ok := f.byName["v_patch_embed"]; return ok }

// Encrypted says whether the file is stored encrypted.
func (f *File) Encrypted() bool { return f.encrypted() }

// Data returns a tensor's bytes, without padding, as a view of the mapping. The
// error is an unknown name, a closed file, or ErrUnsupported for an encrypted
// file opened with Lazy: ReadTensor serves those.
func (f *File) Data(name string) ([]byte, error) {
	t, ok := f.Tensor(name)
	if !ok {
		return nil, f.unknown(name)
	}
	f.mu.RLock()
	defer f.mu.RUnlock()
	switch {
	case f.closed:
		return nil, fmt.Errorf("vqf: %s: tensor %q: %w", f.path, name, os.ErrClosed)
	case f.data == nil:
		return nil, fmt.Errorf("vqf: %s: tensor %q is not in memory: the file is encrypted and was opened to be deciphered piece by piece: %w", f.path, name, ErrUnsupported)
	}
	// checkBounds held offset and bytes to the data area.
	at := t.Offset - f.base
	return f.data[at : at+t.Bytes : at+t.Bytes], nil
}

func (f *File) unknown(name string) error {
	return fmt.Errorf("vqf: %s: no tensor %q: %w", f.path, name, ErrFormat)
}

// ReadTensor reads bytes [off, off+len(dst)) of a tensor into dst, deciphered if
// the file is encrypted. It works for every file and reads by calls, not through
// a mapping: a failing disk is an error here, and no fault. A plain file is not
// checked by it, nor is one that was opened with Verified. The error is an
// unknown name, a range outside the tensor, a closed file, or the system's.
func (f *File) ReadTensor(name string, off int64, dst []byte) error {
	t, ok := f.Tensor(name)
	if !ok {
		return f.unknown(name)
	}
	if off < 0 || uint64(off) > t.Bytes || uint64(len(dst)) > t.Bytes-uint64(off) {
		return fmt.Errorf("vqf: %s: tensor %q: %d bytes from %d on are not within its %d: %w", f.path, name, len(dst), off, t.Bytes, ErrFormat)
	}
	return withPath(readFull(f.plain, dst, int64(t.Offset)+off), f.path)
}

// Floats returns an F32 tensor's values as a view, as Data does. The error is
// Data's, or another type.
func (f *File) Floats(name string) ([]float32, error) {
	t, ok := f.Tensor(name)
	if ok && t.Type != F32 {
		return nil, fmt.Errorf("vqf: %s: tensor %q is %s, not F32: %w", f.path, name, t.Type, ErrFormat)
	}
	b, err := f.Data(name)
	if err != nil {
		return nil, err
	}
	return floats(b)
}

// Tokenizer returns a copy of the embedded tokenizer.json, or nil if the file
// has none or it cannot be read.
func (f *File) Tokenizer() []byte { b, _ := f.extra(NameTokenizer); return b }

// Meta returns a copy of the embedded metadata (JSON), or nil as Tokenizer does.
func (f *File) Meta() []byte { b, _ := f.extra(NameMeta); return b }

// Q8Layout says how the text q8_* tensors are laid out, docs/FORMAT.md section
// 6.10. The flag decides where it can; where it is clear the file's metadata
// does, and else a look at the scales. The error is a file without q8_*
// tensors, or one that fits two layouts or none; the answer is kept.
func (f *File) Q8Layout() (Layout, error) {
	f.q8once.Do(func() { f.q8layout, f.q8err = f.findQ8Layout() })
	return f.q8layout, withPath(f.q8err, f.path)
}

// Q4Layout is Q8Layout for the q4_* tensors.
func (f *File) Q4Layout() (Layout, error) {
	f.q4once.Do(func() { f.q4layout, f.q4err = f.findQ4Layout() })
	return f.q4layout, withPath(f.q4err, f.path)
}
